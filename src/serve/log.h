// The server's log: one line per request or event, written by a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "lucid/serve/server.h"
#include "serve/metrics.h"

namespace lucid {

// What is said of a request: never a value of a row, and nothing about how it was answered.
struct AccessRecord {
  std::string_view method;
  Endpoint endpoint = Endpoint::kOther;
  int status = 0;
  std::size_t bytes = 0;                // of the response
  std::chrono::nanoseconds latency{0};  // from the first byte of the request on
  std::string_view account;             // empty: none
  std::string_view trace_parent;        // empty: none
};

// Thread-safe. Lines reach the sink a few hundredths of a second later, many at once. A sink that
// is slow or stuck holds up nobody: beyond kMaxWaiting bytes lines are left out, and how many is
// said as soon as there is room.
class ServerLog {
 public:
  static constexpr std::size_t kMaxWaiting = 4 << 20;

  ServerLog(LogSink sink, bool json, bool access);
  ~ServerLog();  // writes what waits
  ServerLog(const ServerLog&) = delete;
  ServerLog& operator=(const ServerLog&) = delete;

  void Access(const AccessRecord& record);
  void Event(std::string_view level, std::string_view message);  // "info", "warning", "error"

 private:
  void Add(std::string_view line);
  void Run();

  LogSink sink_;
  bool json_, access_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string waiting_;  // whole lines
  std::int64_t left_out_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace lucid
