#include "pair/region_bounder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "numeric/rounding.h"

namespace lucid {
namespace {

// Sums of absolute values below this leave room for the rest, also in the program that checks.
constexpr double kLargest = 0x1p499, kUnderflow = 0x1p-499;

// False: an interval's ends crossed by more than a second program's rounding, so that it, too,
// finds the region empty. Ends that crossed by less are closed up: any interval is right for no
// input.
bool Meet(double lower, double& upper) {
  if (lower - upper > 1e-11 * (1 + std::abs(lower) + std::abs(upper))) return false;
  upper = std::max(upper, lower);
  return true;
}

void Intersect(const std::vector<Interval>& known, PaddedArray& lower, PaddedArray& upper) {
  for (std::size_t k = 0; k < known.size(); ++k) {
    lower[k] = std::max(lower[k], known[k].lower);
    upper[k] = std::min(upper[k], known[k].upper);
  }
}

// Whether some row's A or D of unit k can be other than 0.
bool HasSlope(const PairLines& lines, std::int64_t k) {
  for (const PaddedArray* slope :
       {&lines.su, &lines.sl, &lines.uq, &lines.up, &lines.ur, &lines.lq, &lines.lp, &lines.lr}) {
    if ((*slope)[k] != 0) return true;
  }
  return false;
}

// Lines are compared where two of them often meet exactly: rounding must not decide, or a proof's
// checker would choose another way.
bool Better(double more, double less) {
  constexpr double kTie = 1e-9;
  return std::isinf(more) || std::isinf(less) ||
         more > less + kTie * (std::abs(more) + std::abs(less));
}

}  // namespace

std::vector<DenseLayer> DenseLayers(const Network& network) {
  std::vector<DenseLayer> layers;
  for (const Layer& shape : network.architecture.layers()) {
    DenseLayer& dense = layers.emplace_back();
    dense.weights.Reset(shape.outputs, shape.inputs);
    dense.bias.Reset(shape.outputs);
    WriteDense(shape, network.parameters, dense);
  }
  return layers;
}

void WriteDense(const Layer& shape, std::span<const float> parameters, DenseLayer& dense) {
  for (std::int64_t o = 0; o < shape.filters; ++o) {
    const float* filter = parameters.data() + shape.weight_at + o * shape.taps;
    for (std::int64_t t = 0; t < shape.positions; ++t) {
      const std::int64_t unit = o * shape.positions + t;
      double* row = dense.weights.row(unit);
      if (shape.kind == lucid::HiddenLayer::Kind::kDense) {
        for (std::int64_t k = 0; k < shape.taps; ++k) row[k] = filter[k];
      } else {
        for (std::int64_t k = 0; k < shape.taps; ++k) {
          row[t * shape.stride + shape.TapOffset(k)] = filter[k];
        }
      }
      dense.bias[unit] = parameters[shape.bias_at + o];
    }
  }
}

void SubtractDense(const DenseLayer& from, const DenseLayer& what, DenseLayer& out) {
  const double* a = from.weights.values.data();
  const double* b = what.weights.values.data();
  double* result = out.weights.values.data();
  const std::int64_t size = from.weights.rows * from.weights.stride;
  for (std::int64_t i = 0; i < size; ++i) result[i] = a[i] - b[i];
  for (std::int64_t k = 0; k < from.weights.rows; ++k) out.bias[k] = from.bias[k] - what.bias[k];
}

void RegionBounder::Range::Reset(std::int64_t n) {
  for (PaddedArray* array : {&centre, &radius, &size}) array->Reset(n);
}
void RegionBounder::Range::Set(std::int64_t k, double lower, double upper) {
  centre[k] = 0.5 * lower + 0.5 * upper;
  radius[k] = lower == upper ? 0 : Up(std::max(upper - centre[k], centre[k] - lower));
  size[k] = std::max(std::abs(lower), std::abs(upper));
}

RegionBounder::RegionBounder(const Network& network)
    : architecture_(network.architecture), dense_(DenseLayers(network)) {
  inputs_ = architecture_.inputs();
  const auto layers = architecture_.layers();
  for (std::size_t m = 0; m + 1 < layers.size(); ++m) {
    Hidden& layer = hidden_.emplace_back();
    layer.units = layers[m].outputs;
    units_ += layer.units;
    all_.emplace_back(static_cast<std::size_t>(layer.units));
    std::iota(all_.back().begin(), all_.back().end(), 0);
    layer.network = &dense_[m];
    for (DenseLayer* dense : {&layer.member, &layer.difference}) {
      dense->weights.Reset(layers[m].outputs, layers[m].inputs);
      dense->bias.Reset(layers[m].outputs);
    }
    for (PaddedArray* array : {&layer.network_size,
                               &layer.lower,
                               &layer.upper,
                               &layer.size,
                               &layer.cz,
                               &layer.cd,
                               &layer.big_a,
                               &layer.big_d,
                               &layer.s,
                               &layer.p,
                               &layer.q,
                               &layer.sum_at,
                               &layer.diff_at,
                               &layer.z_at,
                               &layer.d_at,
                               &layer.scratch,
                               &layer.push_a,
                               &layer.push_d,
                               &layer.width,
                               &layer.own_s,
                               &layer.own_p,
                               &layer.own_q}) {
      array->Reset(layer.units);
    }
    layer.network_lines.Reset(layer.units);
    layer.lines.Reset(layer.units);
    layer.ranges.Reset(layer.units);
    layer.peaks.Reset(layer.units);
    for (Range* range : {&layer.network_z, &layer.z, &layer.delta}) range->Reset(layer.units);
  }
  member_output_.weights.Reset(layers.back().outputs, layers.back().inputs);
  member_output_.bias.Reset(layers.back().outputs);
  x_.Reset(inputs_);
  for (PaddedArray* array : {&cx_, &point_, &blame_}) array->Reset(inputs_);
  // At least as much as the checker of proofs charges (proof_bounder.h): where rounding is most of
  // an interval, its intervals may not be wider than these.
  const std::int64_t checker =
      4 * architecture_.widest() + static_cast<std::int64_t>(layers.size()) + 64;
  gamma_ = GammaUp(5 * std::max(2 * (units_ + inputs_) + 64, checker) / 4);
}

bool RegionBounder::EnterRegion(const Region& region, const Band* band) {
  region_ = &region;
  network_bounded_ = true;
  cut_count_ = 0;
  banded_ = band != nullptr;
  if (banded_) band_ = *band;
  for (std::int64_t j = 0; j < inputs_; ++j) x_.Set(j, region.box[j].lower, region.box[j].upper);
  if (banded_) AddPhaseCuts(/*member=*/false);
  const auto enter = [&] {
    for (std::size_t m = 0; m < hidden_.size(); ++m) {
      if (!EnterNetworkLayer(m)) return false;
    }
    return true;
  };
  if (!enter()) return false;
  if (banded_) {
    const std::size_t before = cut_count_;
    if (!AddBandCuts(*band)) return false;
    if (cut_count_ > before && !enter()) return false;
  }
  network_cuts_ = cut_count_;
  return true;
}

void RegionBounder::AddCut(const double* a, double sign, double at_least) {
  if (cuts_.size() == cut_count_) {
    cuts_.emplace_back();
    cuts_.back().a.Reset(inputs_);
    cuts_.back().reach.Reset(inputs_);
  }
  HalfSpace& cut = cuts_[cut_count_];
  cut.at_least = at_least;
  cut.middle = -at_least;
  double reach = 0;
  for (std::int64_t j = 0; j < inputs_; ++j) {
    cut.a[j] = sign * a[j];
    cut.reach[j] = cut.a[j] * x_.radius[j];
    cut.middle += cut.a[j] * x_.centre[j];
    reach += std::abs(cut.reach[j]);
  }
  if (cut.middle < reach) ++cut_count_;  // else all of the box is in it
}

// The first layer's phases are linear in x, with the weights as they are.
void RegionBounder::AddPhaseCuts(bool member) {
  for (const PhaseSplit& phase : region_->phases) {
    if (phase.layer != 0 || phase.member != member) continue;
    const DenseLayer& dense = member ? hidden_[0].member : *hidden_[0].network;
    const double sign = phase.active ? 1 : -1;
    AddCut(dense.weights.row(phase.unit), sign, -sign * dense.bias[phase.unit]);
  }
}

// f <= u . x + t over the region, so f >= least asks for u . x >= least - t; and f >= v . x + s, so
// f <= most asks for v . x <= most - s. False: no f of the region is as large as `least`.
bool RegionBounder::AddBandCuts(const Band& band) {
  const DenseLayer& output = dense_.back();
  const std::int64_t classes = output.weights.rows, units = output.weights.columns;
  const std::int64_t count = classes - 1;
  StartRows(2 * count, units);
  const double* c = output.weights.row(band.label);
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int64_t other = r < band.label ? r : r + 1;
    const double* w = output.weights.row(other);
    const Hidden& top = hidden_.back();
    for (std::int64_t k = 0; k < units; ++k) {
      row_z_.row(r)[k] = c[k] - w[k];
      row_z_.row(count + r)[k] = w[k] - c[k];
      row_size_[r] += (std::abs(c[k]) + std::abs(w[k])) * top.network_size[k];
    }
    row_constant_[r] = output.bias[band.label] - output.bias[other];
    row_constant_[count + r] = -row_constant_[r];
    row_size_[r] += std::abs(output.bias[band.label]) + std::abs(output.bias[other]);
    row_size_[count + r] = row_size_[r];
  }
  SubstituteDown(hidden_.size(), /*member=*/false, count);
  MaximiseOverBox(row_z_, 2 * count, x_.centre.data(), x_.radius.data(), x_.size.data(),
                  row_value_.data(), row_size_.data());
  for (std::int64_t r = 0; r < count; ++r) {
    const double constant = Up(row_constant_[r] + 16 * gamma_ * row_size_[r]);
    if (Up(constant + row_value_[r]) < band.least && network_bounded_) return false;
    AddCut(row_z_.row(r), 1, Down(band.least - constant));
    if (count > 1) continue;  // f is the smallest of several: each may be larger
    const double under = Up(row_constant_[count + r] + 16 * gamma_ * row_size_[count + r]);
    AddCut(row_z_.row(count + r), 1, Down(-band.most - under));
  }
  return true;
}

// f = b + sum_k w_k z_k of the last hidden layer, least <= f <= most: each w_k z_k lies between
// what the others leave. Says something where there are few of them.
void RegionBounder::NarrowByBand(Hidden& top) {
  const DenseLayer& output = dense_.back();
  const double* c = output.weights.row(band_.label);
  const std::int64_t classes = output.weights.rows;
  for (std::int64_t other = 0; other < classes; ++other) {
    if (other == band_.label) continue;
    const double* o = output.weights.row(other);
    const auto part = [&](std::int64_t k) {
      const double w = c[k] - o[k], one = w * Relu(top.lower[k]), two = w * Relu(top.upper[k]);
      return Interval{std::min(one, two), std::max(one, two)};
    };
    Interval f = Interval::Point(output.bias[band_.label] - output.bias[other]);
    // f is the smallest of several: each may be larger than `most`.
    const bool upwards = classes == 2 && std::isfinite(band_.most);
    double size = std::abs(output.bias[band_.label]) + std::abs(output.bias[other]) +
                  std::abs(band_.least) + (upwards ? std::abs(band_.most) : 0);
    for (std::int64_t k = 0; k < top.units; ++k) {
      const Interval own = part(k);
      f.lower += own.lower;
      f.upper += own.upper;
      size += (std::abs(c[k]) + std::abs(o[k])) * top.network_size[k];
    }
    if (!(size < kLargest)) continue;
    const double charge = 16 * gamma_ * size;
    for (std::int64_t k = 0; k < top.units; ++k) {
      const double w = c[k] - o[k];
      const Interval own = part(k);
      const double least = band_.least - (f.upper - own.upper) - charge;
      const double most = upwards ? band_.most - (f.lower - own.lower) + charge : kInfinity;
      const double at_least = w > 0 ? least / w : w < 0 ? most / w : -kInfinity;
      const double at_most = w > 0 ? most / w : w < 0 ? least / w : kInfinity;
      if (at_least > 0) top.lower[k] = std::max(top.lower[k], Down(at_least));
      top.upper[k] = std::min(top.upper[k], Up(Relu(at_most)));
    }
  }
}

// max c . x over the box and the cuts is at most max_box (c + mu a) . x - mu at_least for any
// mu >= 0: cut after cut, the best mu, which is where the slope in mu changes its sign. Adds to
// `size` what the rounding charge is proportional to.
void RegionBounder::MaximiseRow(const double* c, double& value, double& size) {
  cut_row_.assign(c, c + inputs_);
  double shift = 0;
  bool changed = false;
  for (std::size_t n = 0; n < cut_count_; ++n) {
    const HalfSpace& cut = cuts_[n];
    const double* reach = cut.reach.data();
    double slope = cut.middle;  // of the maximum, in mu; where the row is 0, up to the next break
    for (std::int64_t j = 0; j < inputs_; ++j) slope += cut_row_[j] > 0 ? reach[j] : -reach[j];
    if (!(slope < 0)) continue;
    breaks_.clear();
    for (std::int64_t j = 0; j < inputs_; ++j) {
      if (cut_row_[j] * reach[j] < 0 || (cut_row_[j] == 0 && reach[j] > 0)) {
        breaks_.emplace_back(-cut_row_[j] / cut.a[j], j);
      }
    }
    std::ranges::sort(breaks_);
    double mu = 0;
    for (const auto& [at, j] : breaks_) {
      mu = at;
      slope += 2 * std::abs(reach[j]);
      if (slope >= 0) break;
    }
    if (!(mu > 0)) continue;
    for (std::int64_t j = 0; j < inputs_; ++j) {
      cut_row_[j] += mu * cut.a[j];
      size += mu * std::abs(cut.a[j]) * x_.size[j];
    }
    shift += mu * cut.at_least;
    size += mu * std::abs(cut.at_least);
    changed = true;
  }
  if (!changed) return;
  double best = -shift;
  for (std::int64_t j = 0; j < inputs_; ++j) {
    best += cut_row_[j] * x_.centre[j] + std::abs(cut_row_[j]) * x_.radius[j];
  }
  value = std::min(value, best);
}

// Of the rows in row_z_, over the box and the cuts.
void RegionBounder::MaximiseRows(std::int64_t count) {
  MaximiseOverBox(row_z_, count, x_.centre.data(), x_.radius.data(), x_.size.data(),
                  row_value_.data(), row_size_.data());
  for (std::int64_t r = 0; cut_count_ > 0 && r < count; ++r) {
    MaximiseRow(row_z_.row(r), row_value_[r], row_size_[r]);
  }
}

bool RegionBounder::EnterNetworkLayer(std::size_t m) {
  Hidden& layer = hidden_[m];
  const Range& in = m == 0 ? x_ : hidden_[m - 1].network_z;
  const DenseLayer& dense = *layer.network;
  PaddedArray& radius = layer.scratch;
  for (std::int64_t k = 0; k < layer.units; ++k) {
    layer.lower[k] = dense.bias[k];
    layer.network_size[k] = std::abs(dense.bias[k]);
    radius[k] = 0;
  }
  AddProduct(dense.weights, in.centre.data(), layer.lower.data());
  AddAbsoluteProduct(dense.weights, in.radius.data(), radius.data());
  AddAbsoluteProduct(dense.weights, in.size.data(), layer.network_size.data());
  rows_.clear();
  for (std::int64_t k = 0; k < layer.units; ++k) {
    const double centre = layer.lower[k];
    const double reach = Up(radius[k] + (2 * gamma_ * layer.network_size[k] + kUnderflow));
    if (!(layer.network_size[k] < kLargest)) network_bounded_ = false;
    layer.lower[k] = Down(centre - reach);
    layer.upper[k] = Up(centre + reach);
  }
  if (m == 1 && known_sums_ != nullptr) Intersect(*known_sums_, layer.lower, layer.upper);
  for (std::int64_t k = 0; k < layer.units; ++k) {
    if (layer.lower[k] < 0 && layer.upper[k] > 0) rows_.push_back(static_cast<std::int32_t>(k));
  }
  if ((m > 0 || cut_count_ > 0) && !rows_.empty()) {
    LinearRows(m, /*member=*/false, layer.lower, layer.upper);
  }
  if (banded_ && m + 1 == hidden_.size()) NarrowByBand(layer);
  for (std::int64_t k = 0; k < layer.units; ++k) layer.width[k] = layer.upper[k] - layer.lower[k];
  for (const PhaseSplit& phase : region_->phases) {
    if (phase.member || phase.layer != static_cast<std::int32_t>(m)) continue;
    double& end = phase.active ? layer.lower[phase.unit] : layer.upper[phase.unit];
    end = phase.active ? std::max(end, 0.0) : std::min(end, 0.0);
  }
  layer.split.assign(static_cast<std::size_t>(layer.units), 0);
  for (const PhaseSplit& phase : region_->phases) {
    if (phase.layer == static_cast<std::int32_t>(m)) layer.split[phase.unit] = 1;
  }
  layer.network_alive.clear();
  for (std::int64_t k = 0; k < layer.units; ++k) {
    if (!Meet(layer.lower[k], layer.upper[k]) && network_bounded_) return false;
    const double l = layer.lower[k], u = layer.upper[k];
    layer.network_z.Set(k, Relu(l), Relu(u));
    ChooseOutputLines(l, u, k, layer.network_lines);
    if (u > 0) layer.network_alive.push_back(static_cast<std::int32_t>(k));
  }
  return true;
}

void RegionBounder::ChooseOutputLines(double l, double u, std::int64_t k, PairLines& lines) {
  if (l >= 0 || u <= 0) {
    lines.su[k] = lines.sl[k] = u <= 0 ? 0 : 1;
    lines.tu[k] = 0;
    return;
  }
  const double slope = u / (u - l);
  lines.su[k] = slope;
  // Over relu at both ends, hence between: z^ = l asks for -slope l, z^ = u for (1 - slope) u.
  lines.tu[k] = Up(Up(std::max(-slope * l, u - slope * u)) + 0x1p-51 * u);
  lines.sl[k] = u > -l ? 1 : 0;
}

void RegionBounder::StartRows(std::int64_t count, std::int64_t columns) {
  row_z_.Reset(count, columns);
  row_d_.Reset(count, columns);
  for (PaddedArray* array : {&row_constant_, &row_size_, &row_value_}) array->Reset(count);
}

void RegionBounder::LinearRows(std::size_t m, bool member, PaddedArray& lower, PaddedArray& upper) {
  const auto count = static_cast<std::int64_t>(rows_.size());
  const Hidden& top = hidden_[m];
  const DenseLayer& z_source = member ? top.difference : *top.network;
  const std::int64_t below = top.network->weights.columns;
  StartRows(2 * count, below);
  const auto copy = [&](const DenseLayer& from, PaddedMatrix& to) {
    for (std::int64_t r = 0; r < count; ++r) {
      const double* source = from.weights.row(rows_[r]);
      double* plus = to.row(r);
      double* minus = to.row(count + r);
      for (std::int64_t j = 0; j < to.stride; ++j) plus[j] = source[j];
      for (std::int64_t j = 0; j < to.stride; ++j) minus[j] = -source[j];
    }
  };
  copy(z_source, row_z_);
  if (member) copy(top.member, row_d_);
  for (std::int64_t r = 0; r < count; ++r) {
    row_constant_[r] = z_source.bias[rows_[r]];
    row_constant_[count + r] = -row_constant_[r];
    row_size_[r] = row_size_[count + r] = std::abs(row_constant_[r]);
  }
  SubstituteDown(m, member, count);
  MaximiseRows(2 * count);
  // Slopes are at most 1, so |A| <= |cz| + 2 |cd| and |D| <= |cd|: four times what was summed up.
  const auto bound = [&](std::int64_t r) {
    return Up(Up(row_constant_[r] + row_value_[r]) + 16 * gamma_ * row_size_[r]);
  };
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int32_t unit = rows_[r];
    upper[unit] = std::min(upper[unit], bound(r));
    lower[unit] = std::max(lower[unit], -bound(count + r));
  }
}

// 2 count rows in z (and delta) below layer m become rows in x.
void RegionBounder::SubstituteDown(std::size_t m, bool member, std::int64_t count) {
  for (std::size_t k = m; k-- > 0;) {
    const Hidden& layer = hidden_[k];
    const auto& alive = member ? layer.alive : layer.network_alive;
    SubstituteLines(2 * count, member ? layer.lines : layer.network_lines,
                    (member ? layer.size : layer.network_size).data(), row_z_, row_d_,
                    row_constant_.data(), row_size_.data());
    AddProduct(row_z_, layer.network->bias.data(), row_constant_.data());
    next_z_.Reset(2 * count, layer.network->weights.columns);
    AddMatrixProduct(row_z_, 2 * count, layer.network->weights, alive, next_z_);
    if (member) {
      AddProduct(row_d_, layer.difference.bias.data(), row_constant_.data());
      AddMatrixProduct(row_d_, 2 * count, layer.difference.weights, alive, next_z_);
      next_d_.Reset(2 * count, layer.network->weights.columns);
      if (k > 0) AddMatrixProduct(row_d_, 2 * count, layer.member.weights, alive, next_d_);
    } else {
      next_d_.Reset(2 * count, layer.network->weights.columns);
    }
    std::swap(row_z_, next_z_);
    std::swap(row_d_, next_d_);
  }
}

void RegionBounder::Load(std::span<const float> parameters) {
  const auto layers = architecture_.layers();
  for (std::size_t m = 0; m < layers.size(); ++m) {
    const bool output = m + 1 == layers.size();
    DenseLayer& member = output ? member_output_ : hidden_[m].member;
    WriteDense(layers[m], parameters, member);
    if (output) break;
    SubtractDense(member, dense_[m], hidden_[m].difference);
  }
}

bool RegionBounder::EnterMember(std::span<const float> parameters,
                                const std::vector<Interval>* differences) {
  Load(parameters);
  bounded_ = network_bounded_;
  cut_count_ = network_cuts_;
  if (banded_) AddPhaseCuts(/*member=*/true);
  for (std::size_t m = 0; m < hidden_.size(); ++m) {
    if (!EnterMemberLayer(m, m == 1 ? differences : nullptr)) return false;
  }
  return true;
}

// [a, b] by interval arithmetic, and s_k.
void RegionBounder::MemberIntervals(std::size_t m) {
  Hidden& layer = hidden_[m];
  const DenseLayer& difference = layer.difference;
  const Range& z = m == 0 ? x_ : hidden_[m - 1].z;
  PairRanges& ranges = layer.ranges;
  PaddedArray& radius = layer.scratch;
  for (std::int64_t k = 0; k < layer.units; ++k) {
    ranges.a[k] = difference.bias[k];
    layer.size[k] = std::abs(difference.bias[k]);
    radius[k] = 0;
  }
  AddProduct(difference.weights, z.centre.data(), ranges.a.data());
  AddAbsoluteProduct(difference.weights, z.radius.data(), radius.data());
  AddAbsoluteProduct(difference.weights, z.size.data(), layer.size.data());
  if (m > 0) {
    const Range& delta = hidden_[m - 1].delta;
    AddProduct(layer.member.weights, delta.centre.data(), ranges.a.data());
    AddAbsoluteProduct(layer.member.weights, delta.radius.data(), radius.data());
    AddAbsoluteProduct(layer.member.weights, delta.size.data(), layer.size.data());
  }
  for (std::int64_t k = 0; k < layer.units; ++k) {
    const double centre = ranges.a[k];
    const double reach = Up(radius[k] + (2 * gamma_ * layer.size[k] + kUnderflow));
    ranges.a[k] = Down(centre - reach);
    ranges.b[k] = Up(centre + reach);
    ranges.l[k] = layer.lower[k];
    ranges.u[k] = layer.upper[k];
    ranges.sign[k] = 0;
    layer.size[k] += layer.network_size[k];
    if (!(layer.size[k] < kLargest)) bounded_ = false;
  }
}

bool RegionBounder::EnterMemberLayer(std::size_t m, const std::vector<Interval>* known) {
  MemberIntervals(m);
  Hidden& layer = hidden_[m];
  PairRanges& ranges = layer.ranges;
  if (known != nullptr) Intersect(*known, ranges.a, ranges.b);
  rows_.clear();
  for (std::int64_t k = 0; k < layer.units; ++k) {
    const bool both_on = ranges.l[k] >= 0 && ranges.l[k] + ranges.a[k] >= 0;
    const bool both_off = ranges.u[k] <= 0 && ranges.u[k] + ranges.b[k] <= 0;
    if (!both_on && !both_off) rows_.push_back(static_cast<std::int32_t>(k));
  }
  if ((m > 0 || cut_count_ > 0) && !rows_.empty()) {
    LinearRows(m, /*member=*/true, ranges.a, ranges.b);
  }
  for (const PhaseSplit& phase : region_->phases) {
    if (!phase.member || phase.layer != static_cast<std::int32_t>(m)) continue;
    const std::int32_t k = phase.unit;
    ranges.sign[k] = phase.active ? 1 : -1;
    if (phase.active) {
      ranges.l[k] = std::max(ranges.l[k], -ranges.b[k]);
      ranges.a[k] = std::max(ranges.a[k], -ranges.u[k]);
    } else {
      ranges.u[k] = std::min(ranges.u[k], -ranges.a[k]);
      ranges.b[k] = std::min(ranges.b[k], -ranges.l[k]);
    }
  }
  for (std::int64_t k = 0; k < layer.units; ++k) {
    const bool meet = Meet(ranges.l[k], ranges.u[k]) && Meet(ranges.a[k], ranges.b[k]);
    if (!meet && bounded_) return false;
  }
  FinishMemberLayer(layer);
  return true;
}

// The intervals of z and delta that those of z^ and d^ give.
void RegionBounder::SetMemberRanges(Hidden& layer, std::int64_t k) {
  const PairRanges& ranges = layer.ranges;
  const double l = ranges.l[k], u = ranges.u[k], a = ranges.a[k], b = ranges.b[k];
  layer.z.Set(k, Relu(l), Relu(u));
  // delta = relu(y) - relu(z^) lies between 0 and d^, and between -z and relu(y).
  double low = std::max(std::min(a, 0.0), -Relu(u));
  double high = std::min(std::max(b, 0.0), Relu(Up(u + b)));
  if (u <= 0) low = Relu(Down(l + a));
  if (l >= 0) {
    low = std::max(a, -u);
    high = std::max(b, -l);
  }
  if (ranges.sign[k] < 0) {
    low = -Relu(u);
    high = -Relu(l);
  }
  layer.delta.Set(k, low, std::max(low, high));
}

void RegionBounder::FinishMemberLayer(Hidden& layer) {
  layer.alive.clear();
  layer.open.clear();
  const PairRanges& ranges = layer.ranges;
  for (std::int64_t k = 0; k < layer.units; ++k) {
    const double l = ranges.l[k], u = ranges.u[k], a = ranges.a[k], b = ranges.b[k];
    SetMemberRanges(layer, k);
    ChooseOutputLines(l, u, k, layer.lines);
    ChooseDifferenceLines(layer, k);
    const bool open = l < 0 && u > 0 && ranges.sign[k] == 0 && l + a < 0 && u + b > 0;
    if (open || layer.split[k] != 0) {
      layer.open.push_back(static_cast<std::int32_t>(k));
    }
    if (HasSlope(layer.lines, k)) layer.alive.push_back(static_cast<std::int32_t>(k));
  }
  SetIntercepts(layer);
}

double RegionBounder::IntervalBound(std::span<const float> parameters,
                                    const PairQuestion& question) {
  Load(parameters);
  bounded_ = network_bounded_;
  for (std::size_t m = 0; m < hidden_.size(); ++m) {
    MemberIntervals(m);
    for (std::int64_t k = 0; k < hidden_[m].units; ++k) SetMemberRanges(hidden_[m], k);
  }
  // f <= f - (g - err): the difference of the two networks' output rows, for c' = c''.
  const Hidden& top = hidden_.back();
  const std::int32_t c = question.label, other = question.other;
  const DenseLayer& ours = dense_.back();
  const DenseLayer& theirs = member_output_;
  const double our_bias = ours.bias[c] - ours.bias[other];
  const double their_bias = theirs.bias[c] - theirs.bias[other];
  double value = our_bias - their_bias + question.member_error;
  double size = std::abs(ours.bias[c]) + std::abs(ours.bias[other]) + std::abs(theirs.bias[c]) +
                std::abs(theirs.bias[other]) + question.member_error;
  for (std::int64_t k = 0; k < top.units; ++k) {
    const double w = ours.weights.row(c)[k] - ours.weights.row(other)[k];
    const double v = theirs.weights.row(c)[k] - theirs.weights.row(other)[k];
    value += (w - v) * top.z.centre[k] + std::abs(w - v) * top.z.radius[k] -
             v * top.delta.centre[k] + std::abs(v) * top.delta.radius[k];
    size +=
        (std::abs(w) + 2 * std::abs(v)) * std::max({top.size[k], top.z.size[k], top.delta.size[k]});
  }
  return Charged(value, size);
}

// Slopes only; the intercepts follow from them (SetIntercepts), so a bad choice costs tightness and
// nothing else. Where both phases are open, of the candidates that come from
//   z <= alpha u', z - z^ <= (1 - alpha)(-l'), alpha a <= delta <= alpha b,
//   (1 - alpha) a <= d^ - delta <= (1 - alpha) b   for some alpha in [0,1]
// the line that is best at the centre of the ranges.
void RegionBounder::ChooseDifferenceLines(Hidden& layer, std::int64_t k) {
  const PairRanges& ranges = layer.ranges;
  PairLines& lines = layer.lines;
  const double l = ranges.l[k], u = ranges.u[k], a = ranges.a[k], b = ranges.b[k];
  const bool n_on = l >= 0, n_off = u <= 0;
  const bool m_on = ranges.sign[k] > 0 || l + a >= 0, m_off = ranges.sign[k] < 0 || u + b <= 0;
  if (layer.split[k] != 0) {
    // The range of z^ is narrower than the box says: a line through z^ would be exact in the range
    // and far off elsewhere in the box. Lines in d^ stay small everywhere.
    const double up = m_on ? 1 : m_off || b <= 0 ? 0 : a >= 0 ? 1 : b / (b - a);
    const double down = n_on ? 1 : n_off || a >= 0 ? 0 : b <= 0 ? 1 : -a / (b - a);
    lines.uq[k] = up, lines.up[k] = lines.ur[k] = 0;
    lines.lq[k] = down, lines.lp[k] = lines.lr[k] = 0;
    return;
  }
  struct Line {
    double q = 0, p = 0, r = 0, t = 0;
  };
  const double zc = 0.5 * (l + u), dc = 0.5 * (a + b);
  const double z_low = lines.sl[k] * zc, z_high = lines.su[k] * zc + lines.tu[k];
  Line over, under;
  double over_at = kInfinity, under_at = -kInfinity;
  const auto upper = [&](Line line) {
    const double at =
        line.q * dc + line.p * zc + (line.r < 0 ? line.r * z_low : line.r * z_high) + line.t;
    if (Better(over_at, at)) over = line, over_at = at;
  };
  const auto lower = [&](Line line) {
    const double at =
        line.q * dc + line.p * zc + (line.r < 0 ? line.r * z_high : line.r * z_low) + line.t;
    if (Better(at, under_at)) under = line, under_at = at;
  };
  const double yl = l + a, yu = u + b;
  const double chord = yu > yl ? std::clamp(yu / (yu - yl), 0.0, 1.0) : 0;
  if (m_off) {
    over = under = n_off ? Line{} : Line{0, 0, -1, 0};
  } else if (m_on) {
    over = under = n_on ? Line{1, 0, 0, 0} : n_off ? Line{1, 1, 0, 0} : Line{1, 1, -1, 0};
  } else if (n_on) {
    lower({1, 0, 0, 0});
    lower({0, -1, 0, 0});
    const double from = std::max(a, -l);
    const double q = b > a ? std::clamp((std::max(b, from) - from) / (b - a), 0.0, 1.0) : 0;
    upper({q, 0, 0, from - q * a});
    upper({chord, chord - 1, 0, -chord * yl});
  } else if (n_off) {
    lower({0, 0, 0, 0});
    lower({1, 1, 0, 0});
    if (u + a >= 0) {
      upper({1, 0, 0, u});
    } else if (b > a) {
      const double q = std::clamp((u + b) / (b - a), 0.0, 1.0);
      upper({q, 0, 0, -q * a});
    }
    upper({chord, chord, 0, -chord * yl});
  } else {
    const double u1 = std::max(u, -a), l1 = std::min(l, -b);
    if (a < 0 && b > 0) {
      const double q = b / (b - a);
      upper({q, 0, 0, -q * a});
      lower({1 - q, 0, 0, (1 - q) * -b});
    } else {
      a >= 0 ? upper({1, 0, 0, 0}) : upper({0, 0, 0, 0});
      b <= 0 ? lower({1, 0, 0, 0}) : lower({0, 0, 0, 0});
    }
    b > 0 ? upper({0, b / -l1, -b / -l1, b}) : upper({0, 0, b / u1, 0});
    a < 0 ? upper({1, 0, a / u1, -a}) : upper({1, a / l1, -a / l1, 0});
    upper({chord, chord, -1, -chord * yl});
    a < 0 ? lower({0, a / -l1, -a / -l1, a}) : lower({0, 0, a / u1, 0});
    b > 0 ? lower({1, 0, b / u1, -b}) : lower({1, b / l1, -b / l1, 0});
    lower({0, 0, -1, 0});
    lower({1, 1, -1, 0});
  }
  lines.uq[k] = over.q, lines.up[k] = over.p, lines.ur[k] = over.r;
  lines.lq[k] = under.q, lines.lp[k] = under.p, lines.lr[k] = under.r;
}

// delta <= q d^ + p z^ + r z + t needs t >= the maximum of delta - r z - p z^ - q d^.
void RegionBounder::SetIntercepts(Hidden& layer) {
  PairLines& lines = layer.lines;
  const std::int64_t n = layer.units;
  PaddedArray& ones = layer.cd;
  PaddedArray& minus_r = layer.cz;
  const auto slack = [&](std::int64_t k) {
    return 0x1p-45 * (std::max(std::abs(layer.ranges.l[k]), std::abs(layer.ranges.u[k])) +
                      std::max(std::abs(layer.ranges.a[k]), std::abs(layer.ranges.b[k])));
  };
  for (std::int64_t k = 0; k < n; ++k) ones[k] = 1, minus_r[k] = -lines.ur[k];
  FindPeaks(n, layer.ranges, minus_r.data(), ones.data(), lines.up.data(), lines.uq.data(),
            layer.peaks);
  for (std::int64_t k = 0; k < n; ++k) lines.ut[k] = Up(layer.peaks.value[k] + slack(k));
  PaddedArray& minus_p = layer.big_a;
  PaddedArray& minus_q = layer.big_d;
  for (std::int64_t k = 0; k < n; ++k) {
    ones[k] = -1, minus_r[k] = lines.lr[k];
    minus_p[k] = -lines.lp[k], minus_q[k] = -lines.lq[k];
  }
  FindPeaks(n, layer.ranges, minus_r.data(), ones.data(), minus_p.data(), minus_q.data(),
            layer.peaks);
  for (std::int64_t k = 0; k < n; ++k) lines.lt[k] = Down(-(layer.peaks.value[k] + slack(k)));
}

}  // namespace lucid
