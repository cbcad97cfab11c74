#include "certificate/proof_bounder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "numeric/rounding.h"

namespace lucid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Ends of intervals that cross are a proof that there is no input, however little they cross. This
// little is left alone so that a region in doubt is not called empty for the sake of a last bit;
// engines ask for ten times as much.
constexpr double kCrossing = 1e-12;
// No sum of a network that anybody trained is as large. Below it nothing overflows on the way.
constexpr double kTooLarge = 0x1p60;

double Relu(double x) { return std::max(x, 0.0); }
double SizeOf(double low, double high) { return std::max(std::abs(low), std::abs(high)); }

// False: no value lies between. Ends that crossed by less than the tolerance are closed up: any
// interval is right where there is no value.
bool Meet(double low, double& high) {
  if (low - high > kCrossing * (1 + std::abs(low) + std::abs(high))) return false;
  high = std::max(high, low);
  return true;
}

}  // namespace

// Convolutions are written out: unit (o, t) of a layer sees the inputs t * stride + TapOffset(k).
// The entries it does not write are 0 from the start.
void ProofBounder::Matrix::Read(const Layer& shape, std::span<const float> parameters) {
  const bool dense = shape.kind == HiddenLayer::Kind::kDense;
  for (std::int64_t o = 0; o < shape.filters; ++o) {
    const std::span<const float> filter =
        parameters.subspan(shape.weight_at + o * shape.taps, shape.taps);
    for (std::int64_t t = 0; t < shape.positions; ++t) {
      const std::size_t unit = o * shape.positions + t;
      for (std::int64_t k = 0; k < shape.taps; ++k) {
        const std::int64_t column = dense ? k : t * shape.stride + shape.TapOffset(k);
        weights[unit * columns + column] = filter[k];
      }
      bias[unit] = parameters[shape.bias_at + o];
    }
  }
}

double ProofBounder::Ranges::Size(std::size_t k) const { return SizeOf(low[k], high[k]); }

ProofBounder::Hidden::Hidden(std::size_t units, std::size_t inputs)
    : network(units, inputs),
      member(units, inputs),
      difference(units, inputs),
      split(units),
      sum(units),
      output(units),
      scale(units),
      output_lines(units),
      polygons(units),
      pair_output(units),
      delta(units),
      pair_scale(units),
      lines(units) {}

ProofBounder::ProofBounder(const Network& network)
    : architecture_(network.architecture),
      output_(architecture_.classes(), architecture_.layers().back().inputs),
      member_output_(output_.rows, output_.columns),
      x_(architecture_.inputs()) {
  const auto layers = architecture_.layers();
  for (std::size_t m = 0; m + 1 < layers.size(); ++m) {
    hidden_.emplace_back(layers[m].outputs, layers[m].inputs);
    hidden_.back().network.Read(layers[m], network.parameters);
  }
  output_.Read(layers.back(), network.parameters);
  gamma_ = GammaUp(4 * architecture_.widest() + static_cast<std::int64_t>(layers.size()) + 64);
}

Interval ProofBounder::Sum(std::size_t layer, std::size_t unit) const {
  return {hidden_[layer].sum.low[unit], hidden_[layer].sum.high[unit]};
}
Interval ProofBounder::Difference(std::size_t layer, std::size_t unit) const {
  const SumPolygon& polygon = hidden_[layer].polygons[unit];
  return {polygon.a, polygon.b};
}

// ---- intervals ---------------------------------------------------------------------------------

void ProofBounder::StartAt(const std::vector<double>& bias, std::vector<double>& low,
                           std::vector<double>& high, std::vector<double>& scale) {
  low = high = bias;
  std::ranges::transform(bias, scale.begin(), [](double b) { return std::abs(b); });
}

void ProofBounder::AddRange(const Matrix& matrix, const Ranges& in, std::vector<double>& low,
                            std::vector<double>& high, std::vector<double>& scale) {
  for (std::size_t k = 0; k < matrix.rows; ++k) {
    const double* row = matrix.row(k);
    double below = 0, above = 0, size = 0;
    for (std::size_t j = 0; j < matrix.columns; ++j) {
      const double at_low = row[j] * in.low[j], at_high = row[j] * in.high[j];
      below += std::min(at_low, at_high);
      above += std::max(at_low, at_high);
      size += SizeOf(at_low, at_high);
    }
    low[k] += below;
    high[k] += above;
    scale[k] += size;
  }
}

// Each is a sum of at most n rounded terms whose absolute values add up to `scale`, itself rounded.
// Products of finite numbers are never NaN, and all of them are in `scale`: it is finite unless
// something overflowed.
bool ProofBounder::WidenForRounding(std::vector<double>& low, std::vector<double>& high,
                                    const std::vector<double>& scale) {
  for (std::size_t k = 0; k < low.size(); ++k) {
    const double reach = Up(2 * gamma_ * scale[k]);
    low[k] = Down(low[k] - reach);
    high[k] = Up(high[k] + reach);
    overflow_ = overflow_ || !(scale[k] < kTooLarge);
  }
  return !overflow_;
}

bool ProofBounder::EnterRegion(const ProofRegion& region, Ties ties) {
  region_ = region;
  ties_ = ties;
  overflow_ = false;
  for (std::size_t j = 0; j < region.lower.size(); ++j) {
    if (region.lower[j] > region.upper[j]) return false;
    x_.low[j] = region.lower[j];
    x_.high[j] = region.upper[j];
  }
  for (std::size_t m = 0; m < hidden_.size(); ++m) {
    if (!EnterNetworkLayer(m)) return false;
    if (overflow_) return true;
  }
  return true;
}

bool ProofBounder::EnterNetworkLayer(std::size_t m) {
  Hidden& layer = hidden_[m];
  std::vector<double>&low = layer.sum.low, &high = layer.sum.high;
  const std::size_t units = layer.network.rows;
  StartAt(layer.network.bias, low, high, layer.scale);
  AddRange(layer.network, m == 0 ? x_ : hidden_[m - 1].output, low, high, layer.scale);
  if (!WidenForRounding(low, high, layer.scale)) return true;
  for (std::size_t k = 0; m > 0 && k < units; ++k) {
    if (low[k] >= 0 || high[k] <= 0) continue;
    const double above = RowBound(m, k, 1, false), below = -RowBound(m, k, -1, false);
    high[k] = std::min(high[k], above);
    low[k] = std::max(low[k], below);
  }
  std::ranges::fill(layer.split, 0);
  for (const ProofPhase& phase : region_.phases) {
    if (phase.layer != static_cast<std::int32_t>(m)) continue;
    layer.split[phase.unit] = 1;
    if (phase.member) continue;
    if (phase.active) {
      low[phase.unit] = std::max(low[phase.unit], 0.0);
    } else {
      high[phase.unit] = std::min(high[phase.unit], 0.0);
    }
  }
  for (std::size_t k = 0; k < units; ++k) {
    if (!Meet(low[k], high[k])) return false;
    layer.output.low[k] = Relu(low[k]);
    layer.output.high[k] = Relu(high[k]);
    layer.output_lines[k] = ChooseOutput(low[k], high[k], ties_);
    layer.scale[k] = std::max(layer.scale[k], SizeOf(low[k], high[k]));
  }
  return true;
}

bool ProofBounder::EnterMember(std::span<const float> parameters) {
  if (overflow_) return true;
  const auto layers = architecture_.layers();
  for (std::size_t m = 0; m < hidden_.size(); ++m) {
    Hidden& layer = hidden_[m];
    layer.member.Read(layers[m], parameters);
    const auto subtract = [](const std::vector<double>& theirs, const std::vector<double>& ours,
                             std::vector<double>& out) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = theirs[i] - ours[i];
    };
    subtract(layer.member.weights, layer.network.weights, layer.difference.weights);
    subtract(layer.member.bias, layer.network.bias, layer.difference.bias);
  }
  member_output_.Read(layers.back(), parameters);
  for (std::size_t m = 0; m < hidden_.size(); ++m) {
    if (!EnterMemberLayer(m)) return false;
    if (overflow_) return true;
  }
  return true;
}

bool ProofBounder::EnterMemberLayer(std::size_t m) {
  Hidden& layer = hidden_[m];
  const std::size_t units = layer.network.rows;
  Ranges differences(units);
  std::vector<double>&low = differences.low, &high = differences.high, &scale = layer.pair_scale;
  StartAt(layer.difference.bias, low, high, scale);
  AddRange(layer.difference, m == 0 ? x_ : hidden_[m - 1].pair_output, low, high, scale);
  if (m > 0) AddRange(layer.member, hidden_[m - 1].delta, low, high, scale);
  if (!WidenForRounding(low, high, scale)) return true;
  for (std::size_t k = 0; k < units; ++k) {
    const double l = layer.sum.low[k], u = layer.sum.high[k];
    scale[k] = std::max(scale[k] + layer.scale[k], differences.Size(k));
    const bool both_on = l >= 0 && l + low[k] >= 0, both_off = u <= 0 && u + high[k] <= 0;
    if (m > 0 && !both_on && !both_off) {
      const double above = RowBound(m, k, 1, true), below = -RowBound(m, k, -1, true);
      high[k] = std::min(high[k], above);
      low[k] = std::max(low[k], below);
    }
    layer.polygons[k] = {l, u, low[k], high[k], 0};
  }
  for (const ProofPhase& phase : region_.phases) {
    if (!phase.member || phase.layer != static_cast<std::int32_t>(m)) continue;
    // y = z^ + d^ of this sign: z^ and d^ can go only as far as the other lets them.
    SumPolygon& p = layer.polygons[phase.unit];
    p.sign = phase.active ? 1 : -1;
    if (phase.active) {
      p.l = std::max(p.l, -p.b);
      p.a = std::max(p.a, -p.u);
    } else {
      p.u = std::min(p.u, -p.a);
      p.b = std::min(p.b, -p.l);
    }
  }
  for (SumPolygon& p : layer.polygons) {
    if (!Meet(p.l, p.u) || !Meet(p.a, p.b)) return false;
  }
  FinishMemberLayer(layer);
  return true;
}

void ProofBounder::FinishMemberLayer(Hidden& layer) {
  for (std::size_t k = 0; k < layer.polygons.size(); ++k) {
    const auto [l, u, a, b, sign] = layer.polygons[k];
    // delta lies between 0 and d^, and between -z and relu(y).
    double low = std::max(std::min(a, 0.0), -Relu(u));
    double high = std::min(std::max(b, 0.0), Relu(Up(u + b)));
    if (u <= 0) low = Relu(Down(l + a));  // z = 0: delta = relu(y)
    if (l >= 0) {                         // delta = max(d^, -z^)
      low = std::max(a, -u);
      high = std::max(b, -l);
    }
    if (sign < 0) {  // delta = -z
      low = -Relu(u);
      high = -Relu(l);
    }
    layer.delta.low[k] = low;
    layer.delta.high[k] = std::max(low, high);
    layer.pair_output.low[k] = Relu(l);
    layer.pair_output.high[k] = Relu(u);
    layer.lines[k] = ChooseLines(layer.polygons[k], layer.split[k] != 0, ties_);
    layer.pair_scale[k] =
        std::max({layer.pair_scale[k], SizeOf(l, u), SizeOf(a, b), layer.delta.Size(k)});
  }
}

// ---- linear functions on their way down --------------------------------------------------------

void ProofBounder::StartNextLayer(std::size_t columns) {
  above_ += constant_;
  constant_ = 0;
  next_z_.assign(columns, 0.0);
  next_d_.assign(columns, 0.0);
}

void ProofBounder::Unfold(const Hidden& layer, std::size_t k, double a, double d) {
  const std::size_t columns = layer.network.columns;
  constant_ += a * layer.network.bias[k];
  const double* w = layer.network.row(k);
  if (d == 0) {
    for (std::size_t j = 0; j < columns; ++j) next_z_[j] += a * w[j];
    return;
  }
  constant_ += d * layer.difference.bias[k];
  const double* dw = layer.difference.row(k);
  const double* wm = layer.member.row(k);
  for (std::size_t j = 0; j < columns; ++j) next_z_[j] += a * w[j] + d * dw[j];
  for (std::size_t j = 0; j < columns; ++j) next_d_[j] += d * wm[j];
}

void ProofBounder::SubstituteLines(const Hidden& layer, bool member) {
  StartNextLayer(layer.network.columns);
  for (std::size_t k = 0; k < layer.network.rows; ++k) {
    const double cz = cz_[k], cd = cd_[k];
    if (cz == 0 && cd == 0) continue;
    const OutputLines& output = member ? layer.lines[k].output : layer.output_lines[k];
    const DifferenceLine line = cd == 0  ? DifferenceLine{}
                                : cd > 0 ? layer.lines[k].over
                                         : layer.lines[k].under;
    const double z = cz + cd * line.r;
    const double a = z * (z > 0 ? output.su : output.sl) + cd * line.p, d = cd * line.q;
    const double intercept = z > 0 ? z * output.tu : 0, from_line = cd * line.t;
    constant_ += intercept + from_line;
    size_ += (std::abs(cz) + std::abs(cd) + std::abs(a) + std::abs(d)) *
                 (member ? layer.pair_scale[k] : layer.scale[k]) +
             intercept + std::abs(from_line);
    if (a != 0 || d != 0) Unfold(layer, k, a, d);
  }
  std::swap(cz_, next_z_);
  std::swap(cd_, next_d_);
}

double ProofBounder::FinishAtInput() {
  for (std::size_t j = 0; j < cz_.size(); ++j) {
    constant_ += std::max(cz_[j] * x_.low[j], cz_[j] * x_.high[j]);
    size_ += std::abs(cz_[j]) * x_.Size(j);
  }
  const double result = Up(above_ + constant_ + Up(4 * gamma_ * size_));
  return std::isnan(result) ? kInfinity : result;
}

double ProofBounder::RowBound(std::size_t m, std::size_t unit, double factor, bool member) {
  const Hidden& top = hidden_[m];
  const Matrix& of_z = member ? top.difference : top.network;
  const std::size_t columns = of_z.columns;
  cz_.resize(columns);
  cd_.assign(columns, 0.0);
  for (std::size_t j = 0; j < columns; ++j) cz_[j] = factor * of_z.row(unit)[j];
  for (std::size_t j = 0; member && j < columns; ++j) cd_[j] = factor * top.member.row(unit)[j];
  above_ = 0;
  constant_ = factor * of_z.bias[unit];
  size_ = std::abs(constant_);
  for (std::size_t k = m; k-- > 0;) SubstituteLines(hidden_[k], member);
  return FinishAtInput();
}

// With c' = `below` and c'' = `other`, f - lambda (P_c - P_c'' - e) is at most
// N_c - N_c' - lambda (P_c - P_c'' - e), whose terms in z and delta of the last hidden layer are
// cz = (W_c - W_c') - lambda (W'_c - W'_c''), cd = -lambda (W'_c - W'_c''). It is at least f where
// P_c - P_c'' <= e, as lambda >= 0. Below, with A and D of the layer,
//   cz z + cd delta = (cz z + cd delta - A z^ - D d^) + A z^ + D d^
// for every neuron: the bracket is at most its peak, the rest goes down.
double ProofBounder::Bound(std::int32_t label, std::int32_t other, std::int32_t below,
                           double member_error, double lambda, std::span<const float> dual) {
  if (overflow_) return kInfinity;
  cz_.resize(output_.columns);
  cd_.resize(output_.columns);
  const auto bias = [&](const Matrix& m, std::int32_t c) { return m.bias[c]; };
  above_ = 0;
  constant_ = bias(output_, label) - bias(output_, below) -
              lambda * (bias(member_output_, label) - bias(member_output_, other) - member_error);
  size_ = std::abs(bias(output_, label)) + std::abs(bias(output_, below)) +
          lambda * (std::abs(bias(member_output_, label)) + std::abs(bias(member_output_, other)) +
                    member_error);
  for (std::size_t k = 0; k < output_.columns; ++k) {
    const double w = output_.row(label)[k] - output_.row(below)[k];
    const double v = lambda * (member_output_.row(label)[k] - member_output_.row(other)[k]);
    cz_[k] = w - v;
    cd_[k] = -v;
    // Without hidden layers, z is the input and delta is 0.
    size_ += (std::abs(w) + 2 * std::abs(v)) *
             (hidden_.empty() ? x_.Size(k) : hidden_.back().pair_scale[k]);
  }
  std::size_t end = dual.size();
  for (std::size_t m = hidden_.size(); m-- > 0;) {
    const Hidden& layer = hidden_[m];
    const std::size_t units = layer.network.rows;
    const std::span<const float> big_d = dual.subspan(end - units, units);
    const std::span<const float> big_a = dual.subspan(end - 2 * units, units);
    end -= 2 * units;
    StartNextLayer(layer.network.columns);
    for (std::size_t k = 0; k < units; ++k) {
      const double a = big_a[k], d = big_d[k];
      constant_ += PeakUp(layer.polygons[k], cz_[k], cd_[k], a, d);
      size_ +=
          (std::abs(cz_[k]) + std::abs(cd_[k]) + std::abs(a) + std::abs(d)) * layer.pair_scale[k];
      if (a != 0 || d != 0) Unfold(layer, k, a, d);
    }
    std::swap(cz_, next_z_);
    std::swap(cd_, next_d_);
  }
  return FinishAtInput();
}

}  // namespace lucid
