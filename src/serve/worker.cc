#include "serve/worker.h"

#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

namespace lucid {
namespace {

namespace asio = boost::asio;

// How late a deadline may be noticed.
constexpr std::chrono::milliseconds kSweepInterval{100};

std::chrono::nanoseconds Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

}  // namespace

Worker::Worker(const ServeOptions& options, const CurrentService& current, Metrics& metrics,
               ServerLog& log)
    : options_(options),
      current_(current),
      metrics_(metrics),
      log_(log),
      request_places_(Places::Create(options.limits.requests, options.limits.RequestsPerClient(),
                                     metrics.requests_in_flight, options.limits.requests / 4)),
      half_open_(HalfOpen::Create(
          {.total = options.limits.half_open, .per_client = options.limits.HalfOpenPerClient()},
          metrics.connections_half_open)),
      probes_(HalfOpen::Create(kProbes, metrics.probes_open)),
      work_(io_.get_executor()),
      sweep_(io_) {
  const std::lock_guard lock(mutex_);
  AwaitSweep();
}

void Worker::Run() {
  while (true) {
    try {
      io_.run();
      return;
    } catch (const std::exception& e) {
      // Out of memory for one request: its connection may be gone with it, the others need not be.
      log_.Event("error", e.what());
    }
  }
}

void Worker::Drain(double seconds) {
  drain_until_ = Clock::now() + Seconds(seconds);
  closing_ = draining_ = true;
  for (const auto& connection : Connections()) {
    asio::post(connection->strand(), [connection] { connection->CloseIfIdle(); });
  }
  const std::lock_guard lock(mutex_);
  StopIfDone();
}

void Worker::Add(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  connections_.emplace(connection.get(), connection);
}

void Worker::Remove(Connection& connection) {
  const std::lock_guard lock(mutex_);
  connections_.erase(&connection);
  StopIfDone();
}

void Worker::StopIfDone() {
  if (!draining_ || !connections_.empty()) return;
  sweep_.cancel();
  work_.reset();
}

// The connections that are not about to end.
std::vector<std::shared_ptr<Connection>> Worker::Connections() {
  std::vector<std::shared_ptr<Connection>> all;
  const std::lock_guard lock(mutex_);
  all.reserve(connections_.size());
  for (const auto& [address, connection] : connections_) {
    if (auto alive = connection.lock()) all.push_back(std::move(alive));
  }
  return all;
}

void Worker::AwaitSweep() {
  sweep_.expires_after(kSweepInterval);
  sweep_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Sweep();
  });
}

// One timer for all connections: a timer for each, set anew for each request, would cost more than
// answering.
void Worker::Sweep() {
  const Clock::time_point now = Clock::now();
  const bool over = now >= drain_until_.load();
  for (const auto& connection : Connections()) {
    if (over) {
      asio::post(connection->strand(), [connection] { connection->Close(); });
    } else if (now >= connection->deadline()) {
      asio::post(connection->strand(), [connection] {
        if (Clock::now() >= connection->deadline()) connection->Expire();  // still, or again
      });
    }
  }
  const std::lock_guard lock(mutex_);
  if (!draining_ || !connections_.empty()) AwaitSweep();
}

}  // namespace lucid
