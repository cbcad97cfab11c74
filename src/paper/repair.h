// Turns points of a subset's LP relaxation into feasible points of its MILP.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attack/attack_ascent.h"
#include "attack/network_gradient.h"
#include "attack/witness.h"
#include "lucid/nn/network.h"
#include "pair/hyper_network.h"

namespace lucid {

// A network inside a hyper-network that gives `label` as little confidence as possible at x. Found
// by signs: a parameter that would raise the confidence stands at its lower end. One object per
// thread.
class WorstNetwork {
 public:
  // Keeps a reference to `hyper`.
  WorstNetwork(const HyperNetwork& hyper, std::int32_t label);

  // Ensures: the parameters lie inside the hyper-network. Valid until the next call.
  std::span<const float> At(std::span<const double> x);

 private:
  // The confidence at x, and the sign of each parameter's influence.
  double Slopes(std::span<const double> x);

  const HyperNetwork& hyper_;
  const std::int32_t label_;
  std::vector<float> centre_, parameters_, best_;
  std::vector<std::vector<double>> values_, slopes_;  // of layer m: outputs below it; its sums
  std::vector<double> influence_;                     // d confidence / d parameter
};

// For one subset. Its results are estimates: they decide when a search may stop, never its bound.
class Repair {
 public:
  // A singleton's points are witnesses, handed to `witnesses`. Keeps the references.
  Repair(const Network& network, const HyperNetwork& hyper, const Subset& subset,
         std::int32_t label, WitnessKeeper& witnesses);

  // The largest confidence of N found near x where a network of the subset's hyper-network gives
  // another label; -inf if none was found. Climbs, asks for the worst network, climbs again.
  double Near(std::span<const double> x);
  // The same from a few points all over [0,1]^d; what a search starts from.
  double Anywhere(std::uint64_t seed);

 private:
  const Architecture& architecture_;
  const Subset& subset_;
  const std::int32_t label_;
  WitnessKeeper& witnesses_;
  WorstNetwork worst_;
  NetworkGradient network_, member_;
  PairAscent ascent_;
};

}  // namespace lucid
