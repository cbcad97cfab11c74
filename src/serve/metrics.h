// What the server counts, for operators: the admin port shows it, nothing else may (the noised
// share and the budget are secrets of the guard).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lucid {

// What was asked, as a template: never the path itself, which clients choose.
enum class Endpoint : std::uint8_t {
  kPredict,      // POST /predict
  kInfer,        // POST /v2/models/{model}/infer
  kServerInfo,   // GET /v2
  kHealth,       // GET /v2/health/live, /v2/health/ready
  kModelInfo,    // GET /v2/models/{model}
  kModelReady,   // GET /v2/models/{model}/ready
  kModelConfig,  // GET /v2/models/{model}/config
  kModelStats,   // GET /v2/models/{model}/stats
  kOpenApi,      // GET /openapi.json
  kOther,        // anything else, and what could not be read
};
inline constexpr int kEndpoints = 10;
std::string_view NameOf(Endpoint endpoint);  // "predict", "infer", ...

// Log-linear: 16 steps for every doubling, so that a quantile is right within 1/16. From 1 us to an
// hour; lock-free; reading while others write is fine (each count is exact, their sum is of nearly
// one moment).
class LatencyHistogram {
 public:
  static constexpr int kSteps = 16, kDoublings = 32;
  static constexpr int kBuckets = kSteps * kDoublings;

  void Add(std::chrono::nanoseconds latency);
  struct Snapshot {
    std::array<std::int64_t, kBuckets> counts{};
    std::int64_t total = 0;
    double seconds = 0;  // their sum
    // The upper end of the bucket that the quantile lies in, in seconds; 0 if there is nothing.
    double Quantile(double q) const;
    // How many took at most so long: of the buckets that lie below it as a whole.
    std::int64_t AtMost(double seconds) const;
  };
  Snapshot Take() const;

 private:
  std::array<std::atomic<std::int64_t>, kBuckets> counts_{};
  std::atomic<std::int64_t> nanoseconds_{0};
};

// One second of traffic.
struct TrafficSecond {
  std::int64_t second = 0;                  // of the steady clock, since the server's start
  std::int64_t requests = 0, failures = 0;  // failures: status 500 and above
  std::int64_t rows = 0, noised = 0;
  double p50 = 0, p99 = 0;  // seconds
};

// Thread-safe; all counting is lock-free and takes tens of nanoseconds.
class Metrics {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kSeconds = 300;  // of history

  explicit Metrics(Clock::time_point start = Clock::now());

  struct Request {
    Endpoint endpoint = Endpoint::kOther;
    int status = 200;
    std::chrono::nanoseconds latency{0};  // from its first byte to the last byte of the answer
    std::int64_t rows = 0;                // answered
    std::int64_t noised = 0;              // of them
  };
  void Count(const Request& request, Clock::time_point now);

  // Plain counters and gauges the server keeps itself.
  std::atomic<std::int64_t> connections_open{0}, connections_total{0}, connections_refused{0};
  std::atomic<std::int64_t> connections_half_open{0}, probes_open{0};  // probes: beyond the limit
  std::atomic<std::int64_t> requests_in_flight{0};
  std::atomic<std::int64_t> keys_refused{0}, rate_limited{0};
  std::atomic<std::int64_t> ledger_failures{0}, reloads{0}, reload_failures{0};

  struct Snapshot {
    double uptime = 0;                                               // seconds
    std::array<std::array<std::int64_t, 5>, kEndpoints> requests{};  // [endpoint][status / 100 - 1]
    std::int64_t rows = 0, noised = 0;
    LatencyHistogram::Snapshot latency;
    std::vector<TrafficSecond> seconds;  // the last kSeconds that are over, oldest first
    std::int64_t Requests() const;
  };
  Snapshot Take(Clock::time_point now) const;

 private:
  // Counts of one second; reused after kSeconds. `second` says which; whoever comes first in a new
  // second clears it.
  struct Slot {
    static constexpr int kSteps = 4;  // for every doubling: enough for a chart
    static constexpr int kBuckets = kSteps * LatencyHistogram::kDoublings;
    std::atomic<std::int64_t> second{-1};
    std::atomic<std::int64_t> requests{0}, failures{0}, rows{0}, noised{0};
    std::array<std::atomic<std::int32_t>, kBuckets> latency{};
  };
  Slot& SlotOf(std::int64_t second);
  static TrafficSecond Read(const Slot& slot);

  Clock::time_point start_;
  std::array<std::array<std::atomic<std::int64_t>, 5>, kEndpoints> requests_{};
  std::atomic<std::int64_t> rows_{0}, noised_{0};
  LatencyHistogram latency_;
  std::vector<Slot> slots_;
};

}  // namespace lucid
