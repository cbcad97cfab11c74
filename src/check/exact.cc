#include "check/exact.h"

#include <algorithm>

#include "numeric/rounding.h"

namespace lucid {

std::vector<mpq_class> ExactLogits(const Network& network, std::span<const float> x) {
  std::vector<mpq_class> in(x.begin(), x.end());
  for (const Layer& layer : network.architecture.layers()) {
    std::vector<mpq_class> out(static_cast<std::size_t>(layer.outputs));
    for (std::int64_t o = 0; o < layer.filters; ++o) {
      const float* weights = network.parameters.data() + layer.weight_at + o * layer.taps;
      for (std::int64_t t = 0; t < layer.positions; ++t) {
        mpq_class& sum = out[o * layer.positions + t];
        sum = network.parameters[layer.bias_at + o];
        for (std::int64_t k = 0; k < layer.taps; ++k) {
          const mpq_class& value = in[t * layer.stride + layer.TapOffset(k)];
          if (value != 0) sum += mpq_class(weights[k]) * value;
        }
        if (layer.relu && sum < 0) sum = 0;
      }
    }
    in = std::move(out);
  }
  return in;
}

std::int32_t ExactLabel(std::span<const mpq_class> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

mpq_class ExactMargin(std::span<const mpq_class> logits, std::int32_t label) {
  const mpq_class* other = nullptr;
  for (std::size_t k = 0; k < logits.size(); ++k) {
    if (static_cast<std::int32_t>(k) == label) continue;
    if (other == nullptr || logits[k] > *other) other = &logits[k];
  }
  return logits[label] - *other;
}

double RoundedDown(const mpq_class& value) {
  const double toward_zero = value.get_d();
  return mpq_class(toward_zero) > value ? NextDown(toward_zero) : toward_zero;
}

}  // namespace lucid
