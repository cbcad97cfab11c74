// One file over HTTPS into memory.
#pragma once

#include <cstdint>
#include <string>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"

#include <stop_token>

namespace lucid {

struct DownloadOptions {
  std::int64_t max_bytes = 0;  // a longer body is an error
  int max_redirects = 5;
  long connect_timeout_seconds = 20;
  long stall_timeout_seconds = 30;  // without a byte
  ProgressCallback progress{};
  std::stop_token stop{};
};

// https anywhere; http only to this machine (localhost, 127.0.0.1, [::1]).
Status CheckUrl(const std::string& url);

// Every hop of a redirection passes CheckUrl. Ensures: the whole body of a 200 answer.
Result<std::string> Download(const std::string& url, const DownloadOptions& options);

}  // namespace lucid
