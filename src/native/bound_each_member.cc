#include <algorithm>
#include <atomic>

#include "native/region_parts.h"
#include "native/region_search.h"

namespace lucid {

Result<std::vector<double>> BoundEachMember(const Network& network, const Members& members,
                                            std::int32_t label, double member_error, int threads,
                                            const std::function<void(std::int64_t)>& done,
                                            std::stop_token stop) {
  const Region domain{UnitBox(network.architecture.inputs()), {}};
  const auto workers = region_search::MakeWorkers(network, label, threads);
  for (const auto& worker : workers) worker->domain = worker->ladder.lines().Enter(domain);
  std::vector<double> upper(static_cast<std::size_t>(members.count()), 0.0);
  std::atomic<std::int64_t> count = 0;
  LUCID_TRY(ParallelFor(members.count(), threads, stop, [&](std::int64_t i, int w) {
    region_search::Worker& worker = *workers[w];
    members.CopyParameters(i, worker.parameters);
    const std::int64_t so_far = ++count;
    if (w == 0 && done) done(so_far);
    const auto pair = worker.ladder.lines().Enter(*worker.domain, worker.parameters);
    if (!pair) return Ok();
    for (std::int32_t other = 0; other < network.architecture.classes(); ++other) {
      if (other == label) continue;
      Multipliers multipliers;
      const PairQuestion question{label, other, other, member_error};
      upper[i] =
          std::max(upper[i], worker.ladder.lines()
                                 .Bound(*pair, question, multipliers, region_search::kSteps, 0)
                                 .value);
    }
    return Ok();
  }));
  return upper;
}

}  // namespace lucid
