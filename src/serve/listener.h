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
// "unix:/run/lucid/admin.sock": the path; none: it is no such address.
std::optional<std::string> SocketPath(const std::string& address);

class Listener {
 public:
  // Listens, but accepts nothing yet; then as many as there are places. Keeps a reference. A socket
  // in the file system has mode 0600, takes the place of one that nobody listens to any more, and
  // goes when this ends.
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
  Listener(Port port, Worker& worker, std::shared_ptr<Places> places);
  void Accept();
  void AcceptAfter(const boost::system::error_code& error);
  void Admit(StrandSocket socket);

  Port port_;
  Worker& worker_;
  std::shared_ptr<Places> places_;
  // On a strand of its own, with pause_.
  boost::asio::basic_socket_acceptor<StreamProtocol> acceptor_;
  boost::asio::steady_timer pause_;
  std::function<void()> stopped_;  // of Stop
  std::string address_;
  std::string socket_path_;  // of a socket in the file system that this made; empty: none
};

}  // namespace lucid
