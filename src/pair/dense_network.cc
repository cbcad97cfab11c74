#include "pair/dense_network.h"

#include <algorithm>
#include <numeric>

#include "numeric/rounding.h"

namespace lucid {

DenseLayer EmptyDense(const Layer& shape) {
  DenseLayer dense;
  dense.weights.Reset(shape.outputs, shape.inputs);
  dense.bias.Reset(shape.outputs);
  return dense;
}

std::vector<DenseLayer> DenseLayers(const Network& network) {
  std::vector<DenseLayer> layers;
  for (const Layer& shape : network.architecture.layers()) {
    layers.push_back(EmptyDense(shape));
    WriteDense(shape, network.parameters, layers.back());
  }
  return layers;
}

void WriteDense(const Layer& shape, std::span<const float> parameters, DenseLayer& dense) {
  for (std::int64_t o = 0; o < shape.filters; ++o) {
    const float* filter = parameters.data() + shape.weight_at + o * shape.taps;
    for (std::int64_t t = 0; t < shape.positions; ++t) {
      const std::int64_t unit = o * shape.positions + t;
      double* row = dense.weights.row(unit);
      if (shape.kind == lucid::HiddenLayer::Kind::kDense) {
        for (std::int64_t k = 0; k < shape.taps; ++k) row[k] = filter[k];
      } else {
        for (std::int64_t k = 0; k < shape.taps; ++k) {
          row[t * shape.stride + shape.TapOffset(k)] = filter[k];
        }
      }
      dense.bias[unit] = parameters[shape.bias_at + o];
    }
  }
}

void SubtractDense(const DenseLayer& from, const DenseLayer& what, DenseLayer& out) {
  const double* a = from.weights.values.data();
  const double* b = what.weights.values.data();
  double* result = out.weights.values.data();
  const std::int64_t size = from.weights.rows * from.weights.stride;
  for (std::int64_t i = 0; i < size; ++i) result[i] = a[i] - b[i];
  for (std::int64_t k = 0; k < from.weights.rows; ++k) out.bias[k] = from.bias[k] - what.bias[k];
}

DenseNetwork::DenseNetwork(const Network& network)
    : architecture(network.architecture),
      layers(DenseLayers(network)),
      inputs(architecture.inputs()) {
  const auto shapes = architecture.layers();
  for (std::size_t m = 0; m < hidden(); ++m) {
    units += shapes[m].outputs;
    unit_lists.emplace_back(static_cast<std::size_t>(shapes[m].outputs));
    std::iota(unit_lists.back().begin(), unit_lists.back().end(), 0);
  }
  // At least as much as the checker of proofs charges (proof_bounder.h): where rounding is most of
  // an interval, its intervals may not be wider than these.
  const std::int64_t checker =
      4 * architecture.widest() + static_cast<std::int64_t>(shapes.size()) + 64;
  gamma = GammaUp(5 * std::max(2 * (units + inputs) + 64, checker) / 4);
}

}  // namespace lucid
