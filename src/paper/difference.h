// How far a neuron of any member may be from the same neuron of N: the paper's "Difference
// intervals" (section 6.2).
#pragma once

#include <vector>

#include "lucid/nn/network.h"
#include "pair/hyper_network.h"
#include "pair/neuron_bounds.h"

namespace lucid {

struct DifferenceBounds {
  std::vector<std::vector<Interval>> pre;   // [layer][unit]: of z^# - z^
  std::vector<std::vector<Interval>> post;  // of z# - z (equal to pre where there is no ReLU)
};

// I_z^ = I_b + sum_k' ( w I_z' + I_w (z' + I_z') ),  I_z = [-max(0, -lower), max(0, upper)],
// with z' the interval of N's *output* of the layer below, the whole interval I_w, and the bias.
// Ensures: for every network M inside `hyper` and x of the box of `bounds`, z_M - z_N lies in the
// result (outward rounded). Requires: `bounds` belongs to `network`. Thread-safe. O(parameters).
DifferenceBounds PropagateDifferences(const Network& network, const HyperNetwork& hyper,
                                      const NeuronBounds& bounds);

}  // namespace lucid
