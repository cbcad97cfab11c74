// The oracle of private training: gradients of one example at a time, in double, by definition.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "baselines/example_gradients.h"
#include "lucid/nn/network.h"
#include "random/stream.h"
#include "train/test_support.h"

namespace lucid {

inline std::vector<float> RandomWeights(const Architecture& architecture, std::uint64_t seed) {
  Stream stream(seed, "test weights");
  std::vector<float> weights(static_cast<std::size_t>(architecture.parameters()));
  for (float& w : weights) w = static_cast<float>(stream.Uniform(-1, 1));
  return weights;
}

// The units of every layer, the inputs first.
inline std::vector<std::vector<double>> UnitsOf(const Architecture& architecture,
                                                std::span<const double> weights,
                                                std::span<const float> x) {
  std::vector<std::vector<double>> units = {{x.begin(), x.end()}};
  for (const Layer& layer : architecture.layers()) {
    std::vector<double> out(static_cast<std::size_t>(layer.outputs));
    for (std::int64_t o = 0; o < layer.filters; ++o) {
      for (std::int64_t t = 0; t < layer.positions; ++t) {
        double sum = weights[layer.bias_at + o];
        for (std::int64_t k = 0; k < layer.taps; ++k) {
          sum += weights[layer.weight_at + o * layer.taps + k] *
                 units.back()[t * layer.stride + layer.TapOffset(k)];
        }
        out[o * layer.positions + t] = layer.relu && sum < 0 ? 0 : sum;
      }
    }
    units.push_back(std::move(out));
  }
  return units;
}

// The gradient of one row's loss by all parameters: back-propagation, term by term.
inline std::vector<double> GradientOf(const Architecture& architecture,
                                      std::span<const double> weights, const Table& table,
                                      std::int32_t row, const Loss& loss) {
  const auto units = UnitsOf(architecture, weights, table.row(row));
  std::vector<double> gradient(weights.size()), delta(units.back().size());
  loss.Gradient(row, units.back(), delta);
  const auto layers = architecture.layers();
  for (std::size_t l = layers.size(); l-- > 0;) {
    const Layer& layer = layers[l];
    std::vector<double> below(units[l].size());
    for (std::int64_t o = 0; o < layer.filters; ++o) {
      for (std::int64_t t = 0; t < layer.positions; ++t) {
        const std::int64_t unit = o * layer.positions + t;
        if (layer.relu && units[l + 1][unit] <= 0) continue;
        gradient[layer.bias_at + o] += delta[unit];
        for (std::int64_t k = 0; k < layer.taps; ++k) {
          const std::int64_t weight = layer.weight_at + o * layer.taps + k;
          const std::int64_t input = t * layer.stride + layer.TapOffset(k);
          gradient[weight] += delta[unit] * units[l][input];
          below[input] += delta[unit] * weights[weight];
        }
      }
    }
    delta = std::move(below);
  }
  return gradient;
}

inline double NormOf(std::span<const double> values) {
  double square = 0;
  for (const double v : values) square += v * v;
  return std::sqrt(square);
}

inline std::vector<double> Widen(std::span<const float> values) {
  return {values.begin(), values.end()};
}

// The clipped sum, an example after the other.
inline std::vector<double> ClippedSum(const Architecture& architecture,
                                      std::span<const float> weights, const Table& table,
                                      std::span<const std::int32_t> rows, const Loss& loss,
                                      double clip) {
  std::vector<double> sum(weights.size());
  for (const std::int32_t row : rows) {
    const auto gradient = GradientOf(architecture, Widen(weights), table, row, loss);
    const double scale = clip == kNoClip ? 1 : std::min(1.0, clip / (NormOf(gradient) + 1e-6));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += scale * gradient[i];
  }
  return sum;
}

}  // namespace lucid
