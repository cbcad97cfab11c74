// A listening socket that deals its connections out to workers in turn.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lucid/base/result.h"
#include "serve/worker.h"

namespace lucid {

// "127.0.0.1:8080" or "[::1]:8080"; a number, not a name.
Result<boost::asio::ip::tcp::endpoint> ParseAddress(const std::string& text);

class Listener {
 public:
  // Listens, but accepts nothing yet. Accepts on the thread of the first worker, as many as there
  // are slots. References are kept.
  static Result<std::unique_ptr<Listener>> Open(const std::string& address, Port port,
                                                std::vector<Worker*> workers,
                                                std::shared_ptr<ConnectionSlots> slots);

  const std::string& address() const { return address_; }  // with the port that was chosen

  void Start();  // before the workers run
  // Thread-safe. Takes what connected before, closes, and calls `done` on the first worker's
  // thread.
  void Stop(std::function<void()> done);

 private:
  Listener(Port port, std::vector<Worker*> workers, std::shared_ptr<ConnectionSlots> slots);
  void Accept();
  void Admit(boost::asio::ip::tcp::socket socket, Worker& worker);
  Worker& NextWorker() { return *workers_[next_++ % workers_.size()]; }

  Port port_;
  std::vector<Worker*> workers_;
  std::shared_ptr<ConnectionSlots> slots_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  std::size_t next_ = 0;
  std::string address_;
};

}  // namespace lucid
