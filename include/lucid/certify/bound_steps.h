// How the bounds of a search closed in on beta: what `lucid bound` leaves beside its certificate.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/result.h"

namespace lucid {

// The bounds of a class from `seconds` after its start on.
struct BoundStep {
  std::int32_t label = 0;
  double seconds = 0;
  double lower = 0, upper = 0;  // upper may be +inf: nothing was proved yet
  bool operator==(const BoundStep&) const = default;
};

// CSV with the columns class, seconds, lower, upper; numbers are read back as the same doubles.
std::string EncodeBoundSteps(std::span<const BoundStep> steps);
// Errors name the source, the line and what is wrong with it: a number that is none, a class below
// 0, a lower bound above the upper one.
Result<std::vector<BoundStep>> ParseBoundSteps(std::string_view text, const std::string& source);

inline constexpr const char* kBoundsFile = "bounds.csv";  // in a run folder

}  // namespace lucid
