#include "train/scalar_trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace lucid {
namespace {

bool IsDense(const Layer& layer) { return layer.kind == HiddenLayer::Kind::kDense; }

float Dot(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum = std::fma(a[i], b[i], sum);
  return sum;
}

}  // namespace

float ScalarExp(float x) {
  x = std::max(x, -87.0f);
  const float shifted = std::fma(x, 1.44269504088896341f, 12582912.0f);
  const float n = shifted - 12582912.0f;
  float r = std::fma(n, -0.693359375f, x);
  r = std::fma(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  for (float c :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    p = std::fma(p, r, c);
  }
  p = std::fma(p, r * r, r) + 1.0f;
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(p) +
                              (std::bit_cast<std::int32_t>(shifted) << 23));
}

ScalarTrainer::ScalarTrainer(const ScalarPlan& plan)
    : plan_(plan),
      layers_(plan.architecture.layers()),
      w_(plan.initial),
      velocity_(w_.size()),
      average_(w_.size()) {}

void ScalarTrainer::Step() {
  const TrainOptions& options = plan_.options;
  const std::int64_t step = step_++;
  const auto rows = plan_.rows(step);
  gradient_.assign(w_.size(), 0);
  if (plan_.clipping) {
    AddClipped(rows);
    std::span<const std::int32_t> noise;
    if (options.method == TrainOptions::Method::kPrivate) noise = plan_.noise(step);
    for (std::size_t i = 0; i < w_.size(); ++i) {
      const std::int64_t sum = integers_[i] + (noise.empty() ? 0 : noise[i]);
      gradient_[i] = static_cast<float>(static_cast<std::int32_t>(sum)) * plan_.clipping->scale;
    }
  } else {
    for (const std::int32_t row : rows) AddRow(row, 1.0f / static_cast<float>(rows.size()));
  }
  const float rate = plan_.rate(step);
  for (std::size_t i = 0; i < w_.size(); ++i) {
    float g = std::fma(static_cast<float>(options.weight_decay), w_[i], gradient_[i]);
    if (options.momentum != 0) {
      velocity_[i] = g = std::fma(static_cast<float>(options.momentum), velocity_[i], g);
    }
    w_[i] = std::fma(-rate, g, w_[i]);
  }
  if (!plan_.is_averaged(step)) return;
  const float share = 1.0f / static_cast<float>(options.average_epochs);
  for (std::size_t i = 0; i < w_.size(); ++i) average_[i] = std::fma(share, w_[i], average_[i]);
}

std::vector<float> ScalarTrainer::Result() const {
  Values result = plan_.options.average_epochs > 0 ? average_ : w_;
  if (plan_.inputs) FoldInputs(plan_.architecture, *plan_.inputs, result);
  return result;
}

std::vector<float> ScalarTrainer::Train() {
  while (step_ < plan_.steps) Step();
  return Result();
}

void ScalarTrainer::AddRow(std::int32_t row, float weight) {
  const Trace trace = TraceOf(row, weight);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    AddGradient(layers_[l], trace.in[l], trace.delta[l], gradient_);
  }
}

ScalarTrainer::Trace ScalarTrainer::TraceOf(std::int32_t row, float weight) const {
  const auto x = plan_.table.row(row);
  Trace trace;
  trace.in = {{x.begin(), x.end()}};
  for (std::size_t k = 0; plan_.inputs && k < x.size(); ++k) {
    trace.in[0][k] = (x[k] - plan_.inputs->centers[k]) * plan_.inputs->factors[k];
  }
  for (const Layer& layer : layers_) trace.in.push_back(Apply(layer, trace.in.back()));
  trace.delta.resize(layers_.size());
  trace.delta.back() = LossGradient(trace.in.back(), plan_.table.y[row], weight);
  for (std::size_t l = layers_.size(); l-- > 1;) {
    trace.delta[l - 1] = InputGradient(layers_[l], trace.in[l], trace.delta[l]);
  }
  return trace;
}

ScalarTrainer::Values ScalarTrainer::Apply(const Layer& layer, const Values& in) const {
  Values out(static_cast<std::size_t>(layer.outputs));
  for (std::int64_t j = 0; j < layer.filters; ++j) {
    for (std::int64_t t = 0; t < layer.positions; ++t) {
      float sum = w_[layer.bias_at + j];
      for (std::int64_t k = 0; k < layer.taps; ++k) {
        sum = std::fma(w_[layer.weight_at + j * layer.taps + k],
                       in[t * layer.stride + layer.TapOffset(k)], sum);
      }
      out[j * layer.positions + t] = layer.relu && !(sum > 0) ? 0.0f : sum;
    }
  }
  return out;
}

ScalarTrainer::Values ScalarTrainer::LossGradient(Values z, std::int32_t label, float weight) {
  const float top = *std::max_element(z.begin(), z.end());
  float total = 0;
  for (float& v : z) total += v = ScalarExp(v - top);
  for (std::size_t c = 0; c < z.size(); ++c) {
    z[c] = (z[c] / total - (static_cast<std::int32_t>(c) == label ? 1.0f : 0.0f)) * weight;
  }
  return z;
}

void ScalarTrainer::AddGradient(const Layer& layer, const Values& in, const Values& delta,
                                Values& sum) {
  for (std::int64_t t = 0; t < layer.positions; ++t) {
    for (std::int64_t j = 0; j < layer.filters; ++j) {
      const float d = delta[j * layer.positions + t];
      sum[layer.bias_at + j] += d;
      for (std::int64_t k = 0; k < layer.taps; ++k) {
        float& g = sum[layer.weight_at + j * layer.taps + k];
        g = std::fma(d, in[t * layer.stride + layer.TapOffset(k)], g);
      }
    }
  }
}

// The gradient of a layer's input, 0 where it is inactive.
ScalarTrainer::Values ScalarTrainer::InputGradient(const Layer& layer, const Values& in,
                                                   const Values& delta) const {
  Values below(in.size());
  for (std::int64_t t = 0; t < layer.positions; ++t) {
    for (std::int64_t k = 0; k < layer.taps; ++k) {
      float sum = 0;
      for (std::int64_t j = 0; j < layer.filters; ++j) {
        sum =
            std::fma(w_[layer.weight_at + j * layer.taps + k], delta[j * layer.positions + t], sum);
      }
      below[t * layer.stride + layer.TapOffset(k)] += sum;
    }
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!(in[i] > 0)) below[i] = 0;
  }
  return below;
}

// The sums on the grid by their definition: every product is rounded to a multiple of g by
// itself, ties to an even total, in integers of 64 bits that never move anything anywhere.
void ScalarTrainer::AddClipped(std::span<const std::int32_t> rows) {
  integers_.assign(w_.size(), 0);
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t end = first;
    std::vector<Trace> traces;
    while (end < rows.size() && plan_.unit_of[rows[end]] == plan_.unit_of[rows[first]]) {
      traces.push_back(TraceOf(rows[end++], 1.0f));
    }
    const float scale = FactorOf(traces);
    for (std::size_t l = 0; scale > 0 && l < layers_.size(); ++l) AddToIntegers(l, traces, scale);
    first = end;
  }
}

ScalarTrainer::Values ScalarTrainer::FilterGradient(std::size_t l,
                                                    const std::vector<Trace>& traces) const {
  Values sum(w_.size());
  for (const Trace& trace : traces) AddGradient(layers_[l], trace.in[l], trace.delta[l], sum);
  return {sum.begin() + layers_[l].weight_at,
          sum.begin() + layers_[l].bias_at + layers_[l].filters};
}

float ScalarTrainer::FactorOf(const std::vector<Trace>& traces) const {
  const Clipping& clipping = *plan_.clipping;
  float squared = 0, sum = 0, cross = 0, filters = 0;
  for (std::size_t r = 0; r < traces.size(); ++r) {
    float own = 0;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      if (!IsDense(layers_[l])) continue;
      const float inputs = Dot(traces[r].in[l], traces[r].in[l]) + 1;
      if (!(inputs <= kMaxSquaredNorm)) return 0;
      own += Dot(traces[r].delta[l], traces[r].delta[l]) * inputs;
    }
    squared += own;
    sum += std::sqrt(own);
  }
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    if (IsDense(layers_[l])) {
      for (std::size_t r = 0; r < traces.size(); ++r) {
        for (std::size_t s = 0; s < r; ++s) {
          cross += 2.0f * (Dot(traces[s].delta[l], traces[r].delta[l]) *
                           (Dot(traces[s].in[l], traces[r].in[l]) + 1));
        }
      }
    } else {
      const Values gradient = FilterGradient(l, traces);
      filters += Dot(gradient, gradient);
    }
  }
  if (traces.size() > 1) {
    squared = std::max(squared + cross, 0.0f);
    squared = std::fma(sum * sum, clipping.unit_slack, squared);
  }
  squared += filters;
  if (!(squared <= std::numeric_limits<float>::max())) return 0;
  float scale = std::min(1.0f, clipping.clip / std::sqrt(squared));
  if (traces.size() > 1) scale = std::min(scale, 8 * clipping.clip / sum);
  return scale;
}

void ScalarTrainer::AddToIntegers(std::size_t l, const std::vector<Trace>& traces, float scale) {
  const Layer& layer = layers_[l];
  if (!IsDense(layer)) {
    const Values gradient = FilterGradient(l, traces);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      AddRounded(layer.weight_at + static_cast<std::int64_t>(i), scale, gradient[i]);
    }
    return;
  }
  for (const Trace& trace : traces) {
    for (std::int64_t j = 0; j < layer.filters; ++j) {
      const float d = trace.delta[l][j] * scale;
      AddRounded(layer.bias_at + j, d, 1.0f);
      for (std::int64_t k = 0; k < layer.taps; ++k) {
        AddRounded(layer.weight_at + j * layer.taps + k, d, trace.in[l][k]);
      }
    }
  }
}

// The product of two floats is exact in a double, and so is what is compared with a half.
void ScalarTrainer::AddRounded(std::int64_t parameter, float a, float b) {
  const double product =
      static_cast<double>(a) * static_cast<double>(b) / static_cast<double>(plan_.clipping->grid);
  std::int64_t& total = integers_[static_cast<std::size_t>(parameter)];
  const double down = std::floor(product), rest = product - down;
  const std::int64_t below = total + static_cast<std::int64_t>(down);
  total = below + (rest > 0.5 || (rest == 0.5 && (below & 1) != 0) ? 1 : 0);
}

}  // namespace lucid
