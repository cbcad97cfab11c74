#include "serve/metrics.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lucid {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Buckets of [2^k, 2^(k+1)) microseconds in `steps` equal parts; below one microsecond all in the
// first, beyond the last doubling all in the last.
int BucketOf(std::chrono::nanoseconds latency, int steps) {
  // In 1/steps of a microsecond, so that whole numbers are enough: steps << k is the start of
  // doubling k.
  const auto unit = static_cast<std::uint64_t>(steps);
  const auto nanoseconds = static_cast<std::uint64_t>(std::max<std::int64_t>(latency.count(), 0));
  const std::uint64_t scaled = nanoseconds / 1000 * unit + nanoseconds % 1000 * unit / 1000;
  if (scaled < unit) return 0;
  const auto doubling = static_cast<int>(std::bit_width(scaled) - std::bit_width(unit));
  if (doubling >= LatencyHistogram::kDoublings) return LatencyHistogram::kDoublings * steps - 1;
  return doubling * steps + static_cast<int>((scaled >> doubling) - unit);
}

// The upper end of a bucket, in seconds.
double EndOf(int bucket, int steps) {
  const int doubling = bucket / steps, step = bucket % steps;
  return std::ldexp(1 + (step + 1.0) / steps, doubling) * 1e-6;
}

template <typename Counts>
double QuantileOf(const Counts& counts, std::int64_t total, double q, int steps) {
  if (total == 0) return 0;
  const auto rank = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::ceil(q * static_cast<double>(total))));
  std::int64_t below = 0;
  for (int bucket = 0; bucket < std::ssize(counts); ++bucket) {
    below += counts[bucket];
    if (below >= rank) return EndOf(bucket, steps);
  }
  return EndOf(static_cast<int>(std::ssize(counts)) - 1, steps);
}

int StatusClass(int status) { return std::clamp(status / 100, 1, 5) - 1; }

}  // namespace

std::string_view NameOf(Endpoint endpoint) {
  static constexpr std::array<std::string_view, kEndpoints> kNames = {
      "predict",     "infer",        "server",      "health",  "model",
      "model_ready", "model_config", "model_stats", "openapi", "other"};
  return kNames[static_cast<std::size_t>(endpoint)];
}

void LatencyHistogram::Add(std::chrono::nanoseconds latency) {
  counts_[BucketOf(latency, kSteps)].fetch_add(1, kRelaxed);
  nanoseconds_.fetch_add(latency.count(), kRelaxed);
}

LatencyHistogram::Snapshot LatencyHistogram::Take() const {
  Snapshot snapshot;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    snapshot.counts[i] = counts_[i].load(kRelaxed);
    snapshot.total += snapshot.counts[i];
  }
  snapshot.seconds = static_cast<double>(nanoseconds_.load(kRelaxed)) * 1e-9;
  return snapshot;
}

double LatencyHistogram::Snapshot::Quantile(double q) const {
  return QuantileOf(counts, total, q, kSteps);
}

std::int64_t LatencyHistogram::Snapshot::AtMost(double limit) const {
  std::int64_t count = 0;
  for (int bucket = 0; bucket < kBuckets && EndOf(bucket, kSteps) <= limit; ++bucket) {
    count += counts[bucket];
  }
  return count;
}

Metrics::Metrics(Clock::time_point start) : start_(start), slots_(kSeconds + 1) {}

Metrics::Slot& Metrics::SlotOf(std::int64_t second) {
  Slot& slot = slots_[static_cast<std::size_t>(second) % slots_.size()];
  std::int64_t seen = slot.second.load(std::memory_order_acquire);
  // Whoever comes first in a new second clears the slot. Others may count into it meanwhile: a
  // chart can miss a few requests of the first microsecond, totals cannot (they are elsewhere).
  if (seen < second && slot.second.compare_exchange_strong(seen, second)) {
    for (auto* count : {&slot.requests, &slot.failures, &slot.rows, &slot.noised}) {
      count->store(0, kRelaxed);
    }
    for (auto& count : slot.latency) count.store(0, kRelaxed);
  }
  return slot;
}

void Metrics::Count(const Request& request, Clock::time_point now) {
  requests_[static_cast<std::size_t>(request.endpoint)][StatusClass(request.status)].fetch_add(
      1, kRelaxed);
  rows_.fetch_add(request.rows, kRelaxed);
  noised_.fetch_add(request.noised, kRelaxed);
  latency_.Add(request.latency);

  const auto second = std::chrono::floor<std::chrono::seconds>(now - start_).count();
  Slot& slot = SlotOf(std::max<std::int64_t>(second, 0));
  slot.requests.fetch_add(1, kRelaxed);
  if (request.status >= 500) slot.failures.fetch_add(1, kRelaxed);
  slot.rows.fetch_add(request.rows, kRelaxed);
  slot.noised.fetch_add(request.noised, kRelaxed);
  slot.latency[BucketOf(request.latency, Slot::kSteps)].fetch_add(1, kRelaxed);
}

TrafficSecond Metrics::Read(const Slot& slot) {
  TrafficSecond second{.second = slot.second.load(std::memory_order_acquire),
                       .requests = slot.requests.load(kRelaxed),
                       .failures = slot.failures.load(kRelaxed),
                       .rows = slot.rows.load(kRelaxed),
                       .noised = slot.noised.load(kRelaxed),
                       .p50 = 0,
                       .p99 = 0};
  std::array<std::int64_t, Slot::kBuckets> counts{};
  std::int64_t total = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] = slot.latency[i].load(kRelaxed);
    total += counts[i];
  }
  second.p50 = QuantileOf(counts, total, 0.5, Slot::kSteps);
  second.p99 = QuantileOf(counts, total, 0.99, Slot::kSteps);
  return second;
}

Metrics::Snapshot Metrics::Take(Clock::time_point now) const {
  Snapshot snapshot;
  snapshot.uptime = std::chrono::duration<double>(now - start_).count();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    for (std::size_t k = 0; k < requests_[i].size(); ++k) {
      snapshot.requests[i][k] = requests_[i][k].load(kRelaxed);
    }
  }
  snapshot.rows = rows_.load(kRelaxed);
  snapshot.noised = noised_.load(kRelaxed);
  snapshot.latency = latency_.Take();
  const auto current = std::chrono::floor<std::chrono::seconds>(now - start_).count();
  const auto first = std::max<std::int64_t>(0, current - kSeconds);
  for (std::int64_t second = first; second < current; ++second) {
    const TrafficSecond read = Read(slots_[static_cast<std::size_t>(second) % slots_.size()]);
    // A second nobody asked in has left its slot to an earlier one.
    snapshot.seconds.push_back(read.second == second ? read : TrafficSecond{.second = second});
  }
  return snapshot;
}

std::int64_t Metrics::Snapshot::Requests() const {
  std::int64_t total = 0;
  for (const auto& of_endpoint : requests) {
    for (const std::int64_t count : of_endpoint) total += count;
  }
  return total;
}

}  // namespace lucid
