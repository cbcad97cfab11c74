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

// f or g: output `label` minus the largest other one.
inline Exact ConfidenceOf(const std::vector<Exact>& outputs, std::int32_t label) {
  Exact confidence = 1e30;
  for (std::size_t other = 0; other < outputs.size(); ++other) {
    if (other == static_cast<std::size_t>(label)) continue;
    confidence = std::min(confidence, outputs[label] - outputs[other]);
  }
  return confidence;
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
