#include "serve/listener.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <future>
#include <utility>

#include "admission/network_of.h"
#include "base/text.h"
#include "serve/http_connection.h"

namespace lucid {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using Tcp = asio::ip::tcp;
using Unix = asio::local::stream_protocol;

// The pause before the next try when the system has no file descriptor or memory left.
constexpr std::chrono::milliseconds kPause{100};

std::string ToText(const Tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

Result<Unix::endpoint> UnixEndpoint(const std::string& path) {
  constexpr std::size_t kLongest = 100;  // the system's limit is a little more
  if (path.starts_with('/') && path.size() <= kLongest) return Unix::endpoint(path);
  return InvalidInput(
      fmt::format("{} is not unix:/PATH of a socket, at most {} bytes long, from the root on",
                  Quoted(path), kLongest));
}

// A socket of a server that was killed is in the way of the next one. Errors: somebody listens to
// it, or it is something else.
Status RemoveDeadSocket(asio::io_context& io, const Unix::endpoint& endpoint) {
  const std::string path = endpoint.path();
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return Ok();
  Unix::socket probe(io);
  ErrorCode error;
  if (S_ISSOCK(info.st_mode)) probe.connect(endpoint, error);
  if (!S_ISSOCK(info.st_mode) || error != asio::error::connection_refused) {
    return IoError(fmt::format("cannot listen on unix:{}: {}", path,
                               S_ISSOCK(info.st_mode) ? "another server does" : "it is a file"));
  }
  ::unlink(path.c_str());
  return Ok();
}

}  // namespace

std::optional<std::string> SocketPath(const std::string& address) {
  constexpr std::string_view kPrefix = "unix:";
  if (!address.starts_with(kPrefix)) return std::nullopt;
  return address.substr(kPrefix.size());
}

Tcp::endpoint TcpEndpoint(const StreamProtocol::endpoint& endpoint) {
  Tcp::endpoint tcp;
  std::memcpy(tcp.data(), endpoint.data(), std::min(tcp.capacity(), endpoint.size()));
  tcp.resize(endpoint.size());
  return tcp;
}

Result<Tcp::endpoint> ParseAddress(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  ErrorCode error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const char* first = text.data() + std::min(colon, text.size() - 1) + 1;
  const auto [stop, code] = std::from_chars(std::min(first, end), end, port);
  if (error || address.is_v6() != bracketed || code != std::errc() || stop != end) {
    return InvalidInput(fmt::format(
        "{} is not ADDRESS:PORT with a numeric address, as 127.0.0.1:8080 or [::1]:8080",
        Quoted(text)));
  }
  return Tcp::endpoint(address, port);
}

Listener::Listener(Worker& worker, Accepted accepted)
    : worker_(worker),
      accepted_(std::move(accepted)),
      acceptor_(asio::make_strand(worker.io())),
      pause_(acceptor_.get_executor()) {}

Result<std::unique_ptr<Listener>> Listener::Open(const std::string& address, Worker& worker,
                                                 Accepted accepted) {
  StreamProtocol::endpoint endpoint;
  const std::optional<std::string> path = SocketPath(address);
  if (path) {
    LUCID_ASSIGN(const Unix::endpoint unix_endpoint, UnixEndpoint(*path));
    LUCID_TRY(RemoveDeadSocket(worker.io(), unix_endpoint));
    endpoint = unix_endpoint;
  } else {
    LUCID_ASSIGN(endpoint, ParseAddress(address));
  }
  std::unique_ptr<Listener> listener(new Listener(worker, std::move(accepted)));
  auto& acceptor = listener->acceptor_;
  ErrorCode error;
  acceptor.open(endpoint.protocol(), error);
  if (!error && !path) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
  // No moment between making it and its mode: nobody may connect to it before it listens.
  if (!error) acceptor.bind(endpoint, error);
  if (!error && path) listener->socket_path_ = *path;
  if (!error && path && ::chmod(path->c_str(), 0600) != 0) {
    error = ErrorCode(errno, boost::system::system_category());
  }
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) acceptor.non_blocking(true, error);
  const StreamProtocol::endpoint bound = error ? endpoint : acceptor.local_endpoint(error);
  if (error) return IoError(fmt::format("cannot listen on {}: {}", address, error.message()));
  listener->address_ = path ? address : ToText(TcpEndpoint(bound));
  return listener;
}

Listener::~Listener() {
  if (!socket_path_.empty()) ::unlink(socket_path_.c_str());
}

void Listener::Start() { Accept(); }

void Listener::Accept() {
  acceptor_.async_accept(asio::make_strand(worker_.io()),
                         [this](const ErrorCode& error, StrandSocket socket) {
                           // What follows is arranged first: this one may be more than there is
                           // memory for.
                           AcceptAfter(error);
                           if (!error) Admit(std::move(socket));
                         });
}

void Listener::AcceptAfter(const ErrorCode& error) {
  if (!acceptor_.is_open()) return asio::post(acceptor_.get_executor(), stopped_);
  if (!error || error == asio::error::connection_aborted) return Accept();
  worker_.log().Event("error", fmt::format("cannot accept connections: {}", error.message()));
  pause_.expires_after(kPause);
  pause_.async_wait([this](const ErrorCode&) { AcceptAfter({}); });
}

void Listener::Admit(StrandSocket socket) {
  ErrorCode gone;
  const StreamProtocol::endpoint peer = socket.remote_endpoint(gone);
  if (!gone && socket_path_.empty()) socket.set_option(Tcp::no_delay(true), gone);
  if (gone) return;
  std::string client = socket_path_.empty() ? NetworkOf(TcpEndpoint(peer).address()) : "unix";
  accepted_(std::move(socket), std::move(client));
}

Result<std::unique_ptr<Listener>> Listener::Open(const std::string& address, Port port,
                                                 Worker& worker, std::shared_ptr<Places> places) {
  return Open(address, worker,
              [&worker, port, places = std::move(places)](StrandSocket socket, std::string client) {
                Metrics& metrics = worker.metrics();
                auto place = places->Take(client);
                if (!place) ++metrics.connections_refused;
                if (!place && port == Port::kAdmin) {
                  ErrorCode ignored;  // it is told if that is possible without waiting
                  socket.non_blocking(true, ignored);
                  socket.send(asio::buffer(TooManyConnections()), 0, ignored);
                  socket.shutdown(StrandSocket::shutdown_send, ignored);
                  return;
                }
                if (port == Port::kPublic) ++metrics.connections_total;
                StartHttpConnection(worker, std::move(socket), port, std::move(client),
                                    std::move(place));
              });
}

void Listener::Stop() {
  // Shared: who waits may be gone while the other thread is still inside set_value.
  const auto closed = std::make_shared<std::promise<void>>();
  asio::post(acceptor_.get_executor(), [this, closed] {
    // An accept or a pause is always under way; one that had just succeeded brings a connection,
    // too. It ends with this.
    stopped_ = [closed] { closed->set_value(); };
    ErrorCode error;
    while (true) {  // closing would reset what waits in the queue
      StrandSocket socket = acceptor_.accept(asio::make_strand(worker_.io()), error);
      if (error) break;
      Admit(std::move(socket));
    }
    acceptor_.close(error);
    pause_.cancel();
  });
  closed->get_future().wait();
}

}  // namespace lucid
