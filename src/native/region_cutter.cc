#include "native/region_cutter.h"

#include <algorithm>
#include <utility>

#include "numeric/rounding.h"

namespace lucid::region_search {

std::size_t RegionCutter::WorstOf(const RegionNode& node) {
  const auto worst = std::ranges::max_element(node.alive, {}, &RegionPair::bound);
  return static_cast<std::size_t>(worst - node.alive.begin());
}

Expansion RegionCutter::Expand(const RegionNode& node, Worker& worker) const {
  const RegionPair& worst = node.alive[WorstOf(node)];
  Expansion expansion;
  Multipliers multipliers = node.multipliers;
  multipliers.lambda = worst.lambda;
  const std::optional<SplitAdvice> found = Advise(node, worst, multipliers, worker, expansion);
  if (!found) return expansion;
  const SplitAdvice& advice = *found;
  TryPoint(worker, expansion);
  double rest = kInfinity;
  const auto consider = [&](const ProofSplit& how) {
    if (rest <= 0) return;
    Cut cut = TryCut(node, worst, multipliers, how, worker);
    if (cut.Rest(work_.target) >= rest) return;
    rest = cut.Rest(work_.target);
    expansion.cut = std::move(cut);
  };
  // If all phases are known, the bound is exact for two classes; with more classes only a small box
  // has an exact bound. Boxes of a schema end in points by themselves.
  const bool free = options_.domain == nullptr || options_.domain->groups().empty();
  const bool settle = network_.architecture.classes() == 2 && free && advice.open <= kFewOpen;
  for (const auto& phase : {advice.phase, advice.other_phase}) {
    if (!phase || options_.flat || !(work_.CutsPhases() || settle)) continue;
    ProofSplit how;
    how.how = phase->member ? ProofSplit::How::kMemberPhase : ProofSplit::How::kNetworkPhase;
    how.layer = phase->layer;
    how.unit = phase->unit;
    consider(how);
  }
  if (const std::int32_t input = InputToCut(advice.input, node.region.box); input >= 0) {
    ProofSplit how;
    how.unit = input;
    how.at = work_.CutOf(input, node.region.box[input]);
    consider(how);
  }
  return expansion;
}

// The advised input, or, where that is too narrow to be cut, the widest one. -1: all are too narrow.
std::int32_t RegionCutter::InputToCut(std::int32_t advised, const Box& box) {
  const auto width = [&](std::int32_t input) { return box[input].upper - box[input].lower; };
  if (advised >= 0 && width(advised) > kNarrowest) return advised;
  std::int32_t widest = 0;
  for (std::int32_t input = 1; input < std::ssize(box); ++input) {
    if (width(input) > width(widest)) widest = input;
  }
  return width(widest) > kNarrowest ? widest : -1;
}

// Where to cut the node's region for its worst pair; none: expansion.found says why.
std::optional<SplitAdvice> RegionCutter::Advise(const RegionNode& node, const RegionPair& worst,
                                                Multipliers& multipliers, Worker& worker,
                                                Expansion& expansion) const {
  const Recycled<RegionFacts> region = work_.Enter(node.region, node.bound, worker);
  if (!region) {
    expansion.found = Expansion::Found::kNone;
    return std::nullopt;
  }
  const Recycled<PairFacts> facts = work_.Enter(*region, worst.member, worker);
  if (!facts) {
    expansion.found = Expansion::Found::kNoneOfTheWorst;
    return std::nullopt;
  }
  PairQuestion question = work_.Question(worst);
  work_.BoundBest(*facts, 0, worker, question, multipliers, nullptr);
  SplitAdvice advice = worker.ladder.lines().Advise(*facts, question, multipliers,
                                                    work_.CutsPhases() ? work_.target : kInfinity);
  expansion.point = std::move(advice.point);
  return advice;
}

Cut RegionCutter::TryCut(const RegionNode& node, const RegionPair& worst,
                         const Multipliers& multipliers, const ProofSplit& how,
                         Worker& worker) const {
  Cut cut{how, {}};
  for (int side = 0; side < 2; ++side) {
    Child& child = cut.children[side];
    child.region = node.region;
    if (how.how == ProofSplit::How::kInput) {
      Interval& interval = child.region.box[how.unit];
      (side == 0 ? interval.upper : interval.lower) = how.at;
      if (!work_.Shrink(child.region.box)) {
        interval = {1, 0};  // for the checker, too, it is empty
        continue;
      }
    } else {
      child.region.phases.push_back(
          {how.layer, how.unit, how.how == ProofSplit::How::kMemberPhase, side == 1});
    }
    const Recycled<RegionFacts> region = work_.Enter(child.region, node.bound, worker);
    if (!region) continue;
    child.inhabited = true;
    child.multipliers = multipliers;
    child.worst =
        work_.BoundPair(worst, child.multipliers, work_.Steps(child.region), *region, worker);
  }
  return cut;
}

void RegionCutter::TryPoint(Worker& worker, Expansion& expansion) const {
  if (!options_.improve_witnesses) return;
  if (options_.domain != nullptr) options_.domain->Project(std::span(expansion.point));
  worker.member_gradient.Assign(network_.architecture, worker.parameters, label_);
  expansion.confidence =
      worker.ascent.Climb(worker.gradient, worker.member_gradient, kFromRegion, expansion.point)
          .value_or(0);
}

}  // namespace lucid::region_search
