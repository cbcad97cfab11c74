// Time that a search spends on work, however busy the machine is.
#pragma once

#include <algorithm>
#include <ctime>

#include "base/clock.h"

namespace lucid {

// Counts the processor time of the process, shared out among `threads` that work at once. Where
// other programs take the processors, it stands still meanwhile; but it never runs slower than a
// quarter of the clock on the wall, so that a limit on it ends after four times as long at most.
// Work of other threads of the process counts, too, and cannot make it run faster than that clock.
class WorkClock {
 public:
  explicit WorkClock(int threads) : threads_(std::max(threads, 1)) {}

  double Seconds() const {
    const double wall = SecondsSince(start_);
    return std::clamp((ProcessSeconds() - processor_) / threads_, wall / 4, wall);
  }

 private:
  static double ProcessSeconds() {
    std::timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }

  const int threads_;
  const Clock::time_point start_ = Clock::now();
  const double processor_ = ProcessSeconds();
};

}  // namespace lucid
