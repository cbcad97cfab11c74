// When a search may be expected to reach the gap that is asked for.
#pragma once

#include <cmath>
#include <optional>

namespace lucid {

// Searches close about the same share of what is open in equal times. A guess for people: no bound
// depends on it.
class Pace {
 public:
  // Seconds until `target`, if gaps go on to shrink as since the first call; nothing while they did
  // not. `seconds`: of the search so far; gaps are relative, from 0 to 1.
  std::optional<double> SecondsLeft(double seconds, double gap, double target) {
    if (!begun_) {
      begun_ = true;
      since_ = seconds;
      first_ = gap;
    }
    if (gap <= target) return 0.0;
    if (!(target > 0 && gap < first_ && seconds > since_)) return std::nullopt;
    return (seconds - since_) * std::log(gap / target) / std::log(first_ / gap);
  }

 private:
  bool begun_ = false;
  double since_ = 0, first_ = 1;
};

}  // namespace lucid
