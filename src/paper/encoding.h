// The paper's mixed-integer program for beta_{c,S} (equations 3a-3g), matching dependencies and
// relax-if-similar included.
#pragma once

#include <cstdint>
#include <vector>

#include "lucid/nn/network.h"
#include "pair/hyper_network.h"
#include "pair/neuron_bounds.h"
#include "paper/difference.h"
#include "paper/layer_rows.h"
#include "paper/model.h"

namespace lucid {

struct EncodingOptions {
  bool matching_dependencies = true;
  bool relax_if_similar = true;
  double tau = 0.01;        // relax-if-similar: the largest width of a similar neuron's difference
  double member_error = 0;  // the constraint is g <= member_error
  double floor = 0;         // only inputs of at least this confidence: a known lower bound of beta
};

struct Encoding {
  MilpModel model;
  LayerColumns input;                    // the columns of x
  std::int32_t beta = -1;                // the column that is maximised
  SumColumns network_sums, member_sums;  // of the weighted sums of N and of the hyper-network
};

// Ensures: for every network M inside `hyper` and every x of the box with N_c(x) - max N_c'(x) =: f
// >= floor and M_c(x) - max M_c'(x) <= member_error there is a feasible point of value f. So the
// optimum (and every safe bound of it), or the floor if that is larger or there is no feasible
// point, is at or above beta_{c,S}. Every coefficient that is not a
// parameter is rounded outward; every big-M comes from neuron bounds. Columns and rows are scaled
// by nothing.
// Requires: `bounds` belongs to `hyper`, both of N's architecture; finite bounds; floor >= 0. Both
// bounds need to hold only for such x and M.
Encoding Encode(const NetworkFacts& facts, const HyperNetwork& hyper, const NeuronBounds& bounds,
                std::int32_t label, const EncodingOptions& options);

}  // namespace lucid
