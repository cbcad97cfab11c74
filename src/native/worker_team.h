// The threads of a region search, each with a worker of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "native/region_parts.h"
#include "native/region_work.h"

namespace lucid::region_search {

class WorkerTeam {
 public:
  // Keeps references.
  WorkerTeam(const Network& network, std::int32_t label, const RegionSearchOptions& options,
             const RegionWork& work)
      : options_(options),
        work_(work),
        workers_(MakeWorkers(network, label, options.threads, options.domain)) {}

  const std::vector<std::unique_ptr<Worker>>& all() const { return workers_; }
  Worker& first() const { return *workers_.front(); }

  // Runs body(i, worker) for i in [0, count) on all threads. False: out of time, some are not done.
  template <class Body>
  Result<bool> ForEach(std::size_t count, const Body& body) const {
    const Status status = ParallelFor(static_cast<std::int64_t>(count), options_.threads,
                                      options_.stop, [&](std::int64_t i, int w) -> Status {
                                        if (work_.Expired()) return Interrupted("out of time");
                                        body(static_cast<std::size_t>(i), *workers_[w]);
                                        return Ok();
                                      });
    if (status.ok()) return true;
    if (status.error().kind == ErrorKind::kInterrupted) return false;
    return status.error();
  }

  // The same for every outcome; one task takes kChunk of them.
  template <class Body>
  Result<bool> InChunks(std::vector<Outcome>& outcomes, const Body& body) const {
    const std::size_t chunks = (outcomes.size() + kChunk - 1) / kChunk;
    return ForEach(chunks, [&](std::size_t chunk, Worker& worker) {
      const std::size_t end = std::min((chunk + 1) * kChunk, outcomes.size());
      for (std::size_t i = chunk * kChunk; i < end; ++i) body(outcomes[i], worker);
    });
  }

 private:
  const RegionSearchOptions& options_;
  const RegionWork& work_;
  const std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace lucid::region_search
