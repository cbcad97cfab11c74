// One thread with an event loop of its own, and the connections it holds. Nothing of a connection
// is ever touched by another thread, so nothing is locked.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "lucid/serve/server.h"
#include "serve/connection_slots.h"
#include "serve/exchange.h"
#include "serve/log.h"

namespace lucid {

enum class Port : std::uint8_t { kPublic, kAdmin };

// What a reload replaces as a whole.
struct Service {
  std::array<std::shared_ptr<const Site>, 2> sites;  // by Port
  std::shared_ptr<boost::asio::ssl::context> tls;    // of the public port; null: none
};

// The service of new requests; none before the first Set. Thread-safe; what Set gives is in service
// when it returns.
class CurrentService {
 public:
  void Set(std::shared_ptr<const Service> service) {
    const std::lock_guard lock(mutex_);
    service_ = std::move(service);
    ++generation_;
  }
  // Makes `known` the current one, which was so at `generation`. Takes the lock only after a Set.
  void Update(std::shared_ptr<const Service>& known, std::uint64_t& generation) const {
    if (generation_.load(std::memory_order_acquire) == generation) return;
    const std::lock_guard lock(mutex_);
    known = service_;
    generation = generation_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Service> service_;
  std::atomic<std::uint64_t> generation_{0};
};

// A connection as its worker sees it.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;
  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection() = default;

  Clock::time_point deadline() const { return deadline_; }
  virtual void Expire() = 0;  // the deadline has passed
  // The server ends: do not wait for a next request, and not long for a first one.
  virtual void CloseIfIdle() = 0;
  virtual void Close() = 0;

 protected:
  Clock::time_point deadline_ = Clock::time_point::max();
};

class Worker {
 public:
  using Clock = Connection::Clock;

  // Keeps references.
  Worker(const ServeOptions& options, const CurrentService& current, Metrics& metrics,
         ServerLog& log);

  // Thread-safe.
  boost::asio::io_context& io() { return io_; }
  void CloseConnectionsAfterAnswers();  // from now on
  // Idle connections end now, others after their answer or `seconds`; then Run returns.
  void Drain(double seconds);

  void Run();

  // For connections, on the worker's thread.
  void Add(Connection& connection) { connections_.insert(&connection); }
  void Remove(Connection& connection);
  const ServeOptions& options() const { return options_; }
  const std::shared_ptr<const Service>& service() {
    current_.Update(service_, generation_);
    return service_;
  }
  Metrics& metrics() { return metrics_; }
  ServerLog& log() { return log_; }
  bool closing() const { return closing_; }    // after the answer that is due
  bool draining() const { return draining_; }  // no further request is waited for
  // The Date field's value; a second old at most.
  const std::string& date() const { return date_; }

 private:
  void Sweep();
  template <typename Visit>  // void(Connection&), which may remove it
  void ForEach(Visit visit);
  void StopIfDone();

  const ServeOptions& options_;
  const CurrentService& current_;
  std::shared_ptr<const Service> service_;
  std::uint64_t generation_ = 0;
  Metrics& metrics_;
  ServerLog& log_;
  std::unordered_set<Connection*> connections_;
  Clock::time_point drain_until_ = Clock::time_point::max();
  bool closing_ = false, draining_ = false;
  std::string date_;
  boost::asio::io_context io_{1};  // after what its handlers use
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::steady_timer sweep_;
};

}  // namespace lucid
