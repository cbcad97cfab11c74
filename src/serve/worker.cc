#include "serve/worker.h"

#include <fmt/chrono.h>

#include <boost/asio/post.hpp>
#include <ctime>
#include <exception>
#include <utility>
#include <vector>

namespace lucid {
namespace {

// How late a deadline may be noticed.
constexpr std::chrono::milliseconds kSweepInterval{100};

std::chrono::nanoseconds Seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

std::string HttpDate() {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S GMT}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace

Worker::Worker(const ServeOptions& options, const CurrentService& current, Metrics& metrics,
               ServerLog& log)
    : options_(options),
      current_(current),
      metrics_(metrics),
      log_(log),
      date_(HttpDate()),
      work_(io_.get_executor()),
      sweep_(io_) {}

void Worker::Run() {
  Sweep();
  while (true) {
    try {
      io_.run();
      return;
    } catch (const std::exception& e) {
      // Out of memory for one request: its connection is gone with it, the others need not be.
      log_.Event("error", e.what());
    }
  }
}

void Worker::CloseConnectionsAfterAnswers() {
  boost::asio::post(io_, [this] { closing_ = true; });
}

void Worker::Drain(double seconds) {
  boost::asio::post(io_, [this, seconds] {
    closing_ = draining_ = true;
    drain_until_ = Clock::now() + Seconds(seconds);
    ForEach([](Connection& connection) { connection.CloseIfIdle(); });
    StopIfDone();
  });
}

void Worker::Remove(Connection& connection) {
  connections_.erase(&connection);
  StopIfDone();
}

void Worker::StopIfDone() {
  if (!draining_ || !connections_.empty()) return;
  sweep_.cancel();
  work_.reset();
}

template <typename Visit>
void Worker::ForEach(Visit visit) {
  const std::vector<Connection*> all(connections_.begin(), connections_.end());
  for (Connection* connection : all) {
    if (connections_.contains(connection)) visit(*connection);
  }
}

// One timer for all connections: a timer for each, set anew for each request, would cost more than
// answering.
void Worker::Sweep() {
  const Clock::time_point now = Clock::now();
  date_ = HttpDate();
  ForEach([&](Connection& connection) {
    if (now >= drain_until_) {
      connection.Close();
    } else if (now >= connection.deadline()) {
      connection.Expire();
    }
  });
  if (draining_ && connections_.empty()) return;
  sweep_.expires_after(kSweepInterval);
  sweep_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Sweep();
  });
}

}  // namespace lucid
