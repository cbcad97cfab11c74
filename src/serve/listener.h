// A listening socket, and what becomes of those who connect to it.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lucid/base/result.h"
#include "serve/worker.h"

namespace lucid {

// "127.0.0.1:8080" or "[::1]:8080"; a number, not a name.
Result<boost::asio::ip::tcp::endpoint> ParseAddress(const std::string& text);
// Requires: it is one of TCP.
boost::asio::ip::tcp::endpoint TcpEndpoint(const StreamProtocol::endpoint& endpoint);
// "unix:/run/lucid/admin.sock": the path; none: it is no such address.
std::optional<std::string> SocketPath(const std::string& address);

class Listener {
 public:
  // Gets every connection, with what NetworkOf says of the other side. Called by one thread at a
  // time.
  using Accepted = std::function<void(StrandSocket socket, std::string client)>;

  // Listens, but accepts nothing yet. Keeps a reference. A socket in the file system has mode 0600,
  // takes the place of one that nobody listens to any more, and goes when this ends.
  static Result<std::unique_ptr<Listener>> Open(const std::string& address, Worker& worker,
                                                Accepted accepted);
  // The same, for HTTP on as many connections as there are places.
  static Result<std::unique_ptr<Listener>> Open(const std::string& address, Port port,
                                                Worker& worker, std::shared_ptr<Places> places);

  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const std::string& address() const { return address_; }  // with the port that was chosen

  void Start();  // before the worker runs
  // After Start, while the worker runs. Takes what connected before, and closes. Not on a thread of
  // the worker; call once.
  void Stop();

 private:
  Listener(Worker& worker, Accepted accepted);
  void Accept();
  void AcceptAfter(const boost::system::error_code& error);
  void Admit(StrandSocket socket);

  Worker& worker_;
  const Accepted accepted_;
  // On a strand of its own, with pause_.
  boost::asio::basic_socket_acceptor<StreamProtocol> acceptor_;
  boost::asio::steady_timer pause_;
  std::function<void()> stopped_;  // of Stop
  std::string address_;
  std::string socket_path_;  // of a socket in the file system that this made; empty: none
};

}  // namespace lucid
