// A part of the domain that a proof looks at.
#pragma once

#include <cstdint>
#include <vector>

namespace lucid {

// The sign of one weighted sum, of N or of the member in question.
struct ProofPhase {
  std::int32_t layer = 0, unit = 0;
  bool member = false;  // else N
  bool active = false;  // >= 0, else <= 0
  bool operator==(const ProofPhase&) const = default;
};

// Inputs between `lower` and `upper` (none, if any two cross) at which N and the member have these
// phases.
struct ProofRegion {
  std::vector<double> lower, upper;
  std::vector<ProofPhase> phases;
  bool operator==(const ProofRegion&) const = default;
};

}  // namespace lucid
