// Bounds of every neuron of a hyper-network (or, as a special case, of one network) over a box of
// inputs.
#pragma once

#include <span>
#include <vector>

#include "numeric/interval.h"
#include "pair/hyper_network.h"

namespace lucid {

// A box of inputs. Lower bounds are >= 0: the encodings rest on non-negative inputs.
using Box = std::vector<Interval>;
Box UnitBox(std::int64_t inputs);  // [0,1]^d

struct NeuronBounds {
  std::vector<std::vector<Interval>> pre;  // [layer][unit]: of the weighted sum z^
  // The range of the neuron's output z, which is after ReLU where the layer has one. Layer -1 is
  // the input.
  Interval Post(const Architecture& architecture, std::int64_t layer, std::int64_t unit) const;
  Box input;
};

// Interval arithmetic, layer by layer. Ensures: for every network inside `hyper` and every x of
// `box`, every weighted sum lies in its interval. Outward rounded. O(parameters x positions).
NeuronBounds IntervalBounds(const HyperNetwork& hyper, const Box& box);

// The same, tightened by substituting linear relaxations of ReLU backwards to the input (CROWN /
// DeepPoly with interval weights, which is sound because inputs and outputs of ReLU are >= 0).
// Never wider than IntervalBounds. Not monotone, unlike those: each ReLU's lower line is chosen by
// its own bounds, so a smaller hyper-network or box now and then gets a wider interval. (Both are
// valid: intersect with the parent's where that matters.) O(neurons x parameters x positions).
NeuronBounds LinearBounds(const HyperNetwork& hyper, const Box& box);

// Ensures: result >= sum_k coefficients[k] z_{L,k} for every network inside `hyper` and x of the
// box; outputs' weights enter with their intervals, the difference of two outputs is formed before
// bounding (so shared parts cancel only as far as intervals allow). Requires: `bounds` belongs to
// `hyper`.
double OutputUpperBound(const HyperNetwork& hyper, const NeuronBounds& bounds,
                        std::span<const double> coefficients);

// The same for output `label` minus output `other`.
double LargestDifference(const HyperNetwork& hyper, const NeuronBounds& bounds, std::int32_t label,
                         std::size_t other);

// N over a box, as the engines ask about it.
struct NetworkFacts {
  const Network& network;
  HyperNetwork point;   // N as a hyper-network
  NeuronBounds bounds;  // over `bounds.input`
};
NetworkFacts FactsOf(const Network& network, const Box& box);

// No network inside `hyper` gives `label` a confidence above this at any x that `bounds` speaks of.
double LargestConfidence(const HyperNetwork& hyper, const NeuronBounds& bounds, std::int32_t label);

}  // namespace lucid
