// Time that has passed, and time that is left.
#pragma once

#include <algorithm>
#include <chrono>

namespace lucid {

using Clock = std::chrono::steady_clock;

inline double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The moment `seconds` from now. An infinite number is some thirty years.
inline Clock::time_point In(double seconds) {
  constexpr double kYears = 1e9;  // a time_point overflows beyond some centuries
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::clamp(seconds, 0.0, kYears)));
}

}  // namespace lucid
