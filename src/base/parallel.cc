#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace lucid {

int EffectiveThreads(int threads) {
  if (threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

Status ParallelFor(std::int64_t count, int threads, std::stop_token stop,
                   const std::function<Status(std::int64_t, int)>& body) {
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::int64_t error_index = count;
  Status error;

  const auto work = [&](int worker) {
    while (!failed.load() && !stop.stop_requested()) {
      const std::int64_t i = next.fetch_add(1);
      if (i >= count) return;
      Status status = body(i, worker);
      if (status.ok()) continue;
      failed.store(true);
      std::lock_guard lock(mutex);
      if (i < error_index) {
        error_index = i;
        error = status;
      }
    }
  };
  const int workers = static_cast<int>(std::min<std::int64_t>(EffectiveThreads(threads), count));
  {
    std::vector<std::jthread> others;
    for (int w = 1; w < workers; ++w) others.emplace_back(work, w);
    if (workers > 0) work(0);
  }
  if (!error.ok()) return error;
  if (next.load() < count) return Interrupted("stopped on request");
  return Ok();
}

}  // namespace lucid
