#include "native/region_work.h"

#include <algorithm>
#include <cmath>

#include "native/engine.h"
#include "numeric/rounding.h"

namespace lucid::region_search {
namespace {

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

}  // namespace

RegionWork::RegionWork(const Network& network, const Members& members, std::int32_t label,
                       double member_error, const RegionSearchOptions& options)
    : network_(network),
      members_(members),
      label_(label),
      member_error_(member_error),
      options_(options),
      cut_phases_(network.architecture.inputs() > kFewInputs),
      root_(UnitBox(network.architecture.inputs())),
      differences_(static_cast<std::size_t>(members.count())) {
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

std::shared_ptr<PairProof> RegionWork::WhyOf(const RegionPair& pair, const PairQuestion& question,
                                             const Multipliers& multipliers, Worker& worker,
                                             double& bound) const {
  using enum ProofClosing::Kind;
  const bool by_rule =
      options_.flat || (multipliers.slopes.empty() &&
                        std::ranges::all_of(multipliers.pushes, [](float p) { return p == 0; }));
  auto why = Claim(pair, by_rule ? kLines : kMultipliers, worker.band);
  ProofClosing& closing = why->closing;
  closing.lambda = multipliers.lambda;
  closing.below = question.below;
  if (!by_rule) {
    closing.multipliers = worker.bounder.Dual();
    bound = worker.bounder.BoundOfDual(question, closing.lambda, closing.multipliers);
  }
  bound = closing.value = worker.bounder.ForChecker(bound);
  return std::isfinite(bound) ? why : nullptr;
}

double RegionWork::CheckersBound(const Region& region, const ProofClosing& closing,
                                 Worker& worker) const {
  worker.region = &region;
  worker.checker_entered = false;
  if (closing.member != ProofClosing::kEveryPair) {
    members_.CopyParameters(closing.member, worker.parameters);
  }
  return CheckersBoundHere(closing, worker);
}

double RegionWork::CheckersBoundHere(const ProofClosing& closing, Worker& worker) const {
  // The proof is about the network without the engine's own layer, which needs no multipliers.
  if (options_.flat) return ValueOf(closing);
  if (!worker.checker) worker.checker = std::make_unique<ClaimChecker>(network_);
  if (!worker.checker_entered) {
    worker.checker->Enter(ForChecker(*worker.region));
    worker.checker_entered = true;
  }
  return worker.checker->Bound(label_, closing, member_error_, worker.parameters);
}

void RegionWork::Confirm(const RegionPair& before, Outcome& outcome, Worker& worker) const {
  ProofClosing& closing = outcome.pair.why->closing;
  const double found = CheckersBoundHere(closing, worker);
  if (found <= ValueOf(closing)) return;
  if (closing.kind == ProofClosing::Kind::kNoInput || !(found < before.bound)) {
    outcome = {before, true};
    outcome.own = before.bound;
    if (!before.why) outcome.pair.bound = kInfinity;
    return;
  }
  outcome.pair.bound = closing.value = found;
}

void RegionWork::BoundQuickly(Outcome& outcome, Worker& worker) const {
  members_.CopyParameters(outcome.pair.member, worker.parameters);
  double bound = worker.bounder.IntervalBound(worker.parameters, Question(outcome.pair));
  if (WritesProof()) {
    auto why = Claim(outcome.pair, ProofClosing::Kind::kIntervals, std::nullopt);
    why->closing.value = worker.bounder.ForChecker(bound);
    bound = std::isfinite(why->closing.value)
                ? std::max(why->closing.value, CheckersBoundHere(why->closing, worker))
                : kInfinity;
    why->closing.value = bound;
    if (!outcome.pair.why) outcome.pair.bound = kInfinity;  // it is not known why that holds
    if (bound < outcome.pair.bound) outcome.pair.why = std::move(why);
  }
  outcome.pair.bound = std::min(outcome.pair.bound, bound);
  outcome.alive = outcome.pair.bound > target;
  outcome.by_intervals = !outcome.alive;
}

Outcome RegionWork::BoundPair(RegionPair pair, Multipliers& multipliers, int steps,
                              Worker& worker) const {
  Outcome outcome{pair};
  if (!EnterMember(pair.member, worker)) {
    outcome.pair.bound = 0;
    if (WritesProof()) {
      outcome.pair.why = Claim(pair, ProofClosing::Kind::kNoInput, worker.band);
      outcome.fresh = true;
      Confirm(pair, outcome, worker);
    }
    return outcome;
  }
  multipliers.lambda = pair.lambda;
  PairQuestion question = Question(pair);
  const double own = BoundBest(question, multipliers, steps, worker);
  double bound = own;
  // A parent's bound holds here, too, if it is known why.
  if (WritesProof()) {
    const bool inherits = pair.why && pair.bound <= own;
    std::shared_ptr<PairProof> why;
    if (!inherits) why = WhyOf(pair, question, multipliers, worker, bound);
    outcome.fresh = why && !(pair.why && pair.bound <= bound);
    if (outcome.fresh) outcome.pair.why = std::move(why);
    bound = outcome.fresh ? bound : pair.why ? pair.bound : kInfinity;
  } else {
    bound = std::min(own, pair.bound);
  }
  outcome.alive = bound > target;
  outcome.rounding = outcome.alive && close_by_rounding &&
                     bound - worker.bounder.Rounding(question, multipliers.lambda) <= target;
  if (outcome.rounding) outcome.alive = false;
  outcome.own = std::isfinite(own) ? own : bound;
  outcome.pair.bound = std::max(bound, 0.0);
  outcome.pair.lambda = static_cast<float>(multipliers.lambda);
  if (!outcome.fresh) return outcome;
  if (outcome.alive && !UsesBands()) {
    outcome.pair.why->unconfirmed = std::make_unique<const Region>(*worker.region);
    return outcome;
  }
  Confirm(pair, outcome, worker);
  if (!outcome.rounding) outcome.alive = outcome.pair.bound > target;
  return outcome;
}

double RegionWork::BoundBest(PairQuestion& question, Multipliers& multipliers, int steps,
                             Worker& worker) const {
  if (network_.architecture.classes() == 2) {
    return worker.bounder.Bound(question, multipliers, steps, target);
  }
  const Multipliers start = multipliers;
  double best = worker.bounder.Bound(question, multipliers, steps, target);
  const std::int32_t first = question.below;
  bool last_is_best = true;
  for (std::int32_t below = 0; below < network_.architecture.classes(); ++below) {
    if (below == first || below == label_ || best <= target) continue;
    PairQuestion next = question;
    next.below = below;
    Multipliers trial = start;
    const double bound = worker.bounder.Bound(next, trial, steps, target);
    last_is_best = bound < best;
    if (!last_is_best) continue;
    best = bound;
    question = next;
    multipliers = std::move(trial);
  }
  if (!last_is_best) worker.bounder.Bound(question, multipliers, 0, target);
  return best;
}

std::size_t RegionWork::WorstOf(const RegionNode& node) {
  const auto worst = std::ranges::max_element(node.alive, {}, &RegionPair::bound);
  return static_cast<std::size_t>(worst - node.alive.begin());
}

Expansion RegionWork::Expand(const RegionNode& node, Worker& worker) const {
  const RegionPair& worst = node.alive[WorstOf(node)];
  Expansion expansion;
  Multipliers multipliers = node.multipliers;
  multipliers.lambda = worst.lambda;
  if (!Enter(node.region, node.bound, worker)) {
    expansion.found = Expansion::Found::kNone;
    return expansion;
  }
  if (!EnterMember(worst.member, worker)) {
    expansion.found = Expansion::Found::kNoneOfTheWorst;
    return expansion;
  }
  PairQuestion question = Question(worst);
  BoundBest(question, multipliers, 0, worker);
  const SplitAdvice advice =
      worker.bounder.Advise(question, multipliers, cut_phases_ ? target : kInfinity);
  TryPoint(worker, expansion);
  double rest = kInfinity;
  const auto consider = [&](const ProofSplit& how) {
    if (rest <= 0) return;
    Cut cut = TryCut(node, worst, multipliers, how, worker);
    if (cut.Rest(target) >= rest) return;
    rest = cut.Rest(target);
    expansion.cut = std::move(cut);
  };
  // With all phases known the bound of two classes is exact; of more, only a small box's is. A
  // schema's boxes end in points by themselves.
  const bool free = options_.domain == nullptr || options_.domain->groups().empty();
  const bool settle = network_.architecture.classes() == 2 && free && advice.open <= kFewOpen;
  for (const auto& phase : {advice.phase, advice.other_phase}) {
    if (!phase || options_.flat || !(cut_phases_ || settle)) continue;
    ProofSplit how;
    how.how = phase->member ? ProofSplit::How::kMemberPhase : ProofSplit::How::kNetworkPhase;
    how.layer = phase->layer;
    how.unit = phase->unit;
    consider(how);
  }
  const bool narrow =
      advice.input < 0 ||
      node.region.box[advice.input].upper - node.region.box[advice.input].lower <= kNarrowest;
  if (!narrow) {
    const Interval side = node.region.box[advice.input];
    ProofSplit how;
    how.unit = advice.input;
    how.at = CutOf(how.unit, side);
    consider(how);
  }
  return expansion;
}

Cut RegionWork::TryCut(const RegionNode& node, const RegionPair& worst,
                       const Multipliers& multipliers, const ProofSplit& how,
                       Worker& worker) const {
  Cut cut{how, {}};
  for (int side = 0; side < 2; ++side) {
    Child& child = cut.children[side];
    child.region = node.region;
    if (how.how == ProofSplit::How::kInput) {
      Interval& interval = child.region.box[how.unit];
      (side == 0 ? interval.upper : interval.lower) = how.at;
      if (!Shrink(child.region.box)) {
        interval = {1, 0};  // for the checker, too, it is empty
        continue;
      }
    } else {
      child.region.phases.push_back(
          {how.layer, how.unit, how.how == ProofSplit::How::kMemberPhase, side == 1});
    }
    child.inhabited = Enter(child.region, node.bound, worker);
    if (!child.inhabited) continue;
    child.multipliers = multipliers;
    child.worst = BoundPair(worst, child.multipliers, Steps(child.region), worker);
  }
  return cut;
}

bool RegionWork::Shrink(Box& box) const {
  return options_.domain == nullptr || ShrinkBox(*options_.domain, box);
}

int RegionWork::Steps(const Region& region) const {
  return cut_phases_ || !region.phases.empty() ? kSteps : 0;
}

void RegionWork::TryPoint(Worker& worker, Expansion& expansion) const {
  if (!options_.improve_witnesses) return;
  expansion.point.assign(worker.bounder.point().begin(), worker.bounder.point().end());
  if (options_.domain != nullptr) options_.domain->Project(std::span(expansion.point));
  worker.member_gradient.Assign(network_.architecture, worker.parameters, label_);
  expansion.confidence =
      worker.ascent.Climb(worker.gradient, worker.member_gradient, kFromRegion, expansion.point)
          .value_or(0);
}

bool RegionWork::EnterAll(const Region& region, Worker& worker) const {
  worker.region = &region;
  worker.checker_entered = false;
  worker.band.reset();
  return worker.bounder.EnterRegion(region);
}

bool RegionWork::Enter(const Region& region, double bound, Worker& worker) const {
  worker.region = &region;
  worker.checker_entered = false;
  worker.band = BandOf(bound);
  if (!worker.band) return worker.bounder.EnterRegion(region);
  const Band band{label_, worker.band->least, worker.band->most};
  return worker.bounder.EnterRegion(region, &band);
}

bool RegionWork::EnterMember(std::int32_t member, Worker& worker) const {
  members_.CopyParameters(member, worker.parameters);
  const auto& known = differences_[static_cast<std::size_t>(member)];
  return worker.bounder.EnterMember(worker.parameters, known.empty() ? nullptr : &known);
}

void RegionWork::BoundCloser(CloserBox& bound, Worker& worker,
                             const std::function<bool()>& expired) const {
  const Region region{bound.box, {}};
  worker.region = &region;
  worker.checker_entered = false;
  RegionPair& pair = bound.pair;
  const double enough = std::max(bound.level, target);
  using By = CloserBounder::By;
  // A checker knows moments of two classes only.
  const bool moments = !WritesProof() || network_.architecture.classes() == 2;
  const By wanted = bound.level > 0 || !moments ? By::kWindows : By::kMoments;
  const By by = CloserBounder::Means(network_.architecture, wanted);
  Band band{label_, enough, pair.bound};
  const ProofBand same{enough, pair.bound};
  double found = -kInfinity;
  auto kind = ProofClosing::Kind::kNoInput;
  CloserBounder::Why how{{}, std::move(bound.multipliers)};
  if (pair.bound > enough && worker.bounder.EnterRegion(region, &band) &&
      EnterMember(pair.member, worker)) {
    if (network_.architecture.classes() > 2 && by == By::kMoments) {
      // N_c - N_c'' may be more than f, which is what the pair's bound is about.
      Multipliers multipliers;
      band.most = worker.bounder.Bound(Question(pair), multipliers, 0, enough);
    }
    found = band.most;
    if (found > enough) {
      if (!worker.closer) worker.closer = std::make_unique<CloserBounder>(network_);
      // With room for a checker it is enough, still.
      const double asked = enough * (1 - 0x1p-29);
      found = worker.closer->Bound(worker.bounder, region, band, worker.parameters, Question(pair),
                                   by, asked, how, expired);
      found = RegionBounder::WithSlack(std::max(found, asked));  // what is below was dropped
      if (bound.level == 0) bound.cut = worker.closer->WidestInput();
      kind = by == By::kWindows ? ProofClosing::Kind::kWindows : ProofClosing::Kind::kMoments;
    }
  }
  bound.multipliers = std::move(how.multipliers);
  if (WritesProof() && std::max(found, enough) < pair.bound) {
    auto why = Claim(pair, kind, same);
    if (kind != ProofClosing::Kind::kNoInput) why->closing.value = found;
    if (kind == ProofClosing::Kind::kMoments) why->closing.multipliers = bound.multipliers;
    why->closing.cases = std::move(how.cases);
    // To check windows takes as long as to find them; they leave the checker room instead.
    if (kind != ProofClosing::Kind::kWindows) {
      members_.CopyParameters(pair.member, worker.parameters);
      const double checked = CheckersBoundHere(why->closing, worker);
      const bool agreed = checked <= ValueOf(why->closing);
      if (kind == ProofClosing::Kind::kMoments) {
        why->closing.value = found = std::max(found, checked);
      } else if (!agreed) {
        found = kInfinity;  // the checker does not see that there is no input
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

SumRanger& RegionWork::Ranger(Worker& worker) const {
  if (!worker.ranger) worker.ranger = std::make_unique<SumRanger>(network_, root_);
  return *worker.ranger;
}

Interval RegionWork::NetworkSum(std::int64_t unit, std::int64_t nodes, Worker& worker) const {
  return Ranger(worker).NetworkSum(unit, nodes);
}

std::vector<Interval> RegionWork::MemberDifferences(std::int32_t member, std::int64_t nodes,
                                                    Worker& worker) const {
  members_.CopyParameters(member, worker.parameters);
  SumRanger& ranger = Ranger(worker);
  ranger.Enter(worker.parameters);
  std::vector<Interval> differences;
  for (std::int64_t unit = 0; unit < ranger.units(); ++unit) {
    differences.push_back(ranger.MemberDifference(unit, nodes));
  }
  return differences;
}

void RegionWork::KnowSums(std::vector<Interval> sums,
                          std::span<const std::unique_ptr<Worker>> workers) {
  sums_ = std::move(sums);
  for (const auto& worker : workers) worker->bounder.KnowSums(&sums_);
}

}  // namespace lucid::region_search
