#include "pair/neuron_bounds.h"

#include <cmath>

#include "numeric/rounding.h"

namespace lucid {
namespace {

Interval Parameter(const HyperNetwork& hyper, std::int64_t at) {
  return {hyper.lower()[at], hyper.upper()[at]};  // floats widen exactly
}

// The weighted sums of one layer by interval arithmetic; z are the outputs below, all >= 0.
std::vector<Interval> ApplyLayer(const HyperNetwork& hyper, const Layer& layer,
                                 std::span<const Interval> z) {
  std::vector<Interval> sums(static_cast<std::size_t>(layer.outputs));
  for (std::int64_t o = 0; o < layer.filters; ++o) {
    const std::int64_t row = layer.weight_at + o * layer.taps;
    for (std::int64_t t = 0; t < layer.positions; ++t) {
      Interval sum = Parameter(hyper, layer.bias_at + o);
      for (std::int64_t k = 0; k < layer.taps; ++k) {
        const Interval input = z[t * layer.stride + layer.TapOffset(k)];
        sum = sum + TimesNonNegative(Parameter(hyper, row + k), input);
      }
      sums[o * layer.positions + t] = sum;
    }
  }
  return sums;
}

// out[k] += c w[k], rounded upward.
void AddScaled(double c, const float* w, std::int64_t count, double* out) {
  for (std::int64_t k = 0; k < count; ++k) {
    out[k] = Up(out[k] + Up(c * static_cast<double>(w[k])));
  }
}

// A linear function  constant + sum_k coefficients[k] v_k  that is at or above a quantity of
// interest, pushed down the layers: v is first the weighted sums of a layer, then the outputs of
// the layer below, ... Since these outputs (and the inputs) are >= 0, a coefficient may always be
// rounded upward. Every step keeps: the function is at or above the quantity, for every network
// inside the hyper-network and every x of the box. Whatever leaves the range of double makes the
// bound infinite; callers have interval bounds to fall back on.
class BackwardPass {
 public:
  // Keeps references. Requires: `bounds` holds for the layers below those asked for.
  BackwardPass(const HyperNetwork& hyper, const NeuronBounds& bounds)
      : hyper_(hyper), bounds_(bounds) {
    const auto widest = static_cast<std::size_t>(hyper.architecture().widest());
    coefficients_.reserve(widest);
    below_.reserve(widest);
  }

  // An upper bound of sum_k coefficients[k] z^_{layer,k}: the best of those after each step down.
  double UpperBoundOf(std::int64_t layer, std::span<const double> coefficients) {
    coefficients_.assign(coefficients.begin(), coefficients.end());
    constant_ = 0;
    double best = kInfinity;
    for (std::int64_t m = layer; m >= 0; --m) {
      SubstituteSums(hyper_.architecture().layers()[m]);
      if (!Finite()) return best;
      best = std::min(best, ValueOverOutputs(m - 1));
      if (m > 0) RelaxRelu(m - 1);
    }
    return best;
  }

 private:
  // z^ = b + W z, with c b <= c b_upper for c > 0 and c b_lower for c < 0, weights alike (z >= 0).
  void SubstituteSums(const Layer& layer) {
    below_.assign(static_cast<std::size_t>(layer.inputs), 0.0);
    for (std::int64_t o = 0; o < layer.filters; ++o) {
      for (std::int64_t t = 0; t < layer.positions; ++t) {
        const double c = coefficients_[o * layer.positions + t];
        if (c == 0) continue;
        const float* parameters = c > 0 ? hyper_.upper().data() : hyper_.lower().data();
        constant_ = Up(constant_ + Up(c * static_cast<double>(parameters[layer.bias_at + o])));
        SubstituteRow(layer, c, parameters + layer.weight_at + o * layer.taps,
                      below_.data() + t * layer.stride);
      }
    }
    coefficients_.swap(below_);
  }

  static void SubstituteRow(const Layer& layer, double c, const float* row, double* place) {
    // Taps that lie side by side in the input are one stretch: all of a dense layer's.
    const bool together = layer.width == layer.input_length;
    const std::int64_t stretch = together ? layer.taps : layer.width;
    for (std::int64_t k = 0; k < layer.taps; k += stretch) {
      AddScaled(c, row + k, stretch, place + layer.TapOffset(k));
    }
  }

  // Replaces z = relu(z^) by lines in z^ over [l, u].
  void RelaxRelu(std::int64_t m) {
    if (!hyper_.architecture().layers()[m].relu) return;
    for (std::size_t k = 0; k < coefficients_.size(); ++k) {
      double& c = coefficients_[k];
      const auto [l, u] = bounds_.pre[m][k];
      if (c == 0 || l >= 0) continue;  // z = z^
      if (u <= 0) {
        c = 0;  // z = 0
      } else if (c > 0) {
        // Any c' >= c u / (u - l) gives a line c' (z^ - l) that is >= 0 at l and >= c u at u, hence
        // above c relu(z^) in between, which is convex. c' = c always will do: l <= 0. (The ratio
        // is NaN or useless if u or l is infinite or u - l is lost below 2^-960.)
        const double ratio = Up(u / Down(u - l));
        if (ratio >= 0 && ratio < 1) c = Up(c * ratio);
        constant_ = Up(constant_ + Up(c * -l));
      } else {
        // c z <= c s z^ for any slope s in [0,1]; 0 and 1 are exact. The smaller triangle.
        if (u <= -l) c = 0;
      }
    }
  }

  // The function's largest value with every v_k anywhere in the bounds of layer m's outputs.
  double ValueOverOutputs(std::int64_t m) const {
    double sum = constant_;
    for (std::size_t k = 0; k < coefficients_.size(); ++k) {
      const double c = coefficients_[k];
      if (c == 0) continue;
      const auto unit = static_cast<std::int64_t>(k);
      const Interval z = bounds_.Post(hyper_.architecture(), m, unit);
      sum = Up(sum + Up(c * (c > 0 ? z.upper : z.lower)));
    }
    return std::isfinite(sum) ? sum : kInfinity;
  }

  bool Finite() const {
    double size = std::abs(constant_);
    for (const double c : coefficients_) size += std::abs(c);  // NaN and infinity stay in a sum
    return std::isfinite(size);
  }

  const HyperNetwork& hyper_;
  const NeuronBounds& bounds_;
  std::vector<double> coefficients_, below_;
  double constant_ = 0;
};

}  // namespace

Box UnitBox(std::int64_t inputs) { return Box(static_cast<std::size_t>(inputs), Interval{0, 1}); }

Interval NeuronBounds::Post(const Architecture& architecture, std::int64_t layer,
                            std::int64_t unit) const {
  if (layer < 0) return input[unit];
  const Interval sum = pre[layer][unit];
  return architecture.layers()[layer].relu ? Relu(sum) : sum;
}

NeuronBounds IntervalBounds(const HyperNetwork& hyper, const Box& box) {
  NeuronBounds bounds{{}, box};
  std::vector<Interval> z = box;
  for (const Layer& layer : hyper.architecture().layers()) {
    bounds.pre.push_back(ApplyLayer(hyper, layer, z));
    z = bounds.pre.back();
    if (layer.relu) {
      for (Interval& unit : z) unit = Relu(unit);
    }
  }
  return bounds;
}

NeuronBounds LinearBounds(const HyperNetwork& hyper, const Box& box) {
  NeuronBounds bounds = IntervalBounds(hyper, box);
  const auto layers = static_cast<std::int64_t>(bounds.pre.size());
  BackwardPass pass(hyper, bounds);
  // Layer 0 is a linear function of the box already: interval arithmetic is exact there.
  for (std::int64_t m = 1; m < layers; ++m) {
    std::vector<double> one(bounds.pre[m].size(), 0.0);
    for (std::size_t k = 0; k < one.size(); ++k) {
      one[k] = 1;
      const double upper = pass.UpperBoundOf(m, one);
      one[k] = -1;
      const double lower = -pass.UpperBoundOf(m, one);
      one[k] = 0;
      bounds.pre[m][k] = Intersect(bounds.pre[m][k], {lower, upper});
    }
  }
  return bounds;
}

double OutputUpperBound(const HyperNetwork& hyper, const NeuronBounds& bounds,
                        std::span<const double> coefficients) {
  Interval simple;
  const auto last = static_cast<std::int64_t>(bounds.pre.size()) - 1;
  for (std::size_t k = 0; k < coefficients.size(); ++k) {
    simple = simple + coefficients[k] * bounds.pre[last][k];
  }
  return std::min(simple.upper, BackwardPass(hyper, bounds).UpperBoundOf(last, coefficients));
}

double LargestDifference(const HyperNetwork& hyper, const NeuronBounds& bounds, std::int32_t label,
                         std::size_t other) {
  std::vector<double> coefficients(bounds.pre.back().size(), 0);
  coefficients[label] = 1;
  coefficients[other] = -1;
  return OutputUpperBound(hyper, bounds, coefficients);
}

double LargestConfidence(const HyperNetwork& hyper, const NeuronBounds& bounds,
                         std::int32_t label) {
  double largest = kInfinity;
  for (std::size_t other = 0; other < bounds.pre.back().size(); ++other) {
    if (other == static_cast<std::size_t>(label)) continue;
    largest = std::min(largest, LargestDifference(hyper, bounds, label, other));
  }
  return largest;
}

NetworkFacts FactsOf(const Network& network, const Box& box) {
  HyperNetwork point(network);
  NeuronBounds bounds = LinearBounds(point, box);
  return {network, std::move(point), std::move(bounds)};
}

}  // namespace lucid
