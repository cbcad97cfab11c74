// Many linear functions of a layer's outputs at once, substituted backwards to the inputs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pair/dense_network.h"
#include "pair/half_spaces.h"
#include "pair/input_points.h"

namespace lucid {

// One hidden layer with a line over and under every neuron. Of N alone, difference and member are
// null.
struct LinedLayer {
  const DenseLayer* network = nullptr;
  const DenseLayer* difference = nullptr;
  const DenseLayer* member = nullptr;
  const PairLines* lines = nullptr;
  const PaddedArray* size = nullptr;                 // s_k
  const std::vector<std::int32_t>* alive = nullptr;  // neurons with a line that is not flat
};

// Row r stands for constant[r] + z[r] . (z of a layer) + d[r] . (delta of that layer), for which
// every step below puts a function of the layer below that is nowhere smaller. size[r] is what the
// rounding charge is proportional to: at most 16 gamma size[r] is lost.
struct BackwardRows {
  void Start(std::int64_t count, std::int64_t columns);  // all zero
  // Rows of a layer's outputs become rows of the outputs of the layer below it, or of the inputs
  // (`last`: of which there are no differences).
  void Substitute(const LinedLayer& layer, bool last);
  // value[r] becomes the maximum of z[r] . x over a box, the points in it, and half spaces.
  // Requires: rows of inputs.
  void Maximise(const CentredIntervals& x, const InputPoints& points,
                std::span<const HalfSpaces* const> cuts);

  std::int64_t count = 0;
  PaddedMatrix z, d;
  PaddedArray constant, size, value;

 private:
  PaddedMatrix next_z_, next_d_;
  CutMaximiser maximiser_;
};

}  // namespace lucid
