// All ways to bound a pair, by rising cost: a search takes the cheapest one that may be enough.
//
//   intervals   RegionBounder::IntervalBound: interval arithmetic, some microseconds a pair.
//   lines       RegionBounder::Bound: a line over and under every neuron, ten times as much.
//   windows     WindowBounder, for networks that begin with convolutions: takes as long as 30
//               bounds by lines.
//   moments     MomentBounder: takes as long as 1,000 bounds by lines.
#pragma once

#include <memory>

#include "lucid/nn/network.h"
#include "pair/closer_bounder.h"
#include "pair/region_bounder.h"

namespace lucid {

// One per thread. What is rarely needed is made when it is asked for.
class BoundLadder {
 public:
  // Keeps a reference to N.
  explicit BoundLadder(const Network& network, const Domain* domain = nullptr)
      : network_(network), lines_(network, domain) {}

  // Intervals and lines, and the facts that all bounds start from.
  RegionBounder& lines() { return lines_; }

  // Windows and moments. Requires: CloserBounder::Fits.
  CloserBounder& closer() {
    if (!closer_) closer_ = std::make_unique<CloserBounder>(network_);
    return *closer_;
  }

 private:
  const Network& network_;
  RegionBounder lines_;
  std::unique_ptr<CloserBounder> closer_;
};

}  // namespace lucid
