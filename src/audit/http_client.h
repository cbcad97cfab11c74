// A client of label-only access over HTTP.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lucid/base/result.h"

namespace lucid {

// One connection, kept alive; opened again if the server ended it between two requests. One thread.
class HttpClient {
 public:
  // url: http://HOST:PORT, HOST a name or an address. `api_key`: empty for none. Errors: a URL of
  // another form; a server that cannot be reached.
  static Result<HttpClient> Connect(const std::string& url, const std::string& api_key = "");
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;

  // The label of one row of encoded features by POST /predict; kRefused if the server says that
  // this row must not be asked. Errors, in one line with URL and status: no answer within 20 s, any
  // other status than 200, a body that is not the answer to this request.
  Result<std::int32_t> Ask(std::span<const float> x);

 private:
  struct Impl;
  explicit HttpClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lucid
