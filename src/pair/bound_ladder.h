// All ways to bound a pair, by rising cost: a search takes the cheapest one that may be enough.
//
//   intervals   RegionBounder::IntervalBound: interval arithmetic, some microseconds a pair.
//   lines       RegionBounder::Bound: a line over and under every neuron, ten times as much.
//   sums        SumRanger: narrower ranges of the second layer's sums. They take as long as many
//               bounds by lines, and all later bounds by lines are tighter.
//   windows     WindowBounder, for networks that begin with convolutions: as long as 30 by lines.
//   moments     MomentBounder: as long as 1,000 bounds by lines.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lucid/nn/network.h"
#include "pair/closer_bounder.h"
#include "pair/region_bounder.h"
#include "pair/sum_ranges.h"

namespace lucid {

// One per thread. What is rarely needed is made when it is asked for.
class BoundLadder {
 public:
  // Keeps a reference to N.
  explicit BoundLadder(const Network& network) : network_(network), lines_(network) {}

  // Intervals and lines, and the facts that all bounds start from.
  RegionBounder& lines() { return lines_; }

  // Ranges over a box that holds all regions, always the same one. Requires: at least two hidden
  // layers. `nodes`: how much work a range may be.
  Interval NetworkSum(const Box& box, std::int64_t unit, std::int64_t nodes) {
    return Ranger(box).NetworkSum(unit, nodes);
  }
  std::vector<Interval> MemberDifferences(const Box& box, std::span<const float> parameters,
                                          std::int64_t nodes);

  // Windows and moments. Requires: CloserBounder::Fits.
  CloserBounder& closer();

 private:
  SumRanger& Ranger(const Box& box);

  const Network& network_;
  RegionBounder lines_;
  std::unique_ptr<SumRanger> ranger_;
  std::unique_ptr<CloserBounder> closer_;
};

}  // namespace lucid
