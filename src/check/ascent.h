// Climbs from a point where a member disagrees with N to a point where N is as sure as it gets
// while the member still disagrees.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "check/slope.h"
#include "lucid/data/domain.h"

namespace lucid {

// max a.s subject to b.s <= t, low <= s <= high: a continuous knapsack. Ensures: a maximiser, or if
// no s fits, one with the smallest b.s. Requires: low <= 0 <= high, all of one size.
std::vector<double> SolveKnapsack(std::span<const double> a, std::span<const double> b, double t,
                                  std::span<const double> low, std::span<const double> high);

struct Climb {
  std::vector<float> x;  // in [0,1]^d
  double f = 0;          // N's margin of the class there, > 0
};

// Sequential linear programming over [0,1]^d: maximise N's margin f of class `label` while the
// member's margin g of it stays <= 0 (both in double arithmetic). Ends at a local maximum; nothing
// if it gets nowhere with g <= 0 < f. Only features that are free in `domain` move. Deterministic.
std::optional<Climb> Ascend(SlopeNetwork& network, SlopeNetwork& member, std::int32_t label,
                            const Domain& domain, std::vector<float> start);

}  // namespace lucid
