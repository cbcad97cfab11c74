// Hand-made and random problems for the tests of this folder and of tests/soundness.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "bounds/test_support.h"
#include "verify/milp_bound.h"

namespace lucid {

inline Network HandMade(const std::string& architecture, std::vector<float> parameters) {
  return {Architecture::FromCanonical(architecture).value(), std::move(parameters)};
}

// Moves the output biases so that all classes tie at a random input: otherwise most random networks
// have one class only.
inline void Balance(Network& network, Stream& stream) {
  const Point x = RandomPoint(UnitBox(network.architecture.inputs()), stream);
  const std::vector<Exact> outputs = Evaluate(network, x).pre.back();
  for (std::size_t c = 0; c < outputs.size(); ++c) {
    float& bias = network.parameters[network.architecture.layers().back().bias_at + c];
    bias = OnGrid(bias - static_cast<double>(outputs[c]));
  }
}

// The same function of the means of groups of inputs: `copies` inputs for each of the network's.
// The means run over [0,1], so beta is the same; with more than ten inputs the native engine splits
// phases. Requires: dense layers; `copies` a power of two, which floats divide by exactly.
inline Network Repeated(const Network& network, std::int64_t copies) {
  std::vector<HiddenLayer> hidden;
  const auto layers = network.architecture.layers();
  for (const Layer& layer : layers.first(layers.size() - 1)) {
    hidden.push_back({.units = layer.outputs});
  }
  const Layer& first = layers.front();
  Network wide{Hidden(hidden, first.inputs * copies, network.architecture.classes()), {}};
  for (std::int64_t unit = 0; unit < first.outputs; ++unit) {
    for (std::int64_t j = 0; j < first.inputs * copies; ++j) {
      const float weight = network.parameters[first.weight_at + unit * first.inputs + j / copies];
      wide.parameters.push_back(weight / static_cast<float>(copies));
    }
  }
  wide.parameters.insert(wide.parameters.end(), network.parameters.begin() + first.bias_at,
                         network.parameters.end());
  return wide;
}

// One class on the unit box, without an attack unless something is known already, on one thread.
inline Result<ClassBound> BoundOf(const Network& network, const Members& members,
                                  std::int32_t label, const MilpBoundOptions& options,
                                  const AttackResult& known = {}) {
  const NetworkFacts facts = FactsOf(network, UnitBox(network.architecture.inputs()));
  const double error = LargestError(members, 1).value();
  return BoundClassByMilp({members, facts, options, error}, label, known,
                          std::chrono::steady_clock::time_point::max(), {});
}

}  // namespace lucid
