#include "check/slope.h"

#include <algorithm>

namespace lucid {

SlopeNetwork::SlopeNetwork(const Architecture& architecture)
    : architecture_(architecture),
      parameters_(static_cast<std::size_t>(architecture.parameters())) {
  values_.emplace_back(static_cast<std::size_t>(architecture.inputs()));
  for (const Layer& layer : architecture.layers()) {
    values_.emplace_back(static_cast<std::size_t>(layer.outputs));
  }
  slopes_ = values_;
}

std::span<const double> SlopeNetwork::Logits(std::span<const float> x) {
  std::ranges::copy(x, values_[0].begin());
  const std::span<const Layer> layers = architecture_.layers();
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const Layer& layer = layers[l];
    const TapRuns runs(layer);
    const std::vector<double>& in = values_[l];
    std::vector<double>& out = values_[l + 1];
    for (std::int64_t o = 0; o < layer.filters; ++o) {
      const float* weights = parameters_.data() + layer.weight_at + o * layer.taps;
      for (std::int64_t t = 0; t < layer.positions; ++t) {
        double sum = parameters_[layer.bias_at + o];
        for (std::int64_t run = 0; run < runs.count; ++run) {
          const float* w = weights + run * runs.length;
          const double* h = in.data() + t * layer.stride + run * runs.step;
          for (std::int64_t k = 0; k < runs.length; ++k) sum += w[k] * h[k];
        }
        out[o * layer.positions + t] = layer.relu ? std::max(sum, 0.0) : sum;
      }
    }
  }
  return values_.back();
}

std::int32_t SlopeNetwork::Rival(std::int32_t label) const {
  const std::vector<double>& logits = values_.back();
  std::int32_t rival = label == 0 ? 1 : 0;
  for (std::int32_t k = 0; k < static_cast<std::int32_t>(logits.size()); ++k) {
    if (k != label && logits[k] > logits[rival]) rival = k;
  }
  return rival;
}

double SlopeNetwork::Margin(std::span<const float> x, std::int32_t label) {
  const std::span<const double> logits = Logits(x);
  return logits[label] - logits[Rival(label)];
}

void SlopeNetwork::MarginAndGradient(std::span<const float> x, std::int32_t label, Slope& out) {
  out.value = Margin(x, label);
  std::ranges::fill(slopes_.back(), 0.0);
  slopes_.back()[Rival(label)] = -1;
  slopes_.back()[label] = 1;
  const std::span<const Layer> layers = architecture_.layers();
  for (std::size_t l = layers.size(); l-- > 0;) {
    const Layer& layer = layers[l];
    const TapRuns runs(layer);
    std::vector<double>& below = slopes_[l];
    std::ranges::fill(below, 0.0);
    for (std::int64_t o = 0; o < layer.filters; ++o) {
      const float* weights = parameters_.data() + layer.weight_at + o * layer.taps;
      for (std::int64_t t = 0; t < layer.positions; ++t) {
        const std::int64_t unit = o * layer.positions + t;
        const double slope = slopes_[l + 1][unit];
        if (slope == 0 || (layer.relu && values_[l + 1][unit] <= 0)) continue;
        for (std::int64_t run = 0; run < runs.count; ++run) {
          const float* w = weights + run * runs.length;
          double* d = below.data() + t * layer.stride + run * runs.step;
          for (std::int64_t k = 0; k < runs.length; ++k) d[k] += slope * w[k];
        }
      }
    }
  }
  out.gradient = slopes_[0];
}

}  // namespace lucid
