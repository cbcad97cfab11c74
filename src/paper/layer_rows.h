// The rows of a network's layers in a mixed-integer program (equations 3d-3g).
#pragma once

#include <cstdint>
#include <vector>

#include "pair/hyper_network.h"
#include "pair/neuron_bounds.h"
#include "paper/model.h"

namespace lucid {

// Columns of a layer's outputs z, by unit. A neuron that is zero for every input has none (-1).
using LayerColumns = std::vector<std::int32_t>;

// Tags (see MilpModel) of the columns and rows of one neuron: the same in every encoding of an
// architecture, whatever box and subset it is of.
enum class NeuronPart : std::int64_t {
  kSum,
  kOutput,
  kPhase,  // columns
  kSumLow,
  kSumHigh,
  kAbove,
  kActive,
  kInactive,
  kMatch  // rows
};
std::int64_t NeuronTag(int network, std::size_t layer, std::int64_t unit, NeuronPart part);

// Columns of a whole network's weighted sums z^ ([layer][unit]; -1: none).
using SumColumns = std::vector<LayerColumns>;

// A column for the weighted sum z^ of every network inside `hyper`, given the outputs below:
// between b_lo + sum w_lo z and b_hi + sum w_hi z, which is right because z >= 0 (Eq. 3d, 3e).
// `network` (0: N, 1: the hyper-network) is for the tags.
std::int32_t AddWeightedSum(MilpModel& model, int network, std::size_t m, const HyperNetwork& hyper,
                            std::int64_t unit, Interval range, const LayerColumns& below);

// The whole layer m: weighted sums, and ReLU where the layer has one: exact with a binary column
// (Eq. 3f, 3g), or for units marked in `relaxed` the triangle above it (relax-if-similar). Neurons
// whose phase is known get neither. Appends the columns of the weighted sums to `sums`.
LayerColumns AddLayer(MilpModel& model, int network, std::size_t m, const HyperNetwork& hyper,
                      const NeuronBounds& bounds, const LayerColumns& below,
                      const std::vector<char>* relaxed, SumColumns& sums);

}  // namespace lucid
