#include <algorithm>
#include <cmath>
#include <vector>

#include "lucid/nn/network.h"
#include "nn/decision.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

// A layer's weights widened to double and turned to [tap][filter]: the inner loop runs over
// filters, which vectorises without changing any sum's order.
struct WideLayer {
  Layer shape;
  std::vector<double> weights;        // [tap][filter]
  std::vector<double> biases;         // [filter]
  std::vector<std::int64_t> offsets;  // TapOffset(k)
};

WideLayer Widen(const Layer& layer, std::span<const float> parameters) {
  WideLayer wide{layer, {}, {}, {}};
  wide.weights.resize(static_cast<std::size_t>(layer.weights()));
  for (std::int64_t o = 0; o < layer.filters; ++o) {
    for (std::int64_t k = 0; k < layer.taps; ++k) {
      wide.weights[k * layer.filters + o] = parameters[layer.weight_at + o * layer.taps + k];
    }
  }
  for (std::int64_t o = 0; o < layer.filters; ++o) {
    wide.biases.push_back(parameters[layer.bias_at + o]);
  }
  for (std::int64_t k = 0; k < layer.taps; ++k) wide.offsets.push_back(layer.TapOffset(k));
  return wide;
}

// out[o, t] = ((b + w_0 h_0) + w_1 h_1) + ...: every product and every sum rounded once.
void Apply(const WideLayer& layer, const double* in, double* out, double* sums) {
  const std::int64_t filters = layer.shape.filters, positions = layer.shape.positions;
  for (std::int64_t t = 0; t < positions; ++t) {
    const double* place = in + t * layer.shape.stride;
    std::copy(layer.biases.begin(), layer.biases.end(), sums);
    for (std::int64_t k = 0; k < layer.shape.taps; ++k) {
      const double h = place[layer.offsets[k]];
      const double* w = layer.weights.data() + k * filters;
      for (std::int64_t o = 0; o < filters; ++o) sums[o] += w[o] * h;
    }
    for (std::int64_t o = 0; o < filters; ++o) {
      out[o * positions + t] = layer.shape.relu ? std::max(sums[o], 0.0) : sums[o];
    }
  }
}

// Bounds of the computed values of one layer's units: magnitude, and distance from the exact value.
struct ErrorState {
  std::vector<double> magnitude;  // >= |computed|
  std::vector<double> error;      // >= |computed - exact|
};

// One unit: n products and n sums starting from the bias. With h the computed inputs,
//   |computed - (b + sum w h)| <= gamma_{n+1} (|b| + sum |w| |h|) + n eta   (eta: underflow of a
//   product)
//   |(b + sum w h) - exact|    <= sum |w| error(h)
ErrorState Propagate(const WideLayer& layer, const ErrorState& in) {
  const Layer& shape = layer.shape;
  const double gamma = GammaUp(shape.taps + 1);
  const double underflow =
      static_cast<double>(shape.taps) * std::numeric_limits<double>::denorm_min();
  ErrorState out;
  out.magnitude.resize(static_cast<std::size_t>(shape.outputs));
  out.error.resize(static_cast<std::size_t>(shape.outputs));
  for (std::int64_t o = 0; o < shape.filters; ++o) {
    for (std::int64_t t = 0; t < shape.positions; ++t) {
      double size = std::abs(layer.biases[o]), carried = 0;
      for (std::int64_t k = 0; k < shape.taps; ++k) {
        const double w = std::abs(layer.weights[k * shape.filters + o]);
        const std::int64_t at = t * shape.stride + layer.offsets[k];
        size = AddUp(size, MulUp(w, in.magnitude[at]));
        carried = AddUp(carried, MulUp(w, in.error[at]));
      }
      const double rounding = AddUp(MulUp(gamma, size), underflow);
      const std::int64_t unit = o * shape.positions + t;
      out.error[unit] = AddUp(carried, rounding);
      out.magnitude[unit] = AddUp(size, rounding);
    }
  }
  return out;
}

}  // namespace

struct Evaluator::Impl {
  Architecture architecture;
  std::vector<WideLayer> layers;
  std::size_t widest = 0;
  double logit_error = 0;
  double confidence_error = 0;
};

Evaluator::Evaluator(const Network& network) {
  auto impl = std::make_unique<Impl>();
  impl->architecture = network.architecture;
  impl->widest = static_cast<std::size_t>(network.architecture.widest());
  for (const Layer& layer : network.architecture.layers()) {
    impl->layers.push_back(Widen(layer, network.parameters));
  }
  const auto inputs = static_cast<std::size_t>(network.architecture.inputs());
  ErrorState state{std::vector<double>(inputs, 1 + 2 * kEncodingSlack),
                   std::vector<double>(inputs, 0)};
  for (const WideLayer& layer : impl->layers) state = Propagate(layer, state);
  impl->logit_error = std::ranges::max(state.error);
  // The confidence is one more subtraction of two computed logits.
  const double size = 2 * std::ranges::max(state.magnitude);
  impl->confidence_error = AddUp(2 * impl->logit_error, MulUp(kUnitRoundoff, size));
  impl_ = std::move(impl);
}

Evaluator::~Evaluator() = default;
Evaluator::Evaluator(Evaluator&&) noexcept = default;
Evaluator& Evaluator::operator=(Evaluator&&) noexcept = default;

const Architecture& Evaluator::architecture() const { return impl_->architecture; }
double Evaluator::LogitErrorBound() const { return impl_->logit_error; }
double Evaluator::ConfidenceErrorBound() const { return impl_->confidence_error; }

void Evaluator::Logits(std::span<const float> x, std::span<double> logits) const {
  thread_local std::vector<double> buffer;
  buffer.resize(3 * impl_->widest);
  double* in = buffer.data();
  double* out = in + impl_->widest;
  double* sums = out + impl_->widest;
  std::copy(x.begin(), x.end(), in);
  for (const WideLayer& layer : impl_->layers) {
    Apply(layer, in, out, sums);
    std::swap(in, out);
  }
  std::copy(in, in + logits.size(), logits.begin());
}

Decision Evaluator::Decide(std::span<const float> x) const {
  thread_local std::vector<double> logits;
  logits.resize(static_cast<std::size_t>(impl_->architecture.classes()));
  Logits(x, logits);
  return DecisionOf(logits);
}

double Accuracy(const Evaluator& evaluator, const Table& table) {
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    right += evaluator.Decide(table.row(i)).label == table.y[i];
  }
  return static_cast<double>(right) / static_cast<double>(table.rows());
}

}  // namespace lucid
