#include "check/proof_facts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "numeric/interval.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

// No sum of a network that anybody trained is as large.
constexpr double kTooLarge = 0x1p500;

double SizeOf(double low, double high) { return std::max(std::abs(low), std::abs(high)); }

void StartAt(const ProofMatrix& matrix, std::vector<double>& low, std::vector<double>& high,
             std::vector<double>& scale) {
  for (std::size_t k = 0; k < matrix.rows; ++k) {
    low[k] = high[k] = matrix.bias[k];
    scale[k] = std::abs(matrix.bias[k]);
  }
}

std::int64_t TermsOf(const Architecture& architecture) {
  return 4 * architecture.widest() + static_cast<std::int64_t>(architecture.layers().size()) + 64;
}

}  // namespace

ProofFacts::ProofFacts(const Network& network, const Domain* domain)
    : architecture_(network.architecture),
      terms_(TermsOf(architecture_)),
      gamma_(GammaUp(terms_)),
      output_(architecture_.classes(), architecture_.layers().back().inputs),
      member_output_(output_.rows, output_.columns),
      x_(architecture_.inputs()),
      box_(domain),
      form_(terms_),
      rows_(terms_) {
  const auto layers = architecture_.layers();
  for (std::size_t m = 0; m + 1 < layers.size(); ++m) {
    hidden_.emplace_back(layers[m].outputs, layers[m].inputs);
    hidden_.back().network.Read(layers[m], network.parameters);
  }
  output_.Read(layers.back(), network.parameters);
}

// ---- intervals ---------------------------------------------------------------------------------

// Each is a sum of at most n rounded terms whose absolute values add up to `scale`, itself rounded.
// Products of finite numbers are never NaN, and all of them are in `scale`: it is finite unless
// something overflowed.
bool ProofFacts::WidenForRounding(std::vector<double>& low, std::vector<double>& high,
                                  const std::vector<double>& scale) {
  for (std::size_t k = 0; k < low.size(); ++k) {
    const double reach = Up(2 * gamma_ * scale[k] + ProofForm::kUnderflow);
    low[k] = Down(low[k] - reach);
    high[k] = Up(high[k] + reach);
    overflow_ = overflow_ || !(scale[k] < kTooLarge);
  }
  return !overflow_;
}

bool ProofFacts::EnterRegion(const ProofRegion& region, const std::optional<Band>& band,
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
  box_.Set(x_);
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

bool ProofFacts::EnterNetwork() {
  for (std::size_t m = 0; m < hidden_.size(); ++m) {
    if (!EnterNetworkLayer(m)) return false;
    if (overflow_) return true;
  }
  return true;
}

bool ProofFacts::EnterNetworkLayer(std::size_t m) {
  ProofLayer& layer = hidden_[m];
  std::vector<double>&low = layer.sum.low, &high = layer.sum.high;
  const std::size_t units = layer.network.rows;
  StartAt(layer.network, low, high, layer.scale);
  AddRange(layer.network, m == 0 ? x_ : hidden_[m - 1].output, low, high, layer.scale);
  if (!WidenForRounding(low, high, layer.scale)) return true;
  if (m > 0 || !half_spaces_.empty() || !box_.points.none()) {
    units_.clear();
    for (std::size_t k = 0; k < units; ++k) {
      if (low[k] < 0 && high[k] > 0) units_.push_back(k);
    }
    NarrowByRows(m, /*member=*/false, low, high);
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
  layer.network_table.alive.clear();
  for (std::size_t k = 0; k < units; ++k) {
    if (low[k] > high[k]) return false;
    layer.output.low[k] = Relu(low[k]);
    layer.output.high[k] = Relu(high[k]);
    layer.output_lines[k] = ChooseOutput(low[k], high[k], ties_);
    layer.scale[k] = std::max(layer.scale[k], SizeOf(low[k], high[k]));
    layer.network_table.Set(k, {layer.output_lines[k], {}, {}}, layer.scale[k]);
  }
  return true;
}

bool ProofFacts::EnterMember(std::span<const float> parameters, bool quick) {
  const auto layers = architecture_.layers();
  for (std::size_t m = 0; m < hidden_.size(); ++m) {
    ProofLayer& layer = hidden_[m];
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

bool ProofFacts::EnterMemberAgain(bool quick) {
  if (overflow_) return true;
  const auto of_network = static_cast<std::ptrdiff_t>(network_half_spaces_);
  half_spaces_.erase(half_spaces_.begin() + of_network, half_spaces_.end());
  if (band_) AddPhases(/*member=*/true);
  for (std::size_t m = 0; m < hidden_.size(); ++m) {
    if (!EnterMemberLayer(m, quick)) return false;
    if (overflow_) return true;
  }
  return true;
}

bool ProofFacts::EnterMemberLayer(std::size_t m, bool quick) {
  ProofLayer& layer = hidden_[m];
  const std::size_t units = layer.network.rows;
  ProofRanges differences(units);
  std::vector<double>&low = differences.low, &high = differences.high, &scale = layer.pair_scale;
  StartAt(layer.difference, low, high, scale);
  AddRange(layer.difference, m == 0 ? x_ : hidden_[m - 1].pair_output, low, high, scale);
  if (m > 0) AddRange(layer.member, hidden_[m - 1].delta, low, high, scale);
  if (!WidenForRounding(low, high, scale)) return true;
  units_.clear();
  for (std::size_t k = 0; k < units; ++k) {
    const double l = layer.sum.low[k], u = layer.sum.high[k];
    scale[k] = std::max(scale[k] + layer.scale[k], differences.Size(k));
    const bool both_on = l >= 0 && l + low[k] >= 0, both_off = u <= 0 && u + high[k] <= 0;
    if (!both_on && !both_off) units_.push_back(k);
  }
  if (!quick && (m > 0 || !half_spaces_.empty() || !box_.points.none())) {
    NarrowByRows(m, /*member=*/true, low, high);
  }
  for (std::size_t k = 0; k < units; ++k) {
    layer.polygons[k] = {layer.sum.low[k], layer.sum.high[k], low[k], high[k], 0};
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

void ProofFacts::FinishMemberLayer(ProofLayer& layer, bool quick) {
  layer.pair_table.alive.clear();
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
    layer.pair_scale[k] =
        std::max({layer.pair_scale[k], SizeOf(l, u), SizeOf(a, b), layer.delta.Size(k)});
    if (quick) continue;
    layer.lines[k] = ChooseLines(layer.polygons[k], layer.split[k] != 0, ties_);
    layer.pair_table.Set(k, layer.lines[k], layer.pair_scale[k]);
  }
}

// ---- half spaces -------------------------------------------------------------------------------

// A half space that holds all of the box says nothing and is left out. (Which of them are kept
// cannot make a bound wrong.)
void ProofFacts::AddHalfSpace(std::span<const double> a, double sign, double at_least) {
  ProofHalfSpace half(box_, a, sign, at_least);
  if (half.smallest < 0) half_spaces_.push_back(std::move(half));
}

void ProofFacts::AddPhases(bool member) {
  for (const ProofPhase& phase : region_.phases) {
    if (phase.layer != 0 || phase.member != member) continue;
    const ProofMatrix& matrix = member ? hidden_[0].member : hidden_[0].network;
    const double sign = phase.active ? 1 : -1;
    AddHalfSpace({matrix.row(phase.unit), matrix.columns}, sign, -sign * matrix.bias[phase.unit]);
  }
}

// Lines over x that are at or above N_label - N_other, and its negative, for every other class.
void ProofFacts::FindLinesOfOutput() {
  const std::size_t columns = output_.columns;
  rows_.Start(2 * (output_.rows - 1), columns, /*pair=*/false);
  const double* ours = output_.row(band_->label);
  std::size_t r = 0;
  for (std::size_t other = 0; other < output_.rows; ++other) {
    if (other == static_cast<std::size_t>(band_->label)) continue;
    const double* theirs = output_.row(other);
    rows_.constant[r] = output_.bias[band_->label] - output_.bias[other];
    rows_.constant[r + 1] = -rows_.constant[r];
    double size = std::abs(output_.bias[band_->label]) + std::abs(output_.bias[other]);
    for (std::size_t k = 0; k < columns; ++k) {
      rows_.z(r)[k] = ours[k] - theirs[k];
      rows_.z(r + 1)[k] = -rows_.z(r)[k];
      size += (std::abs(ours[k]) + std::abs(theirs[k])) *
              (hidden_.empty() ? x_.Size(k) : hidden_.back().scale[k]);
    }
    rows_.size[r] = rows_.size[r + 1] = size;
    r += 2;
  }
  for (std::size_t m = hidden_.size(); m-- > 0;) rows_.Substitute(hidden_[m], /*first=*/m == 0);
}

// False: no f of the region is as large as the band's least.
bool ProofFacts::AddBand() {
  FindLinesOfOutput();
  const std::size_t others = output_.rows - 1;
  std::vector<std::pair<std::vector<double>, double>> found;
  for (std::size_t n = 0; n < others; ++n) {
    const double over = LineOfRow(2 * n);
    double most = over;
    for (std::size_t j = 0; j < form_.cz.size(); ++j) {
      const double one = form_.cz[j] * box_.free_low[j], two = form_.cz[j] * box_.free_high[j];
      most = Up(most + Up(std::max(one, two)));
    }
    most = Up(most + box_.points.Largest(form_.cz.data()));
    if (most < band_->least) return false;
    if (std::isfinite(over)) found.emplace_back(form_.cz, Down(band_->least - over));
    // f is the smallest of several: each of them may be larger.
    if (others > 1 || std::isinf(band_->most)) continue;
    const double under = LineOfRow(2 * n + 1);
    if (std::isfinite(under)) found.emplace_back(form_.cz, Down(-band_->most - under));
  }
  for (const auto& [a, at_least] : found) AddHalfSpace(a, 1, at_least);
  return true;
}

// N_c - N_o = b + sum_k w_k z_k of the last hidden layer, at least `least`, and of two classes at
// most `most`: each w_k z_k is what the others leave. A sum of at most units + 1 products, of which
// one is taken away again: its error is less than 3 gamma S, S as below; 4 gamma S is charged. The
// quotient is rounded twice (w itself is): 8 roundoffs are charged.
void ProofFacts::NarrowByBand() {
  ProofLayer& top = hidden_.back();
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

// Every unit of units_ has a row, and one for its negative.
void ProofFacts::NarrowByRows(std::size_t m, bool member, std::vector<double>& low,
                              std::vector<double>& high) {
  if (units_.empty()) return;
  const ProofLayer& top = hidden_[m];
  const ProofMatrix& of_z = member ? top.difference : top.network;
  const std::size_t columns = of_z.columns;
  rows_.Start(2 * units_.size(), columns, member);
  for (std::size_t n = 0; n < units_.size(); ++n) {
    const std::size_t unit = units_[n], plus = 2 * n, minus = plus + 1;
    const auto copy = [&](const ProofMatrix& from, std::span<double> to,
                          std::span<double> negative) {
      std::copy_n(from.row(unit), columns, to.begin());
      std::ranges::transform(to, negative.begin(), std::negate{});
    };
    copy(of_z, rows_.z(plus), rows_.z(minus));
    if (member) copy(top.member, rows_.d(plus), rows_.d(minus));
    rows_.constant[plus] = of_z.bias[unit];
    rows_.constant[minus] = -of_z.bias[unit];
    rows_.size[plus] = rows_.size[minus] = std::abs(of_z.bias[unit]);
  }
  for (std::size_t k = m; k-- > 0;) rows_.Substitute(hidden_[k], /*first=*/k == 0);
  const std::vector<double>& largest = rows_.Largest(box_, half_spaces_);
  for (std::size_t n = 0; n < units_.size(); ++n) {
    high[units_[n]] = std::min(high[units_[n]], largest[2 * n]);
    low[units_[n]] = std::max(low[units_[n]], -largest[2 * n + 1]);
  }
}

// A row that has come down to the input as a line over x: its coefficients are in form_.cz, and its
// constant is returned.
double ProofFacts::LineOfRow(std::size_t r) {
  const std::span<const double> row = rows_.z(r);
  form_.Start(row.size());
  form_.cz.assign(row.begin(), row.end());
  form_.constant = rows_.constant[r];
  form_.size = rows_.size[r];
  form_.AddInputSize(x_);
  return form_.ChargedConstant();
}

}  // namespace lucid
