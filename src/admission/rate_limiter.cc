#include "admission/rate_limiter.h"

#include <algorithm>
#include <cmath>

namespace lucid {
namespace {

// Threads that serve different clients seldom wait for each other.
constexpr std::size_t kShards = 16;

using Seconds = std::chrono::duration<double>;

RateLimiter::Clock::duration InClockTicks(double seconds) {
  // A century at most: beyond, a clock's tick counter would overflow.
  return std::chrono::duration_cast<RateLimiter::Clock::duration>(
      Seconds(std::min(seconds, 3.2e9)));
}

}  // namespace

RateLimiter::RateLimiter(std::size_t max_clients)
    : max_per_shard_(std::max<std::size_t>(1, (max_clients + kShards - 1) / kShards)),
      shards_(kShards) {}

RateLimiter::Shard& RateLimiter::ShardOf(std::string_view client) {
  return shards_[std::hash<std::string_view>()(client) % kShards];
}

RateLimiter::Verdict RateLimiter::Take(std::string_view client, const RequestRate& rate,
                                       Clock::time_point now) {
  Shard& shard = ShardOf(client);
  const std::lock_guard lock(shard.mutex);
  auto found = shard.by_client.find(client);
  if (found == shard.by_client.end()) {
    if (shard.by_use.size() >= max_per_shard_) {
      shard.by_client.erase(shard.by_use.back().client);
      shard.by_use.pop_back();
    }
    shard.by_use.push_front({.client = std::string(client), .full_at = now});
    found = shard.by_client.emplace(shard.by_use.front().client, shard.by_use.begin()).first;
  } else {
    shard.by_use.splice(shard.by_use.begin(), shard.by_use, found->second);
  }
  Bucket& bucket = *found->second;
  // Taking a token moves the time at which the bucket is full by 1 / rate; it may be at most
  // burst / rate ahead.
  const auto full_at = std::max(bucket.full_at, now) + InClockTicks(1 / rate.per_second);
  const auto too_far = full_at - now - InClockTicks(rate.burst / rate.per_second);
  if (too_far > Clock::duration::zero()) {
    return {.allowed = false, .retry_after = std::chrono::ceil<std::chrono::seconds>(too_far)};
  }
  bucket.full_at = full_at;
  return {};
}

std::size_t RateLimiter::clients() const {
  std::size_t count = 0;
  for (const Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    count += shard.by_use.size();
  }
  return count;
}

}  // namespace lucid
