// The forward pass in 113-bit arithmetic: the oracle of every test that asks what a network says.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lucid/nn/network.h"
#include "support/exact_type.h"

namespace lucid {

struct ExactValues {
  std::vector<std::vector<Exact>> pre, post;  // [layer][unit]
};

// The definition of a network, unit by unit, at a range of numbers x.
inline ExactValues Evaluate(const Network& network, const auto& x) {
  ExactValues values;
  std::vector<Exact> z(x.begin(), x.end());
  for (const Layer& layer : network.architecture.layers()) {
    std::vector<Exact> sums(static_cast<std::size_t>(layer.outputs));
    for (std::int64_t o = 0; o < layer.filters; ++o) {
      for (std::int64_t t = 0; t < layer.positions; ++t) {
        Exact sum = network.parameters[layer.bias_at + o];
        for (std::int64_t k = 0; k < layer.taps; ++k) {
          sum += static_cast<Exact>(network.parameters[layer.weight_at + o * layer.taps + k]) *
                 z[t * layer.stride + layer.TapOffset(k)];
        }
        sums[o * layer.positions + t] = sum;
      }
    }
    values.pre.push_back(sums);
    if (layer.relu) {
      for (Exact& sum : sums) sum = sum > 0 ? sum : 0;
    }
    values.post.push_back(sums);
    z = sums;
  }
  return values;
}

// f or g: output `label` minus the largest other one.
inline Exact ConfidenceOf(const std::vector<Exact>& outputs, std::int32_t label) {
  Exact confidence = 1e30;
  for (std::size_t other = 0; other < outputs.size(); ++other) {
    if (other == static_cast<std::size_t>(label)) continue;
    confidence = std::min(confidence, outputs[label] - outputs[other]);
  }
  return confidence;
}

// The same of a network at x.
inline Exact ExactConfidence(const Network& network, std::int32_t label, const auto& x) {
  return ConfidenceOf(Evaluate(network, x).pre.back(), label);
}

}  // namespace lucid
