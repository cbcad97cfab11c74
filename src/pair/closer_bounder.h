// A closer look: the tightest bounds of a pair that there are, which also take the longest. They
// come from windows (window_bounder.h) if the network begins with convolutions, and from moments
// (moment_bounder.h) if it is not too large.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lucid/nn/network.h"
#include "pair/moment_bounder.h"
#include "pair/region_bounder.h"
#include "pair/window_bounder.h"

namespace lucid {

// One per thread.
class CloserBounder {
 public:
  static bool Fits(const Architecture& architecture) {
    return MomentBounder::Fits(architecture) || WindowBounder::Fits(architecture);
  }

  // A closer look takes about as long as so many bounds by lines. Requires: Fits.
  static std::int64_t Cost(const Architecture& architecture) {
    return WindowBounder::Fits(architecture) ? 30 : 1000;
  }

  // Smaller boxes are worth a try if a bound over the whole domain is at most so many times what is
  // enough.
  static double Close(const Architecture& architecture) {
    return WindowBounder::Fits(architecture) ? 2 : 1.25;
  }

  // A pair may have so many boxes of its own. With more of them, bounds by lines make faster
  // progress, except in networks that begin with convolutions, where they hardly make any.
  static std::int32_t MostBoxes(const Architecture& architecture) {
    return WindowBounder::Fits(architecture) ? 2048 : 256;
  }

  // Requires: Fits.
  explicit CloserBounder(const Network& network);

  // Windows cut every input by themselves, so a smaller box helps them little. Moments gain from a
  // smaller box. A network that fits only one of the two is always bounded by that one.
  enum class By { kWindows, kMoments };

  // Which of the two it is going to be.
  static By Means(const Architecture& architecture, By wanted);

  // What shows a bound to a checker: of windows their cases, of moments their multipliers, which
  // are also where the next bound starts from.
  struct Why {
    std::vector<ProofCase> cases;
    std::vector<float> multipliers;
    // Of moments: those that another pair of the member had half-way over this box, or none, and
    // then this pair's.
    std::vector<float> half_way = {};
  };
  // The bound of MomentBounder::Bound. `why` is replaced, and its multipliers by those that were
  // found. Requires: `bounder` has found `pair`.
  double Bound(RegionBounder& bounder, const PairFacts& pair, const Band& band,
               std::span<const float> parameters, const PairQuestion& question, By by,
               double enough, Why& why, const std::function<bool()>& expired);

  // After Bound: the input to cut; -1: none has a length.
  std::int32_t WidestInput() const { return widest_; }

 private:
  std::unique_ptr<WindowBounder> windows_;
  std::unique_ptr<MomentBounder> moments_;
  std::int32_t widest_ = -1;
};

}  // namespace lucid
