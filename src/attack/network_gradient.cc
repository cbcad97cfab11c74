#include "attack/network_gradient.h"

#include <algorithm>

namespace lucid {

void NetworkGradient::Assign(const Architecture& architecture, std::span<const float> parameters,
                             std::int32_t label) {
  label_ = label;
  layers_.resize(architecture.layers().size());
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Layer& shape = architecture.layers()[l];
    WideLayer& layer = layers_[l];
    layer.shape = shape;
    const auto weights = parameters.subspan(shape.weight_at, shape.weights());
    const auto biases = parameters.subspan(shape.bias_at, shape.filters);
    layer.by_filter.assign(weights.begin(), weights.end());
    layer.biases.assign(biases.begin(), biases.end());
    layer.by_tap.resize(weights.size());
    for (std::int64_t o = 0; o < shape.filters; ++o) {
      const float* row = weights.data() + o * shape.taps;
      for (std::int64_t k = 0; k < shape.taps; ++k) layer.by_tap[k * shape.filters + o] = row[k];
    }
    layer.offsets.resize(static_cast<std::size_t>(shape.taps));
    layer.contiguous = true;
    for (std::int64_t k = 0; k < shape.taps; ++k) {
      layer.offsets[k] = shape.TapOffset(k);
      layer.contiguous &= layer.offsets[k] == k;
    }
    layer.values.resize(static_cast<std::size_t>(shape.outputs));
    layer.slopes.resize(static_cast<std::size_t>(shape.outputs));
    sums_.resize(std::max(sums_.size(), static_cast<std::size_t>(shape.filters)));
  }
}

void NetworkGradient::Forward(WideLayer& layer, std::span<const double> in,
                              std::vector<double>& sums) {
  const Layer& shape = layer.shape;
  const std::int64_t filters = shape.filters;
  for (std::int64_t t = 0; t < shape.positions; ++t) {
    double* const sum = sums.data();
    std::copy(layer.biases.begin(), layer.biases.end(), sum);
    for (std::int64_t k = 0; k < shape.taps; ++k) {
      const double h = in[t * shape.stride + layer.offsets[k]];
      if (h == 0) continue;
      const double* const w = layer.by_tap.data() + k * filters;
      for (std::int64_t o = 0; o < filters; ++o) sum[o] += w[o] * h;
    }
    for (std::int64_t o = 0; o < filters; ++o) {
      layer.values[o * shape.positions + t] = shape.relu ? std::max(sum[o], 0.0) : sum[o];
    }
  }
}

double NetworkGradient::Evaluate(std::span<const double> x) {
  std::span<const double> in = x;
  for (WideLayer& layer : layers_) {
    Forward(layer, in, sums_);
    in = layer.values;
  }
  other_ = label_ == 0 ? 1 : 0;
  for (std::int32_t c = 0; c < static_cast<std::int32_t>(in.size()); ++c) {
    if (c != label_ && in[c] > in[other_]) other_ = c;
  }
  return in[label_] - in[other_];
}

// below[tap k at t] += sum over filters of weight * slope.
void NetworkGradient::Backward(const WideLayer& layer, std::span<double> below) {
  const Layer& shape = layer.shape;
  std::ranges::fill(below, 0.0);
  for (std::int64_t t = 0; t < shape.positions; ++t) {
    double* const place = below.data() + t * shape.stride;
    for (std::int64_t o = 0; o < shape.filters; ++o) {
      const double slope = layer.slopes[o * shape.positions + t];
      if (slope == 0) continue;
      const double* const w = layer.by_filter.data() + o * shape.taps;
      if (layer.contiguous) {
        for (std::int64_t k = 0; k < shape.taps; ++k) place[k] += slope * w[k];
      } else {
        for (std::int64_t k = 0; k < shape.taps; ++k) place[layer.offsets[k]] += slope * w[k];
      }
    }
  }
}

void NetworkGradient::Gradient(std::span<double> out) {
  WideLayer& last = layers_.back();
  std::ranges::fill(last.slopes, 0.0);
  last.slopes[label_] = 1;
  last.slopes[other_] = -1;
  for (std::size_t l = layers_.size() - 1; l > 0; --l) {
    WideLayer& below = layers_[l - 1];
    Backward(layers_[l], below.slopes);
    for (std::size_t i = 0; i < below.slopes.size(); ++i) {
      if (!(below.values[i] > 0)) below.slopes[i] = 0;
    }
  }
  Backward(layers_.front(), out);
}

}  // namespace lucid
