// Networks as dense matrices of doubles, which is how the bounds of a pair read them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lucid/nn/network.h"
#include "pair/dense_kernels.h"

namespace lucid {

// One layer; a convolution is written out.
struct DenseLayer {
  PaddedMatrix weights;  // [unit][input]
  PaddedArray bias;
};
std::vector<DenseLayer> DenseLayers(const Network& network);
// A layer of zeros with the right size.
DenseLayer EmptyDense(const Layer& shape);
// Writes one layer of a network into a matrix of the right size (whose other entries are zero).
void WriteDense(const Layer& shape, std::span<const float> parameters, DenseLayer& dense);
// out = from - what. Requires: all of one size.
void SubtractDense(const DenseLayer& from, const DenseLayer& what, DenseLayer& out);

// N, and what the bounds of its pairs charge for rounding (region_bounder.h).
struct DenseNetwork {
  explicit DenseNetwork(const Network& network);

  std::size_t hidden() const { return layers.size() - 1; }  // layers with a ReLU
  const DenseLayer& output() const { return layers.back(); }

  const Architecture architecture;
  const std::vector<DenseLayer> layers;
  std::int64_t inputs = 0, units = 0;                 // units: of all hidden layers
  double gamma = 0;                                   // gamma_n, n above the terms of any sum
  std::vector<std::vector<std::int32_t>> unit_lists;  // 0, 1, .. of each hidden layer's units
};

}  // namespace lucid
