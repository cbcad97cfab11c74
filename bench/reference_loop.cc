#include "reference_loop.h"

#include <algorithm>
#include <cmath>

namespace lucid {
namespace {

using Values = std::vector<double>;

class ReferenceLoop {
 public:
  explicit ReferenceLoop(const TrainPlan& plan)
      : plan_(plan),
        layers_(plan.architecture().layers()),
        weights_(plan.initial().begin(), plan.initial().end()),
        gradient_(weights_.size()),
        units_(layers_.size() + 1) {}

  Values Train(std::int64_t left_out) {
    PlanReader reader(plan_);
    for (std::int64_t step = 0; step < plan_.steps(); ++step) {
      std::ranges::fill(gradient_, 0.0);
      std::int64_t present = 0;
      for (const std::int32_t row : reader.Rows(step)) {
        if (row == left_out) continue;
        ++present;
        AddGradient(row);
      }
      Step(static_cast<double>(plan_.Rate(step)), std::max<std::int64_t>(present, 1));
    }
    return weights_;
  }

 private:
  void AddGradient(std::int32_t row) {
    const auto x = plan_.table().row(row);
    units_[0].assign(x.begin(), x.end());
    for (std::size_t l = 0; l < layers_.size(); ++l) Forward(layers_[l], units_[l], units_[l + 1]);
    Values delta = SoftmaxGradient(units_.back(), plan_.table().y[row]);
    for (std::size_t l = layers_.size(); l-- > 0;) {
      delta = Backward(layers_[l], units_[l], delta);
      if (l == 0) break;
      for (std::size_t i = 0; i < delta.size(); ++i) {
        if (units_[l][i] <= 0) delta[i] = 0;
      }
    }
  }

  void Forward(const Layer& layer, const Values& in, Values& out) const {
    out.resize(static_cast<std::size_t>(layer.outputs));
    for (std::int64_t j = 0; j < layer.filters; ++j) {
      for (std::int64_t t = 0; t < layer.positions; ++t) {
        double sum = weights_[layer.bias_at + j];
        for (std::int64_t k = 0; k < layer.taps; ++k) {
          sum += weights_[layer.weight_at + j * layer.taps + k] *
                 in[t * layer.stride + layer.TapOffset(k)];
        }
        out[j * layer.positions + t] = layer.relu ? std::max(sum, 0.0) : sum;
      }
    }
  }

  static Values SoftmaxGradient(const Values& logits, std::int32_t label) {
    Values p(logits);
    const double top = *std::ranges::max_element(p);
    double total = 0;
    for (double& v : p) total += v = std::exp(v - top);
    for (double& v : p) v /= total;
    p[label] -= 1;
    return p;
  }

  // Adds to the gradient of the layer's parameters; returns that of its inputs.
  Values Backward(const Layer& layer, const Values& in, const Values& delta) {
    Values below(in.size());
    for (std::int64_t j = 0; j < layer.filters; ++j) {
      for (std::int64_t t = 0; t < layer.positions; ++t) {
        const double d = delta[j * layer.positions + t];
        gradient_[layer.bias_at + j] += d;
        for (std::int64_t k = 0; k < layer.taps; ++k) {
          const std::int64_t weight = layer.weight_at + j * layer.taps + k;
          const std::int64_t input = t * layer.stride + layer.TapOffset(k);
          gradient_[weight] += d * in[input];
          below[input] += d * weights_[weight];
        }
      }
    }
    return below;
  }

  void Step(double rate, std::int64_t rows) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const double gradient = gradient_[i] / static_cast<double>(rows);
      weights_[i] -= rate * (gradient + plan_.options().weight_decay * weights_[i]);
    }
  }

  const TrainPlan& plan_;
  std::span<const Layer> layers_;
  Values weights_, gradient_;
  std::vector<Values> units_;  // the inputs, then each layer's outputs
};

}  // namespace

std::vector<double> TrainByReference(const TrainPlan& plan, std::int64_t left_out) {
  return ReferenceLoop(plan).Train(left_out);
}

}  // namespace lucid
