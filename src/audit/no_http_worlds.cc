// Stands in for http_worlds.cc where the part SERVE is left out.
#include "audit/http_worlds.h"
#include "base/left_out.h"

namespace lucid {

struct ServedRun::Impl {};
struct HttpWorlds::Impl {};

bool IsServed(Method) { return true; }  // so that whoever asks for HTTP is told why there is none

Result<HttpWorlds> HttpWorlds::Open(const HttpWorldsOptions&, const Schema&, std::int64_t,
                                    const NetworkLabels&) {
  return LeftOut("audits over HTTP", "LUCID_SERVE", "Boost and OpenSSL");
}
Result<ServedRun> ServedRun::Open(const HttpWorldsOptions&) {
  return LeftOut("audits over HTTP", "LUCID_SERVE", "Boost and OpenSSL");
}
ServedRun::ServedRun(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ServedRun::~ServedRun() = default;
ServedRun::ServedRun(ServedRun&&) noexcept = default;
Result<std::int32_t> ServedRun::Ask(std::span<const float>) {
  return InternalError("no run is served in this build");
}
HttpWorlds::HttpWorlds(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpWorlds::~HttpWorlds() = default;
HttpWorlds::HttpWorlds(HttpWorlds&&) noexcept = default;
Status HttpWorlds::AskMeanwhile(const std::vector<std::vector<float>>&, std::uint64_t) {
  return InternalError("no HttpWorlds can be made in this build");
}
Result<std::int32_t> HttpWorlds::AskDeployed(std::span<const float>) {
  return InternalError("no HttpWorlds can be made in this build");
}
Result<std::int32_t> HttpWorlds::AskOther(const NetworkLabels&, std::span<const float>) {
  return InternalError("no HttpWorlds can be made in this build");
}

}  // namespace lucid
