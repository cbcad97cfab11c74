#include "pair/bound_ladder.h"

namespace lucid {

SumRanger& BoundLadder::Ranger(const Box& box) {
  if (!ranger_) ranger_ = std::make_unique<SumRanger>(network_, box);
  return *ranger_;
}

std::vector<Interval> BoundLadder::MemberDifferences(const Box& box,
                                                     std::span<const float> parameters,
                                                     std::int64_t nodes) {
  SumRanger& ranger = Ranger(box);
  ranger.Enter(parameters);
  std::vector<Interval> differences;
  for (std::int64_t unit = 0; unit < ranger.units(); ++unit) {
    differences.push_back(ranger.MemberDifference(unit, nodes));
  }
  return differences;
}

CloserBounder& BoundLadder::closer() {
  if (!closer_) closer_ = std::make_unique<CloserBounder>(network_);
  return *closer_;
}

}  // namespace lucid
