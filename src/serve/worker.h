// The event loop of a server's connections. Any number of threads may run it: whichever is free
// takes the next event, so that no connection waits for a thread that the system has put aside.
// (With a loop for each thread the slowest hundredth of the answers took twice as long.) All of one
// connection happens on its strand, one thing at a time, so nothing of it is locked.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "admission/half_open.h"
#include "admission/places.h"
#include "admission/tls.h"
#include "lucid/serve/server.h"
#include "serve/exchange.h"
#include "serve/log.h"

namespace lucid {

enum class Port : std::uint8_t { kPublic, kAdmin };

// What a reload replaces as a whole.
struct Service {
  std::array<std::shared_ptr<const Site>, 2> sites;  // by Port
  std::shared_ptr<const ServerTls> tls;              // of the ports for clients; null: none
};

// The service of new requests; none before the first Set. Thread-safe; what Set gives is in service
// when it returns.
class CurrentService {
 public:
  void Set(std::shared_ptr<const Service> service) {
    const std::lock_guard lock(mutex_);
    service_.swap(service);
  }
  std::shared_ptr<const Service> Get() const {
    const std::lock_guard lock(mutex_);
    return service_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Service> service_;
};

using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
// Of TCP, or a Unix socket's.
using StreamProtocol = boost::asio::generic::stream_protocol;
using StrandSocket = boost::asio::basic_stream_socket<StreamProtocol, Strand>;

// A connection as its worker sees it.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;
  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection() = default;

  // Thread-safe.
  virtual Strand strand() = 0;
  Clock::time_point deadline() const { return deadline_; }

  // On the strand.
  virtual void Expire() = 0;  // the deadline has passed
  // Too many others have not come whole, either, or are beyond the limit.
  virtual void Drop() = 0;
  // The server ends: do not wait for a next request, and not long for a first one.
  virtual void CloseIfIdle() = 0;
  virtual void Close() = 0;

 protected:
  std::atomic<Clock::time_point> deadline_ = Clock::time_point::max();
};

// Thread-safe.
class Worker {
 public:
  using Clock = Connection::Clock;
  static constexpr HalfOpen::Limits kProbes{.total = 64, .per_client = 16};

  // Keeps references.
  Worker(const ServeOptions& options, const CurrentService& current, Metrics& metrics,
         ServerLog& log);

  boost::asio::io_context& io() { return io_; }
  void CloseConnectionsAfterAnswers() { closing_ = true; }  // from now on
  // Idle connections end now, others after their answer or `seconds`; then every Run returns. Call
  // when nothing is accepted any more.
  void Drain(double seconds);

  // Runs the events. As many threads call it as events are to be handled at once.
  void Run();

  // For connections. One that was added is closed when its deadline, or that of Drain, has passed.
  void Add(const std::shared_ptr<Connection>& connection);
  void Remove(Connection& connection);
  const ServeOptions& options() const { return options_; }
  std::shared_ptr<const Service> service() const { return current_.Get(); }
  Metrics& metrics() { return metrics_; }
  Places& request_places() { return *request_places_; }  // of requests for labels
  HalfOpen& half_open() { return *half_open_; }
  // Connections beyond the limit, each until its socket is closed: they may ask for health, so that
  // a flood cannot make it look bad.
  HalfOpen& probes() { return *probes_; }
  ServerLog& log() { return log_; }
  bool closing() const { return closing_; }    // after the answer that is due
  bool draining() const { return draining_; }  // no further request is waited for

 private:
  void AwaitSweep();  // requires: mutex_ is held
  void Sweep();
  std::vector<std::shared_ptr<Connection>> Connections();
  void StopIfDone();  // requires: mutex_ is held

  const ServeOptions& options_;
  const CurrentService& current_;
  Metrics& metrics_;
  ServerLog& log_;
  const std::shared_ptr<Places> request_places_;
  const std::shared_ptr<HalfOpen> half_open_, probes_;
  std::atomic<bool> closing_{false}, draining_{false};
  std::atomic<Clock::time_point> drain_until_ = Clock::time_point::max();
  std::mutex mutex_;  // guards connections_, work_ and sweep_
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections_;
  boost::asio::io_context io_;  // after what its handlers use
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::steady_timer sweep_;
};

}  // namespace lucid
