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

  // Requires: Fits.
  explicit CloserBounder(const Network& network);

  // As MomentBounder::Bound, whose multipliers these are. Requires: no phases.
  double Bound(RegionBounder& ranges, std::span<const float> parameters,
               const PairQuestion& question, const Band& band, double enough,
               std::vector<float>& multipliers, const std::function<bool()>& expired);

  // After Bound: the input to cut; -1: none has a length.
  std::int32_t WidestInput() const { return widest_; }

 private:
  std::unique_ptr<WindowBounder> windows_;
  std::unique_ptr<MomentBounder> moments_;
  std::int32_t widest_ = -1;
};

}  // namespace lucid
