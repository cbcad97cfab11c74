// The dearest and tightest bounds of a pair: by windows where a network begins with convolutions,
// by moments where it is not too large.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bounds/moment_bounder.h"
#include "bounds/region_bounder.h"
#include "bounds/window_bounder.h"
#include "lucid/nn/network.h"

namespace lucid {

// One per thread.
class CloserBounder {
 public:
  static bool Fits(const Architecture& architecture) {
    return MomentBounder::Fits(architecture) || WindowBounder::Fits(architecture);
  }

  // About how many bounds by lines take as long. Requires: Fits.
  static std::int64_t Cost(const Architecture& architecture) {
    return WindowBounder::Fits(architecture) ? 30 : 1000;
  }

  // How many times of what is enough a bound may be for smaller boxes to come down to that.
  static double Close(const Architecture& architecture) {
    return WindowBounder::Fits(architecture) ? 2 : 1.25;
  }

  // How many such boxes a pair may have: lines come down faster after that, but hardly where a
  // network begins with convolutions.
  static std::int32_t MostBoxes(const Architecture& architecture) {
    return WindowBounder::Fits(architecture) ? 2048 : 256;
  }

  // Requires: Fits.
  explicit CloserBounder(const Network& network);

  // Windows cut every input themselves, and gain little by a smaller box; there moments do. Where a
  // network fits one only, it is that one.
  enum class By { kWindows, kMoments };

  // As MomentBounder::Bound, whose multipliers these are.
  // Requires: `pair` has entered the region and the member; it is to be entered again after.
  double Bound(RegionBounder& pair, const Region& region, const Band& band,
               std::span<const float> parameters, const PairQuestion& question, By by,
               double enough, std::vector<float>& multipliers,
               const std::function<bool()>& expired);

  // After Bound: the input to cut; -1: none has a length.
  std::int32_t WidestInput() const { return widest_; }

 private:
  std::unique_ptr<WindowBounder> windows_;
  std::unique_ptr<MomentBounder> moments_;
  std::int32_t widest_ = -1;
};

}  // namespace lucid
