// A token bucket per client.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lucid {

struct RequestRate {
  double per_second = 0;  // > 0
  double burst = 1;       // >= 1: so many at once after a pause
};

// Thread-safe, well below a microsecond. Memory is bounded: at the limit the client that was quiet
// longest is forgotten (and starts anew with a full bucket when it comes back), so a flood of new
// addresses can lift limits of quiet clients, but never use up memory.
class RateLimiter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RateLimiter(std::size_t max_clients = 65'536);

  struct Verdict {
    bool allowed = true;
    std::chrono::seconds retry_after{0};  // if not allowed: at least 1, for the Retry-After header
  };
  // Takes one token of `client` (an API key's id, or an address), if it has one. `now` must not go
  // back by more than clocks of threads differ.
  Verdict Take(std::string_view client, const RequestRate& rate, Clock::time_point now);

  std::size_t clients() const;

 private:
  // The virtual scheduling form of the bucket (GCRA): the time at which it will be full again says
  // all. Full before now: a full bucket.
  struct Bucket {
    std::string client;
    Clock::time_point full_at;
  };
  struct Shard {
    mutable std::mutex mutex;
    std::list<Bucket> by_use;  // the last used in front
    std::unordered_map<std::string_view, std::list<Bucket>::iterator> by_client;
  };
  Shard& ShardOf(std::string_view client);

  std::size_t max_per_shard_;
  std::vector<Shard> shards_;
};

}  // namespace lucid
