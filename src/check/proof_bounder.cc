#include "check/proof_bounder.h"

#include <algorithm>
#include <cmath>

#include "numeric/rounding.h"

namespace lucid {
namespace {

// No sum of a network that anybody trained is as large.
constexpr double kTooLarge = 0x1p500, kUnderflow = 0x1p-500;

double SizeOf(double low, double high) { return std::max(std::abs(low), std::abs(high)); }

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
  terms_ = 4 * architecture_.widest() + static_cast<std::int64_t>(layers.size()) + 64;
  gamma_ = GammaUp(terms_);
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
    const double reach = Up(2 * gamma_ * scale[k] + kUnderflow);
    low[k] = Down(low[k] - reach);
    high[k] = Up(high[k] + reach);
    overflow_ = overflow_ || !(scale[k] < kTooLarge);
  }
  return !overflow_;
}

bool ProofBounder::EnterRegion(const ProofRegion& region, const std::optional<Band>& band,
                               Ties ties) {
  region_ = region;
  band_ = band;
  ties_ = ties;
  overflow_ = false;
  half_spaces_.clear();
  network_half_spaces_ = 0;
  for (std::size_t j = 0; j < region.lower.size(); ++j) {
    if (region.lower[j] > region.upper[j]) return false;
    x_.low[j] = region.lower[j];
    x_.high[j] = region.upper[j];
  }
  if (band_) AddPhases(/*member=*/false);
  if (!EnterNetwork()) return false;
  if (band_ && !overflow_) {
    const std::size_t before = half_spaces_.size();
    if (!AddBand()) return false;
    if (half_spaces_.size() > before && !EnterNetwork()) return false;
  }
  network_half_spaces_ = half_spaces_.size();
  return true;
}

bool ProofBounder::EnterNetwork() {
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
  for (std::size_t k = 0; (m > 0 || !half_spaces_.empty()) && k < units; ++k) {
    if (low[k] >= 0 || high[k] <= 0) continue;
    const double above = RowBound(m, k, 1, false), below = -RowBound(m, k, -1, false);
    high[k] = std::min(high[k], above);
    low[k] = std::max(low[k], below);
  }
  if (band_ && m + 1 == hidden_.size()) NarrowByBand();
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
    if (low[k] > high[k]) return false;
    layer.output.low[k] = Relu(low[k]);
    layer.output.high[k] = Relu(high[k]);
    layer.output_lines[k] = ChooseOutput(low[k], high[k], ties_);
    layer.scale[k] = std::max(layer.scale[k], SizeOf(low[k], high[k]));
  }
  return true;
}

bool ProofBounder::EnterMember(std::span<const float> parameters, bool quick) {
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
  return EnterMemberAgain(quick);
}

bool ProofBounder::EnterMemberAgain(bool quick) {
  if (overflow_) return true;
  half_spaces_.resize(network_half_spaces_);
  if (band_) AddPhases(/*member=*/true);
  for (std::size_t m = 0; m < hidden_.size(); ++m) {
    if (!EnterMemberLayer(m, quick)) return false;
    if (overflow_) return true;
  }
  return true;
}

bool ProofBounder::EnterMemberLayer(std::size_t m, bool quick) {
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
    const bool rows = !quick && (m > 0 || !half_spaces_.empty());
    if (rows && !both_on && !both_off) {
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
    if (p.l > p.u || p.a > p.b) return false;
  }
  FinishMemberLayer(layer, quick);
  return true;
}

void ProofBounder::FinishMemberLayer(Hidden& layer, bool quick) {
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
    if (!quick) layer.lines[k] = ChooseLines(layer.polygons[k], layer.split[k] != 0, ties_);
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

double ProofBounder::FinishAtInput(bool with_half_spaces) {
  const auto largest = [&](double gamma) {
    double value = constant_, size = size_;
    for (std::size_t j = 0; j < cz_.size(); ++j) {
      value += std::max(cz_[j] * x_.low[j], cz_[j] * x_.high[j]);
      size += std::abs(cz_[j]) * x_.Size(j);
    }
    const double result = Up(above_ + value + Up(4 * gamma * size + kUnderflow));
    return std::isnan(result) ? kInfinity : result;
  };
  const double plain = largest(gamma_);
  if (!with_half_spaces || half_spaces_.empty()) return plain;
  // The row as it was adds to S, too: the new one is made of it.
  for (std::size_t j = 0; j < cz_.size(); ++j) size_ += std::abs(cz_[j]) * x_.Size(j);
  for (const HalfSpace& half : half_spaces_) LeanOn(half);
  return std::min(plain,
                  largest(GammaUp(terms_ + 8 * static_cast<std::int64_t>(half_spaces_.size()))));
}

// Adds mu times the half space to the row in hand, mu >= 0 where its largest value over the box is
// smallest: the slope in mu is a . x - at_least at the corner x that is best, and grows where the
// row's coefficients change their signs. (Advice: whatever mu is, the bound holds.)
void ProofBounder::LeanOn(const HalfSpace& half) {
  double slope = -half.at_least;
  breaks_.clear();
  for (std::size_t j = 0; j < cz_.size(); ++j) {
    const double width = std::abs(half.a[j]) * (x_.high[j] - x_.low[j]);
    const bool up = cz_[j] > 0;
    slope += half.a[j] * (up ? x_.high[j] : x_.low[j]);
    if (width > 0 && (cz_[j] * half.a[j] < 0 || (cz_[j] == 0 && half.a[j] > 0))) {
      breaks_.emplace_back(-cz_[j] / half.a[j], j);
    }
  }
  if (!(slope < 0)) return;
  std::ranges::sort(breaks_);
  double mu = 0;
  for (const auto& [at, j] : breaks_) {
    mu = at;
    slope += std::abs(half.a[j]) * (x_.high[j] - x_.low[j]);
    if (slope >= 0) break;
  }
  if (!(mu > 0)) return;
  for (std::size_t j = 0; j < cz_.size(); ++j) {
    cz_[j] += mu * half.a[j];
    size_ += mu * std::abs(half.a[j]) * x_.Size(j);
  }
  constant_ -= mu * half.at_least;
  size_ += mu * std::abs(half.at_least);
}

// ---- half spaces -------------------------------------------------------------------------------

// One that holds all of the box says nothing. (Which of them are kept is advice, too.)
void ProofBounder::AddHalfSpace(std::span<const double> a, double sign, double at_least) {
  HalfSpace half{{a.begin(), a.end()}, at_least};
  double smallest = -at_least;
  for (std::size_t j = 0; j < half.a.size(); ++j) {
    half.a[j] *= sign;
    smallest += std::min(half.a[j] * x_.low[j], half.a[j] * x_.high[j]);
  }
  if (smallest < 0) half_spaces_.push_back(std::move(half));
}

void ProofBounder::AddPhases(bool member) {
  for (const ProofPhase& phase : region_.phases) {
    if (phase.layer != 0 || phase.member != member) continue;
    const Matrix& matrix = member ? hidden_[0].member : hidden_[0].network;
    const double sign = phase.active ? 1 : -1;
    AddHalfSpace({matrix.row(phase.unit), matrix.columns}, sign, -sign * matrix.bias[phase.unit]);
  }
}

// Leaves the line's coefficients in cz_ and returns its constant.
double ProofBounder::LineOfOutput(std::int32_t label, std::int32_t other, double sign) {
  const std::size_t columns = output_.columns;
  const double *ours = output_.row(label), *theirs = output_.row(other);
  cz_.resize(columns);
  cd_.assign(columns, 0.0);
  above_ = 0;
  constant_ = sign * (output_.bias[label] - output_.bias[other]);
  size_ = std::abs(output_.bias[label]) + std::abs(output_.bias[other]);
  for (std::size_t k = 0; k < columns; ++k) {
    cz_[k] = sign * (ours[k] - theirs[k]);
    size_ += (std::abs(ours[k]) + std::abs(theirs[k])) *
             (hidden_.empty() ? x_.Size(k) : hidden_.back().scale[k]);
  }
  for (std::size_t m = hidden_.size(); m-- > 0;) SubstituteLines(hidden_[m], false);
  for (std::size_t j = 0; j < cz_.size(); ++j) size_ += std::abs(cz_[j]) * x_.Size(j);
  return ChargedConstant();
}

double ProofBounder::ChargedConstant() const {
  const double result = Up(above_ + constant_ + Up(4 * gamma_ * size_ + kUnderflow));
  return std::isnan(result) ? kInfinity : result;
}

// False: no f of the region is as large as the band's least.
bool ProofBounder::AddBand() {
  const auto classes = static_cast<std::int32_t>(output_.rows);
  std::vector<HalfSpace> found;
  for (std::int32_t other = 0; other < classes; ++other) {
    if (other == band_->label) continue;
    const double over = LineOfOutput(band_->label, other, 1);
    double most = over;
    for (std::size_t j = 0; j < cz_.size(); ++j) {
      most = Up(most + Up(std::max(cz_[j] * x_.low[j], cz_[j] * x_.high[j])));
    }
    if (most < band_->least) return false;
    if (std::isfinite(over)) found.push_back({cz_, Down(band_->least - over)});
    // f is the smallest of several: each of them may be larger.
    if (classes > 2 || std::isinf(band_->most)) continue;
    const double under = LineOfOutput(band_->label, other, -1);
    if (std::isfinite(under)) found.push_back({cz_, Down(-band_->most - under)});
  }
  for (const HalfSpace& half : found) AddHalfSpace(half.a, 1, half.at_least);
  return true;
}

// N_c - N_o = b + sum_k w_k z_k of the last hidden layer, at least `least`, and of two classes at
// most `most`: each w_k z_k is what the others leave. A sum of at most units + 1 products, of which
// one is taken away again: its error is less than 3 gamma S, S as below; 4 gamma S is charged. The
// quotient is rounded twice (w itself is): 8 roundoffs are charged.
void ProofBounder::NarrowByBand() {
  Hidden& top = hidden_.back();
  const auto classes = static_cast<std::int32_t>(output_.rows);
  const std::size_t units = top.network.rows;
  std::vector<double> weight(units), low(units), high(units);
  const auto outward = [](double value, double sign) {
    return value + sign * (8 * kUnitRoundoff * std::abs(value) + 0x1p-960);
  };
  for (std::int32_t other = 0; other < classes; ++other) {
    if (other == band_->label) continue;
    const double *ours = output_.row(band_->label), *theirs = output_.row(other);
    const double bias = output_.bias[band_->label] - output_.bias[other];
    double least = bias, most = bias;  // of the whole sum
    double size = std::abs(output_.bias[band_->label]) + std::abs(output_.bias[other]);
    for (std::size_t k = 0; k < units; ++k) {
      weight[k] = ours[k] - theirs[k];
      const double one = weight[k] * Relu(top.sum.low[k]), two = weight[k] * Relu(top.sum.high[k]);
      low[k] = std::min(one, two);
      high[k] = std::max(one, two);
      least += low[k];
      most += high[k];
      size += (std::abs(ours[k]) + std::abs(theirs[k])) *
              std::max(top.scale[k], SizeOf(top.sum.low[k], top.sum.high[k]));
    }
    const bool upwards = classes == 2 && std::isfinite(band_->most);
    size += band_->least + (upwards ? band_->most : 0);
    if (!(size < kTooLarge)) continue;
    const double charge = Up(4 * gamma_ * size);
    for (std::size_t k = 0; k < units; ++k) {
      const double w = weight[k];
      if (w == 0) continue;
      const double at_least = band_->least - (most - high[k]) - charge;  // of w z
      const double at_most = upwards ? band_->most - (least - low[k]) + charge : kInfinity;
      const double from = outward((w > 0 ? at_least : at_most) / w, -1);
      const double to = outward((w > 0 ? at_most : at_least) / w, 1);
      if (from > 0) top.sum.low[k] = std::max(top.sum.low[k], from);
      if (to < top.sum.high[k]) top.sum.high[k] = std::min(top.sum.high[k], Relu(to));
    }
  }
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
  return FinishAtInput(/*with_half_spaces=*/true);
}

// With c' = `below` and c'' = `other`, f - lambda (P_c - P_c'' - e) is at most
// N_c - N_c' - lambda (P_c - P_c'' - e), whose terms in z and delta of the last hidden layer are
// cz = (W_c - W_c') - lambda (W'_c - W'_c''), cd = -lambda (W'_c - W'_c''). It is at least f where
// P_c - P_c'' <= e, as lambda >= 0. Below, with A and D of the layer,
//   cz z + cd delta = (cz z + cd delta - A z^ - D d^) + A z^ + D d^
// for every neuron: the bracket is at most its peak, the rest goes down.
void ProofBounder::StartBound(const Question& question, double lambda) {
  const std::int32_t label = question.label, other = question.other, below = question.below;
  cz_.resize(output_.columns);
  cd_.resize(output_.columns);
  const auto bias = [&](const Matrix& m, std::int32_t c) { return m.bias[c]; };
  above_ = 0;
  constant_ =
      bias(output_, label) - bias(output_, below) -
      lambda * (bias(member_output_, label) - bias(member_output_, other) - question.member_error);
  size_ = std::abs(bias(output_, label)) + std::abs(bias(output_, below)) +
          lambda * (std::abs(bias(member_output_, label)) + std::abs(bias(member_output_, other)) +
                    question.member_error);
  for (std::size_t k = 0; k < output_.columns; ++k) {
    const double w = output_.row(label)[k] - output_.row(below)[k];
    const double v = lambda * (member_output_.row(label)[k] - member_output_.row(other)[k]);
    cz_[k] = w - v;
    cd_[k] = -v;
    // Without hidden layers, z is the input and delta is 0.
    size_ += (std::abs(w) + 2 * std::abs(v)) *
             (hidden_.empty() ? x_.Size(k) : hidden_.back().pair_scale[k]);
  }
}

ProofBounder::Slopes ProofBounder::SlopesByRule(const Hidden& layer, std::size_t k,
                                                bool flat) const {
  const NeuronLines& lines = layer.lines[k];
  const double cz = cz_[k], cd = cd_[k];
  const auto [l, u, a, b, sign] = layer.polygons[k];
  const bool open = l < 0 && u > 0 && sign == 0 && l + a < 0 && u + b > 0;
  if (flat && (open || layer.split[k] != 0)) {
    // Differences by themselves: between 0 and d^.
    const double over = a >= 0 ? 1 : b <= 0 ? 0 : b / (b - a);
    const double s = cz > 0 ? lines.output.su : lines.output.sl;
    return {s * cz, (cd > 0 ? over : 1 - over) * cd};
  }
  const DifferenceLine& line = cd > 0 ? lines.over : lines.under;
  const double s = cz + cd * line.r > 0 ? lines.output.su : lines.output.sl;
  return {s * cz + (line.p + line.r * s) * cd, line.q * cd};
}

void ProofBounder::Descend(Source source, std::span<const float> dual, std::size_t to) {
  std::size_t end = dual.size();
  for (std::size_t m = hidden_.size(); m-- > to;) {
    const Hidden& layer = hidden_[m];
    const std::size_t units = layer.network.rows;
    std::vector<Slopes> pushed;
    for (std::size_t n = 0; n < pushes_.size(); ++n) {
      const ProofPhase& phase = region_.phases[n];
      if (phase.layer != static_cast<std::int32_t>(m)) continue;
      pushed.resize(units);
      pushed[phase.unit].a += pushes_[n];
      if (phase.member) pushed[phase.unit].d += pushes_[n];
    }
    std::span<const float> big_a, big_d;
    if (source == Source::kGiven) {
      big_d = dual.subspan(end - units, units);
      big_a = dual.subspan(end - 2 * units, units);
      end -= 2 * units;
    }
    StartNextLayer(layer.network.columns);
    for (std::size_t k = 0; k < units; ++k) {
      const double cz = cz_[k], cd = cd_[k];
      Slopes slopes;
      if (source == Source::kGiven) {
        slopes = {big_a[k], big_d[k]};
      } else if (source != Source::kZero) {
        slopes = SlopesByRule(layer, k, source == Source::kFlatLines);
      }
      if (!pushed.empty()) slopes = {slopes.a + pushed[k].a, slopes.d + pushed[k].d};
      const auto [a, d] = slopes;
      constant_ += PeakUp(layer.polygons[k], cz, cd, a, d);
      size_ += (std::abs(cz) + std::abs(cd) + std::abs(a) + std::abs(d)) * layer.pair_scale[k];
      if (a != 0 || d != 0) Unfold(layer, k, a, d);
    }
    std::swap(cz_, next_z_);
    std::swap(cd_, next_d_);
  }
}

double ProofBounder::Bound(const Question& question, double lambda, std::span<const float> dual) {
  if (overflow_) return kInfinity;
  StartBound(question, lambda);
  Descend(Source::kGiven, dual);
  return FinishAtInput(/*with_half_spaces=*/false);
}

double ProofBounder::BoundByLines(const Question& question, double lambda) {
  if (overflow_) return kInfinity;
  StartBound(question, lambda);
  Descend(Source::kLines, {});
  return FinishAtInput(/*with_half_spaces=*/false);
}

double ProofBounder::BoundByIntervals(const Question& question) {
  if (overflow_) return kInfinity;
  StartBound(question, 1);
  Descend(Source::kZero, {});
  return FinishAtInput(/*with_half_spaces=*/false);
}

// The rounding of what is left is in S, too: a layer's part of S holds what its coefficients for
// the layer below are off by, times z and delta there.
ProofBounder::Rest ProofBounder::RestOf(std::size_t layer, const Question& question, double lambda,
                                        std::span<const float> pushes) {
  if (overflow_) return {kInfinity, {}, {}};
  StartBound(question, lambda);
  pushes_.assign(pushes.begin(), pushes.end());
  Descend(Source::kLines, {}, layer + 1);
  pushes_.clear();
  return {ChargedConstant(), cz_, cd_};
}

ProofBounder::Line ProofBounder::LineOver(std::span<const double> z, std::span<const double> delta,
                                          bool flat) {
  if (overflow_) return {kInfinity, {}};
  cz_.assign(z.begin(), z.end());
  cd_.assign(delta.begin(), delta.end());
  above_ = constant_ = size_ = 0;
  Descend(flat ? Source::kFlatLines : Source::kLines, {});
  for (std::size_t j = 0; j < cz_.size(); ++j) size_ += std::abs(cz_[j]) * x_.Size(j);
  return {ChargedConstant(), cz_};
}

}  // namespace lucid
