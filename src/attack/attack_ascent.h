// Sequential linear programming for one (N, member) pair: the attack's local search.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "attack/network_gradient.h"
#include "lucid/data/domain.h"

namespace lucid {

// max a . s subject to b . s <= limit, low <= s <= high: a continuous knapsack, solved by sorting.
// If no s of the box satisfies the row, the s with the smallest b . s. Requires: equal sizes,
// low <= high. Cost: O(n log n).
class BoxKnapsack {
 public:
  void Solve(std::span<const double> a, std::span<const double> b, double limit,
             std::span<const double> low, std::span<const double> high, std::span<double> s);

 private:
  struct Item {
    double ratio;  // objective lost per unit of the row regained
    std::size_t at;
  };
  std::vector<Item> items_;
};

// The half widths of the boxes that a search moves in. Whenever it no longer improves it goes on in
// a smaller box.
struct TrustBox {
  double first = 0.2;
  double smallest = 1e-3;  // the search ends when its box would be smaller
};

// Climbs f, the confidence of a class in N, over { x in [0,1]^d : g(x) <= 0 }, g the member's. Both
// are piecewise linear, so the linear program in a trust box is exact inside one piece. Estimates
// only: nothing here is proved. One object per thread.
class PairAscent {
 public:
  // Within `domain`: only features that are free move. None: all of [0,1]^d.
  explicit PairAscent(std::int64_t inputs, const Domain* domain = nullptr);

  // Climbs from any x of the box to a local maximum. Ensures, if there is a value: it is f(x), g(x)
  // <= 0 and x is in the box. None: no x with g(x) <= 0 was found.
  std::optional<double> Climb(NetworkGradient& network, NetworkGradient& member,
                              const TrustBox& box, std::vector<double>& x);

  // Projected Newton steps until g(x) <= target. Returns g(x), or nothing after `steps` steps.
  std::optional<double> Restore(NetworkGradient& member, double target, int steps,
                                std::vector<double>& x);

 private:
  BoxKnapsack knapsack_;
  std::vector<char> fixed_;
  std::vector<double> f_here_, g_here_, g_slope_, low_, high_, step_, trial_;
};

}  // namespace lucid
