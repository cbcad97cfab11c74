#include <algorithm>
#include <atomic>

#include "native/guard_proof.h"
#include "native/region_parts.h"
#include "native/region_search.h"

namespace lucid {

Result<std::vector<ProofClosing>> BoundEachMember(const Network& network, const Members& members,
                                                  MemberRange range, std::int32_t label,
                                                  double member_error, int threads, bool flat,
                                                  const std::function<void(std::int64_t)>& done,
                                                  std::stop_token stop) {
  const Region domain{UnitBox(network.architecture.inputs()), {}};
  const auto workers = region_search::MakeWorkers(network, label, threads);
  for (const auto& worker : workers) worker->domain = worker->ladder.lines().Enter(domain);
  const std::int32_t classes = static_cast<std::int32_t>(network.architecture.classes());
  std::vector<ProofClosing> claims(
      static_cast<std::size_t>((range.to - range.from) * (classes - 1)));
  std::atomic<std::int64_t> count = 0;
  LUCID_TRY(ParallelFor(range.to - range.from, threads, stop, [&](std::int64_t i, int w) {
    region_search::Worker& worker = *workers[w];
    members.CopyParameters(range.from + i, worker.parameters);
    const std::int64_t so_far = ++count;
    if (w == 0 && done) done(so_far);
    const auto pair = worker.ladder.lines().Enter(*worker.domain, worker.parameters);
    auto* claim = claims.data() + i * (classes - 1);
    for (std::int32_t other = 0; other < classes; ++other) {
      if (other == label) continue;
      claim->member = static_cast<std::int32_t>(range.from + i);
      claim->other = other;  // by default it says that there is no input
      if (pair) {
        Multipliers multipliers;
        std::vector<float> dual;
        const PairQuestion question{label, other, other, member_error, {}, classes > 2};
        ChargedBound bound = worker.ladder.lines().Bound(*pair, question, multipliers,
                                                         region_search::kSteps, 0, &dual);
        *claim = ClaimByLines(worker.ladder.lines(), *pair, claim->member, question, multipliers,
                              std::move(dual), flat, bound);
      }
      ++claim;
    }
    return Ok();
  }));
  return claims;
}

std::vector<double> UpperOfMembers(std::span<const ProofClosing> claims, std::int64_t members,
                                   std::int64_t classes) {
  // A member against a class that nothing is claimed of may leak at any confidence.
  std::vector<std::int64_t> open(static_cast<std::size_t>(members), classes - 1);
  std::vector<double> upper(static_cast<std::size_t>(members), 0.0);
  for (const ProofClosing& claim : claims) {
    --open[claim.member];
    upper[claim.member] = std::max(upper[claim.member], ValueOf(claim));
  }
  for (std::size_t i = 0; i < upper.size(); ++i) {
    if (open[i] != 0) upper[i] = kInfinity;
  }
  return upper;
}

}  // namespace lucid
