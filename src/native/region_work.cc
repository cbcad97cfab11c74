#include "native/region_work.h"

#include <algorithm>
#include <cmath>

#include "native/engine.h"
#include "native/guard_proof.h"
#include "numeric/rounding.h"

namespace lucid::region_search {
namespace {

// The region in the form that the checker uses.
ProofRegion ForChecker(const Region& region) {
  ProofRegion same;
  for (const Interval& side : region.box) {
    same.lower.push_back(side.lower);
    same.upper.push_back(side.upper);
  }
  for (const PhaseSplit& phase : region.phases) {
    same.phases.push_back({phase.layer, phase.unit, phase.member, phase.active});
  }
  return same;
}

std::optional<ProofBand> BandOf(const RegionFacts& region) {
  if (!region.band) return std::nullopt;
  return ProofBand{region.band->least, region.band->most};
}

}  // namespace

RegionWork::RegionWork(const Network& network, const Members& members, std::int32_t label,
                       double member_error, const RegionSearchOptions& options)
    : network_(network),
      members_(members),
      label_(label),
      member_error_(member_error),
      options_(options),
      cut_phases_(network.architecture.inputs() > kFewInputs),
      root_(UnitBox(network.architecture.inputs())) {
  Shrink(root_);
}

bool RegionWork::Expired() const {
  return options_.stop.stop_requested() || Clock::now() >= options_.deadline ||
         (options_.out_of_time && options_.out_of_time());
}

std::shared_ptr<PairProof> RegionWork::Claim(const RegionPair& pair, ProofClosing::Kind kind,
                                             const std::optional<ProofBand>& band) {
  auto why = std::make_shared<PairProof>();
  why->closing.member = pair.member;
  why->closing.other = pair.other;
  why->closing.kind = kind;
  why->closing.band = band;
  if (band && std::isfinite(band->most)) why->premise = pair.why;
  return why;
}

std::shared_ptr<PairProof> RegionWork::WhyOf(const RegionPair& pair, const PairFacts& facts,
                                             const PairQuestion& question,
                                             const Multipliers& multipliers,
                                             std::vector<float> dual, Worker& worker,
                                             ChargedBound& bound) const {
  const std::optional<ProofBand> band = region_search::BandOf(*facts.region);
  auto why = Claim(pair, ProofClosing::Kind::kLines, band);
  why->closing = ClaimByLines(worker.ladder.lines(), facts, pair.member, question, multipliers,
                              std::move(dual), options_.flat, bound);
  why->closing.band = band;
  return std::isfinite(bound.value) ? why : nullptr;
}

double RegionWork::CheckersBound(const Region& region, const ProofClosing& closing,
                                 Worker& worker) const {
  // The proof is about the network without the engine's own layer, which needs no multipliers.
  if (options_.flat) return ValueOf(closing);
  if (!worker.checker) worker.checker = std::make_unique<ClaimChecker>(network_, options_.domain);
  worker.checker->Enter(ForChecker(region));
  if (closing.member != ProofClosing::kEveryPair) {
    members_.CopyParameters(closing.member, worker.parameters);
  }
  return worker.checker->Bound(label_, closing, member_error_, worker.parameters);
}

void RegionWork::Confirm(const Region& region, const RegionPair& before, Outcome& outcome,
                         Worker& worker) const {
  ProofClosing& closing = outcome.pair.why->closing;
  const double found = CheckersBound(region, closing, worker);
  if (found <= ValueOf(closing)) return;
  if (closing.kind == ProofClosing::Kind::kNoInput || !(found < before.bound)) {
    outcome = {before, true};
    outcome.own = before.bound;
    if (!before.why) outcome.pair.bound = kInfinity;
    return;
  }
  outcome.pair.bound = closing.value = found;
}

void RegionWork::BoundQuickly(Outcome& outcome, const RegionFacts& domain, Worker& worker) const {
  members_.CopyParameters(outcome.pair.member, worker.parameters);
  const ChargedBound found =
      worker.ladder.lines().IntervalBound(domain, worker.parameters, Question(outcome.pair));
  double bound = found.value;
  if (WritesProof()) {
    auto why = Claim(outcome.pair, ProofClosing::Kind::kIntervals, std::nullopt);
    why->closing.value = found.ForChecker();
    bound = std::isfinite(why->closing.value)
                ? std::max(why->closing.value, CheckersBound(domain.region, why->closing, worker))
                : kInfinity;
    why->closing.value = bound;
    if (!outcome.pair.why) outcome.pair.bound = kInfinity;  // it is not known why that holds
    if (bound < outcome.pair.bound) outcome.pair.why = std::move(why);
  }
  outcome.pair.bound = std::min(outcome.pair.bound, bound);
  outcome.alive = outcome.pair.bound > target;
  outcome.by_intervals = !outcome.alive;
}

Outcome RegionWork::BoundPair(const RegionPair& pair, Multipliers& multipliers, int steps,
                              const RegionFacts& region, Worker& worker) const {
  Outcome outcome{pair};
  const Recycled<PairFacts> facts = Enter(region, pair.member, worker);
  if (!facts) {
    outcome.pair.bound = 0;
    if (WritesProof()) {
      outcome.pair.why = Claim(pair, ProofClosing::Kind::kNoInput, region_search::BandOf(region));
      outcome.fresh = true;
      Confirm(region.region, pair, outcome, worker);
    }
    return outcome;
  }
  multipliers.lambda = pair.lambda;
  PairQuestion question = Question(pair);
  std::vector<float> dual;
  ChargedBound found =
      BoundBest(*facts, steps, worker, question, multipliers, WritesProof() ? &dual : nullptr);
  const double own = found.value;
  double bound = own;
  // A parent's bound holds here, too, if it is known why.
  if (WritesProof()) {
    const bool inherits = pair.why && pair.bound <= own;
    std::shared_ptr<PairProof> why;
    if (!inherits) {
      why = WhyOf(pair, *facts, question, multipliers, std::move(dual), worker, found);
      bound = found.value;
    }
    outcome.fresh = why && !(pair.why && pair.bound <= bound);
    if (outcome.fresh) outcome.pair.why = std::move(why);
    bound = outcome.fresh ? bound : pair.why ? pair.bound : kInfinity;
  } else {
    bound = std::min(own, pair.bound);
  }
  outcome.alive = bound > target;
  outcome.rounding = outcome.alive && close_by_rounding &&
                     bound - found.Rounding(question, multipliers.lambda) <= target;
  if (outcome.rounding) outcome.alive = false;
  outcome.own = std::isfinite(own) ? own : bound;
  outcome.pair.bound = std::max(bound, 0.0);
  outcome.pair.lambda = static_cast<float>(multipliers.lambda);
  if (!outcome.fresh) return outcome;
  if (outcome.alive && !UsesBands()) {
    outcome.pair.why->unconfirmed = std::make_unique<const Region>(region.region);
    return outcome;
  }
  Confirm(region.region, pair, outcome, worker);
  if (!outcome.rounding) outcome.alive = outcome.pair.bound > target;
  return outcome;
}

ChargedBound RegionWork::BoundBest(const PairFacts& pair, int steps, Worker& worker,
                                   PairQuestion& question, Multipliers& multipliers,
                                   std::vector<float>* dual) const {
  // A little less than what is needed: the checker, which reads multipliers as floats, must agree.
  const double enough = target - kBelowTarget * std::abs(target);
  const ChargedBound bound =
      worker.ladder.lines().Bound(pair, question, multipliers, steps, enough, dual);
  question = multipliers.Applied(question);
  return bound;
}

bool RegionWork::Shrink(Box& box) const {
  return options_.domain == nullptr || ShrinkBox(*options_.domain, box);
}

int RegionWork::Steps(const Region& region) const {
  if (cut_phases_ || !region.phases.empty()) return kSteps;
  return options_.flat ? 0 : kStepsInBoxes;
}

Recycled<RegionFacts> RegionWork::Enter(const Region& region, double bound, Worker& worker) const {
  const std::optional<ProofBand> of = BandOf(bound);
  if (!of) return worker.ladder.lines().Enter(region);
  const Band band{label_, of->least, of->most};
  return worker.ladder.lines().Enter(region, &band);
}

Recycled<PairFacts> RegionWork::Enter(const RegionFacts& region, std::int32_t member,
                                      Worker& worker) const {
  members_.CopyParameters(member, worker.parameters);
  return worker.ladder.lines().Enter(region, worker.parameters);
}

void RegionWork::BoundCloser(CloserBox& bound, Worker& worker,
                             const std::function<bool()>& expired) const {
  const Region region{bound.box, {}};
  RegionPair& pair = bound.pair;
  // Windows and moments measure N against the class that the member gives.
  PairQuestion question = Question(pair);
  question.mix = false;
  const double enough = std::max(bound.level, target);
  using By = CloserBounder::By;
  const By wanted = bound.level > 0 ? By::kWindows : By::kMoments;
  const By by = CloserBounder::Means(network_.architecture, wanted);
  Band band{label_, enough, pair.bound};
  const ProofBand same{enough, pair.bound};
  double found = -kInfinity;
  auto kind = ProofClosing::Kind::kNoInput;
  CloserBounder::Why how{{}, std::move(bound.multipliers), std::move(bound.half_way)};
  ChargedBound lines;
  Recycled<RegionFacts> in_band;
  Recycled<PairFacts> facts;
  if (pair.bound > enough) in_band = worker.ladder.lines().Enter(region, &band);
  if (in_band) facts = Enter(*in_band, pair.member, worker);
  if (facts) {
    if (network_.architecture.classes() > 2 && by == By::kMoments) {
      // N_c - N_c'' may be more than f, which is what the pair's bound is about. A checker bounds
      // it with lambda = 1, so nothing better is looked for.
      Multipliers multipliers;
      lines = worker.ladder.lines().Bound(*facts, question, multipliers, 0, kInfinity);
      band.most = lines.value;
    }
    found = band.most;
    if (found <= enough) {  // lines are enough here
      kind = ProofClosing::Kind::kLines;
      found = lines.ForChecker();
    } else {
      CloserBounder& closer = worker.ladder.closer();
      // A little less is asked for, so that the bound is enough even with room for a checker.
      const double asked = enough * (1 - 0x1p-29);
      found = closer.Bound(worker.ladder.lines(), *facts, band, worker.parameters, question, by,
                           asked, how, expired);
      found = ChargedBound::WithSlack(std::max(found, asked));  // what is below was dropped
      if (bound.level == 0) bound.cut = closer.WidestInput();
      kind = by == By::kWindows ? ProofClosing::Kind::kWindows : ProofClosing::Kind::kMoments;
    }
  }
  bound.multipliers = std::move(how.multipliers);
  bound.half_way = std::move(how.half_way);
  if (WritesProof() && std::max(found, enough) < pair.bound) {
    auto why = Claim(pair, kind, same);
    if (kind != ProofClosing::Kind::kNoInput) why->closing.value = found;
    if (kind == ProofClosing::Kind::kMoments) why->closing.multipliers = bound.multipliers;
    if (kind == ProofClosing::Kind::kLines) {
      why->closing.below = pair.other;
      why->closing.lambda = 1;
    }
    why->closing.cases = std::move(how.cases);
    // Checking windows takes as long as finding them, so they are not confirmed here; they leave
    // the checker room instead.
    if (kind != ProofClosing::Kind::kWindows) {
      const double checked = CheckersBound(region, why->closing, worker);
      const bool agreed = checked <= ValueOf(why->closing);
      if (kind == ProofClosing::Kind::kNoInput) {
        if (!agreed) found = kInfinity;  // the checker does not see that there is no input
      } else {
        why->closing.value = found = std::max(found, checked);
      }
    }
    if (std::max(found, enough) < pair.bound && FitsIntoProof(why->closing)) {
      pair.why = std::move(why);
      bound.fresh = true;
    } else {
      found = pair.bound;
    }
  }
  found = std::max(found, enough);  // nothing was said about inputs below the band
  pair.bound = std::min(pair.bound, found);
  bound.alive = pair.bound > target;
}

double RegionWork::CutOf(std::int32_t input, const Interval& side) const {
  return options_.domain == nullptr ? 0.5 * (side.lower + side.upper)
                                    : options_.domain->CutOf(input, side.lower, side.upper);
}

}  // namespace lucid::region_search
