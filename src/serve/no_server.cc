// Stands in for the server where the part SERVE is left out.
#include "base/left_out.h"
#include "lucid/serve/server.h"

namespace lucid {

// No Server is ever made here, so none of the functions of an object is ever called.
struct Server::Impl {
  std::string none;
};

Result<Server> Server::Open(const ServeOptions&, LogSink) {
  return LeftOut("the HTTP server", "LUCID_SERVE", "Boost and OpenSSL");
}
Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
const std::string& Server::address() const { return impl_->none; }
const std::string& Server::admin_address() const { return impl_->none; }
const std::string& Server::grpc_address() const { return impl_->none; }
void Server::Run(const std::stop_token&) {}
Status Server::Reload() { return Ok(); }

}  // namespace lucid
