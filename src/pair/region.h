// What is asked of a pair (N, member), and of which inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "pair/neuron_bounds.h"

namespace lucid {

// The sign of one weighted sum, of N or of the member.
struct PhaseSplit {
  std::int32_t layer = 0, unit = 0;
  bool member = false;  // else N
  bool active = false;  // >= 0, else <= 0
  bool operator==(const PhaseSplit&) const = default;
};

// The inputs of a box at which some neurons have a given phase.
struct Region {
  Box box;
  std::vector<PhaseSplit> phases;
};

// N's class, and the class that the member gives at least as much.
struct PairQuestion {
  std::int32_t label = 0;
  std::int32_t other = 0;  // c'': P_c - P_c'' <= member_error
  std::int32_t below = 0;  // c': f <= N_c - N_c'
  double member_error = 0;
  // Of a mixture of classes, which counts instead of `below`, the weight of every class:
  // f <= sum_j w_j (N_c - N_j) / kWholeWeight. Empty: there is none. A mixture has at least two
  // classes, because a byte cannot hold kWholeWeight.
  std::vector<std::uint8_t> weights;
  // A search for multipliers may take any mixture, or another class than `below`. Where there are
  // two classes this changes nothing.
  bool mix = false;
};

// The confidences that matter. Inputs with N's label c whose f is smaller than `least` are bounded
// well enough already, and it is proved that no input that leaks has an f above `most`.
struct Band {
  std::int32_t label = 0;
  double least = 0;
  double most = 0;
};

}  // namespace lucid
