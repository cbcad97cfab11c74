// Stands in for http_client.cc where the part FETCH is left out.
#include "audit/http_client.h"
#include "base/left_out.h"

namespace lucid {

struct HttpClient::Impl {};

Result<HttpClient> HttpClient::Connect(const std::string&, const std::string&) {
  return LeftOut("audits over HTTP", "LUCID_FETCH", "libcurl");
}
HttpClient::HttpClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
Result<std::int32_t> HttpClient::Ask(std::span<const float>) {
  return InternalError("no HttpClient can be made in this build");
}

}  // namespace lucid
