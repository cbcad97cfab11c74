#include "data/download.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/text.h"
#include "lucid/base/version.h"

namespace lucid {
namespace {

struct CurlCleanup {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
  void operator()(char* text) const { curl_free(text); }
};
using CurlHandle = std::unique_ptr<CURL, CurlCleanup>;

struct Transfer {
  explicit Transfer(const DownloadOptions& o) : options(o) {}

  const DownloadOptions& options;
  CURL* curl = nullptr;
  std::string body;
  bool too_long = false;
  std::size_t discarded = 0;  // bytes of an answer that is not a 200: its body does not matter
};

long StatusOf(CURL* curl) {
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

std::size_t OnData(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::size_t n = size * count;
  if (StatusOf(transfer.curl) != 200) {
    // A short answer is read to its end: only then does libcurl tell where a redirection leads.
    constexpr std::size_t kPatience = std::size_t{64} << 10;
    transfer.discarded += n;
    return transfer.discarded > kPatience ? CURL_WRITEFUNC_ERROR : n;
  }
  const auto limit = static_cast<std::size_t>(transfer.options.max_bytes);
  if (n > limit - transfer.body.size()) {
    transfer.too_long = true;
    return CURL_WRITEFUNC_ERROR;
  }
  transfer.body.append(data, n);
  return n;
}

int OnProgress(void* user, curl_off_t total, curl_off_t done, curl_off_t, curl_off_t) {
  const auto& options = static_cast<Transfer*>(user)->options;
  if (options.stop.stop_requested()) return 1;
  if (options.progress) options.progress({"downloading", "bytes", done, total, 0});
  return 0;
}

void Configure(CURL* curl, const std::string& url, Transfer& transfer) {
  const DownloadOptions& options = transfer.options;
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");  // CheckUrl says which
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, options.connect_timeout_seconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, options.stall_timeout_seconds);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
  curl_easy_setopt(curl, CURLOPT_USERAGENT, ("lucid/" + Version()).c_str());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnData);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
}

// One request. Ensures, if ok: the body of a 200 answer is in `transfer` and the result is empty,
// or the result is the address a redirection names.
Result<std::string> Request(const std::string& url, Transfer& transfer) {
  const CurlHandle curl(curl_easy_init());
  if (curl == nullptr) return InternalError("libcurl cannot start");
  char detail[CURL_ERROR_SIZE] = "";
  Configure(curl.get(), url, transfer);
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, detail);
  transfer.curl = curl.get();
  transfer.discarded = 0;
  const CURLcode code = curl_easy_perform(curl.get());
  if (transfer.options.stop.stop_requested()) return Interrupted("download stopped on request");
  if (transfer.too_long) {
    return Mismatch(fmt::format("cannot download {}: more than the expected {} bytes", url,
                                transfer.options.max_bytes));
  }
  if (code != CURLE_OK && transfer.discarded == 0) {
    return IoError(fmt::format("cannot download {}: {}", url,
                               detail[0] != '\0' ? detail : curl_easy_strerror(code)));
  }
  const long status = StatusOf(curl.get());
  const char* redirect = nullptr;
  curl_easy_getinfo(curl.get(), CURLINFO_REDIRECT_URL, &redirect);
  if (status >= 300 && status < 400 && redirect != nullptr) return std::string(redirect);
  if (status != 200) {
    return IoError(fmt::format("cannot download {}: the server answers {}", url, status));
  }
  return std::string();
}

}  // namespace

Status CheckUrl(const std::string& url) {
  const std::unique_ptr<CURLU, CurlCleanup> parsed(curl_url());
  const auto part = [&](CURLUPart which) {
    char* text = nullptr;
    curl_url_get(parsed.get(), which, &text, 0);
    const std::unique_ptr<char, CurlCleanup> owned(text);
    return text == nullptr ? std::string() : std::string(text);
  };
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) {
    return InvalidInput(fmt::format("{} is not a URL", Quoted(url)));
  }
  const std::string scheme = part(CURLUPART_SCHEME), host = part(CURLUPART_HOST);
  const bool here = host == "localhost" || host == "127.0.0.1" || host == "[::1]";
  if (scheme == "https" || (scheme == "http" && here)) return Ok();
  return InvalidInput(fmt::format(
      "{} must be https (http only from this machine: localhost, 127.0.0.1, [::1])", Quoted(url)));
}

Result<std::string> Download(const std::string& url, const DownloadOptions& options) {
  Transfer transfer(options);
  std::string at = url;
  for (int hop = 0; hop <= options.max_redirects; ++hop) {
    LUCID_TRY(CheckUrl(at));
    LUCID_ASSIGN(const std::string next, Request(at, transfer));
    if (next.empty()) return std::move(transfer.body);
    at = next;
  }
  return IoError(
      fmt::format("cannot download {}: more than {} redirections", url, options.max_redirects));
}

}  // namespace lucid
