// The label that outputs stand for, and by how much: the one rule of Evaluator and of every faster
// forward pass.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "lucid/nn/network.h"

namespace lucid {

// The smallest class with the largest output. Requires: at least one output.
inline std::int32_t LabelOf(std::span<const double> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// Requires: at least two outputs.
inline Decision DecisionOf(std::span<const double> logits) {
  const std::int32_t label = LabelOf(logits);
  double other = -std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < logits.size(); ++c) {
    if (c != static_cast<std::size_t>(label)) other = std::max(other, logits[c]);
  }
  return {label, logits[static_cast<std::size_t>(label)] - other};
}

}  // namespace lucid
