#include "pair/pair_facts.h"

#include <algorithm>
#include <cmath>

#include "numeric/rounding.h"

namespace lucid {
namespace {

// Sums of absolute values below this leave room for the rest, also in the program that checks.
constexpr double kLargestSize = 0x1p499, kUnderflow = 0x1p-499;

// False: the ends of an interval crossed by more than a second program's rounding, so that the
// checker finds the region empty, too. Ends that crossed by less are set to one number. That is
// right, because the region holds no input.
bool Meet(double lower, double& upper) {
  if (lower - upper > 1e-11 * (1 + std::abs(lower) + std::abs(upper))) return false;
  upper = std::max(upper, lower);
  return true;
}

LinedLayer Lined(const DenseNetwork& network, const RegionFacts& facts, std::size_t m) {
  const RegionFacts::Layer& layer = facts.layers[m];
  return {&network.layers[m], nullptr, nullptr, &layer.lines, &layer.size, &layer.alive};
}

LinedLayer Lined(const PairFacts::Layer& layer) {
  return {layer.network, &layer.difference, &layer.member, &layer.lines, &layer.size, &layer.alive};
}

// The intervals of z and delta that those of z^ and d^ give.
void SetOutputs(PairFacts::Layer& layer, std::int64_t k) {
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

void FixMemberPhase(const PhaseSplit& phase, PairRanges& ranges) {
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

}  // namespace

RegionFacts::RegionFacts(const DenseNetwork& network, InputPoints::Groups groups)
    : points(std::move(groups)), layers(network.hidden()) {
  x.Reset(network.inputs);
  for (std::size_t m = 0; m < layers.size(); ++m) {
    Layer& layer = layers[m];
    const std::int64_t units = network.layers[m].weights.rows;
    for (PaddedArray* array : {&layer.lower, &layer.upper, &layer.size, &layer.width}) {
      array->Reset(units);
    }
    layer.z.Reset(units);
    layer.lines.Reset(units);
  }
}

bool FactFinder::Find(const Region& region, const Band* band, RegionFacts& facts) {
  facts.region = region;
  facts.band.reset();
  if (band != nullptr) facts.band = *band;
  facts.cuts.Clear();
  facts.bounded = true;
  for (std::int64_t j = 0; j < network_.inputs; ++j) {
    facts.x.Set(j, region.box[j].lower, region.box[j].upper);
  }
  facts.points.Enter(region.box);
  if (band == nullptr) return FindLayers(facts);
  AddPhaseCuts(facts, /*member=*/false, network_.layers.front(), facts.cuts);
  if (!FindLayers(facts)) return false;
  const std::size_t before = facts.cuts.count();
  if (!AddBandCuts(facts)) return false;
  return facts.cuts.count() == before || FindLayers(facts);
}

bool FactFinder::FindLayers(RegionFacts& facts) {
  for (std::size_t m = 0; m < facts.layers.size(); ++m) {
    if (!FindLayer(m, facts)) return false;
  }
  return true;
}

// The first layer's phases are linear in x, with the weights as they are.
void FactFinder::AddPhaseCuts(const RegionFacts& facts, bool member, const DenseLayer& first,
                              HalfSpaces& cuts) const {
  for (const PhaseSplit& phase : facts.region.phases) {
    if (phase.layer != 0 || phase.member != member) continue;
    const double sign = phase.active ? 1 : -1;
    cuts.Add(facts.x, first.weights.row(phase.unit), sign, -sign * first.bias[phase.unit]);
  }
}

// f <= u . x + t over the region, so f >= least asks for u . x >= least - t; and f >= v . x + s, so
// f <= most asks for v . x <= most - s. False: no f of the region is as large as `least`.
bool FactFinder::AddBandCuts(RegionFacts& facts) {
  const Band& band = *facts.band;
  const DenseLayer& output = network_.output();
  const std::int64_t classes = output.weights.rows, units = output.weights.columns;
  const std::int64_t count = classes - 1;
  rows_.Start(2 * count, units);
  const double* c = output.weights.row(band.label);
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int64_t other = r < band.label ? r : r + 1;
    const double* w = output.weights.row(other);
    const PaddedArray& size = facts.layers.back().size;
    for (std::int64_t k = 0; k < units; ++k) {
      rows_.z.row(r)[k] = c[k] - w[k];
      rows_.z.row(count + r)[k] = w[k] - c[k];
      rows_.size[r] += (std::abs(c[k]) + std::abs(w[k])) * size[k];
    }
    rows_.constant[r] = output.bias[band.label] - output.bias[other];
    rows_.constant[count + r] = -rows_.constant[r];
    rows_.size[r] += std::abs(output.bias[band.label]) + std::abs(output.bias[other]);
    rows_.size[count + r] = rows_.size[r];
  }
  for (std::size_t k = facts.layers.size(); k-- > 0;) {
    rows_.Substitute(Lined(network_, facts, k), k == 0);
  }
  rows_.Maximise(facts.x, facts.points, {});
  for (std::int64_t r = 0; r < count; ++r) {
    const double constant = Up(rows_.constant[r] + 16 * network_.gamma * rows_.size[r]);
    if (Up(constant + rows_.value[r]) < band.least && facts.bounded) return false;
    facts.cuts.Add(facts.x, rows_.z.row(r), 1, Down(band.least - constant));
    if (count > 1) continue;  // f is the smallest of several: each may be larger
    const double under =
        Up(rows_.constant[count + r] + 16 * network_.gamma * rows_.size[count + r]);
    facts.cuts.Add(facts.x, rows_.z.row(count + r), 1, Down(-band.most - under));
  }
  return true;
}

// f = b + sum_k w_k z_k of the last hidden layer, least <= f <= most: each w_k z_k lies between
// what the others leave. Says something where there are few of them.
//
// Rounding. f is a sum of at most units + 1 products, of which one is taken away again, so that
// what is left is off by less than 3 gamma size; 16 are charged, as for rows. The other 13 cover
// the roundings of w and of the quotient, too: they change it by at most 2^-51 of its size, which
// is 2^-51 of |least| or |most| over |w|, and both numerators are at most 2 size.
void FactFinder::NarrowByBand(RegionFacts& facts) const {
  RegionFacts::Layer& top = facts.layers.back();
  const Band& band = *facts.band;
  const DenseLayer& output = network_.output();
  const double* c = output.weights.row(band.label);
  const std::int64_t classes = output.weights.rows, units = output.weights.columns;
  for (std::int64_t other = 0; other < classes; ++other) {
    if (other == band.label) continue;
    const double* o = output.weights.row(other);
    const auto part = [&](std::int64_t k) {
      const double w = c[k] - o[k], one = w * Relu(top.lower[k]), two = w * Relu(top.upper[k]);
      return Interval{std::min(one, two), std::max(one, two)};
    };
    Interval f = Interval::Point(output.bias[band.label] - output.bias[other]);
    // f is the smallest of several: each may be larger than `most`.
    const bool upwards = classes == 2 && std::isfinite(band.most);
    double size = std::abs(output.bias[band.label]) + std::abs(output.bias[other]) +
                  std::abs(band.least) + (upwards ? std::abs(band.most) : 0);
    for (std::int64_t k = 0; k < units; ++k) {
      const Interval own = part(k);
      f.lower += own.lower;
      f.upper += own.upper;
      size += (std::abs(c[k]) + std::abs(o[k])) * top.size[k];
    }
    if (!(size < kLargestSize)) continue;
    const double charge = 16 * network_.gamma * size;
    for (std::int64_t k = 0; k < units; ++k) {
      const double w = c[k] - o[k];
      const Interval own = part(k);
      const double least = band.least - (f.upper - own.upper) - charge;
      const double most = upwards ? band.most - (f.lower - own.lower) + charge : kInfinity;
      const double at_least = w > 0 ? least / w : w < 0 ? most / w : -kInfinity;
      const double at_most = w > 0 ? most / w : w < 0 ? least / w : kInfinity;
      if (at_least > 0) top.lower[k] = std::max(top.lower[k], Down(at_least));
      top.upper[k] = std::min(top.upper[k], Up(Relu(at_most)));
    }
  }
}

bool FactFinder::FindLayer(std::size_t m, RegionFacts& facts) {
  FindSums(m, facts);
  RegionFacts::Layer& layer = facts.layers[m];
  const std::int64_t units = layer.size.size();
  units_.clear();
  for (std::int64_t k = 0; k < units; ++k) {
    if (layer.lower[k] < 0 && layer.upper[k] > 0) units_.push_back(static_cast<std::int32_t>(k));
  }
  if ((m > 0 || !facts.cuts.empty() || !facts.points.empty()) && !units_.empty()) {
    StartRows(network_.layers[m], nullptr);
    for (std::size_t k = m; k-- > 0;) rows_.Substitute(Lined(network_, facts, k), k == 0);
    const HalfSpaces* cuts[] = {&facts.cuts};
    NarrowByRows(facts, cuts, layer.lower, layer.upper);
  }
  if (facts.band && m + 1 == facts.layers.size()) NarrowByBand(facts);
  for (std::int64_t k = 0; k < units; ++k) layer.width[k] = layer.upper[k] - layer.lower[k];
  layer.split.assign(static_cast<std::size_t>(units), 0);
  for (const PhaseSplit& phase : facts.region.phases) {
    if (phase.layer != static_cast<std::int32_t>(m)) continue;
    layer.split[phase.unit] = 1;
    if (phase.member) continue;
    double& end = phase.active ? layer.lower[phase.unit] : layer.upper[phase.unit];
    end = phase.active ? std::max(end, 0.0) : std::min(end, 0.0);
  }
  layer.alive.clear();
  for (std::int64_t k = 0; k < units; ++k) {
    if (!Meet(layer.lower[k], layer.upper[k]) && facts.bounded) return false;
    const double l = layer.lower[k], u = layer.upper[k];
    layer.z.Set(k, Relu(l), Relu(u));
    ChooseOutputLines(l, u, k, layer.lines);
    if (u > 0) layer.alive.push_back(static_cast<std::int32_t>(k));
  }
  return true;
}

// Interval arithmetic.
void FactFinder::FindSums(std::size_t m, RegionFacts& facts) {
  RegionFacts::Layer& layer = facts.layers[m];
  const CentredIntervals& in = m == 0 ? facts.x : facts.layers[m - 1].z;
  const DenseLayer& dense = network_.layers[m];
  const std::int64_t units = dense.weights.rows;
  if (radius_.size() < units) radius_.Reset(units);
  for (std::int64_t k = 0; k < units; ++k) {
    layer.lower[k] = dense.bias[k];
    layer.size[k] = std::abs(dense.bias[k]);
    radius_[k] = 0;
  }
  AddProduct(dense.weights, in.centre.data(), layer.lower.data());
  AddAbsoluteProduct(dense.weights, in.radius.data(), radius_.data());
  AddAbsoluteProduct(dense.weights, in.size.data(), layer.size.data());
  for (std::int64_t k = 0; k < units; ++k) {
    const double centre = layer.lower[k];
    const double reach = Up(radius_[k] + (2 * network_.gamma * layer.size[k] + kUnderflow));
    if (!(layer.size[k] < kLargestSize)) facts.bounded = false;
    layer.lower[k] = Down(centre - reach);
    layer.upper[k] = Up(centre + reach);
  }
}

void FactFinder::StartRows(const DenseLayer& z, const DenseLayer* d) {
  const auto count = static_cast<std::int64_t>(units_.size());
  rows_.Start(2 * count, z.weights.columns);
  const auto copy = [&](const DenseLayer& from, PaddedMatrix& to) {
    for (std::int64_t r = 0; r < count; ++r) {
      const double* source = from.weights.row(units_[r]);
      double* plus = to.row(r);
      double* minus = to.row(count + r);
      for (std::int64_t j = 0; j < to.stride; ++j) plus[j] = source[j];
      for (std::int64_t j = 0; j < to.stride; ++j) minus[j] = -source[j];
    }
  };
  copy(z, rows_.z);
  if (d != nullptr) copy(*d, rows_.d);
  for (std::int64_t r = 0; r < count; ++r) {
    rows_.constant[r] = z.bias[units_[r]];
    rows_.constant[count + r] = -rows_.constant[r];
    rows_.size[r] = rows_.size[count + r] = std::abs(rows_.constant[r]);
  }
}

// Slopes are at most 1, so |A| <= |cz| + 2 |cd| and |D| <= |cd|. The error is therefore at most
// that of four times what was summed up (region_bounder.h).
void FactFinder::NarrowByRows(const RegionFacts& region, std::span<const HalfSpaces* const> cuts,
                              PaddedArray& lower, PaddedArray& upper) {
  rows_.Maximise(region.x, region.points, cuts);
  const auto bound = [&](std::int64_t r) {
    return Up(Up(rows_.constant[r] + rows_.value[r]) + 16 * network_.gamma * rows_.size[r]);
  };
  const auto count = static_cast<std::int64_t>(units_.size());
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int32_t unit = units_[r];
    upper[unit] = std::min(upper[unit], bound(r));
    lower[unit] = std::max(lower[unit], -bound(count + r));
  }
}

PairFacts::PairFacts(const DenseNetwork& of) : network(&of), layers(of.hidden()) {
  const auto shapes = of.architecture.layers();
  for (std::size_t m = 0; m < layers.size(); ++m) {
    Layer& layer = layers[m];
    const std::int64_t units = shapes[m].outputs;
    layer.network = &of.layers[m];
    layer.member = EmptyDense(shapes[m]);
    layer.difference = EmptyDense(shapes[m]);
    layer.ranges.Reset(units);
    layer.size.Reset(units);
    layer.z.Reset(units);
    layer.delta.Reset(units);
    layer.lines.Reset(units);
  }
  member_output = EmptyDense(shapes.back());
}

bool FactFinder::Find(const RegionFacts& region, std::span<const float> parameters,
                      PairFacts& facts) {
  Start(region, parameters, facts);
  member_cuts_.Clear();
  if (region.band) {
    AddPhaseCuts(region, /*member=*/true, facts.layers.front().member, member_cuts_);
  }
  for (std::size_t m = 0; m < facts.layers.size(); ++m) {
    if (!FindLayer(m, facts)) return false;
  }
  return true;
}

void FactFinder::FindIntervals(const RegionFacts& region, std::span<const float> parameters,
                               PairFacts& facts) {
  Start(region, parameters, facts);
  for (std::size_t m = 0; m < facts.layers.size(); ++m) {
    FindDifferences(m, facts);
    for (std::int64_t k = 0; k < facts.layers[m].units(); ++k) SetOutputs(facts.layers[m], k);
  }
}

void FactFinder::Start(const RegionFacts& region, std::span<const float> parameters,
                       PairFacts& facts) const {
  facts.region = &region;
  facts.bounded = region.bounded;
  const auto shapes = network_.architecture.layers();
  for (std::size_t m = 0; m < facts.layers.size(); ++m) {
    PairFacts::Layer& layer = facts.layers[m];
    WriteDense(shapes[m], parameters, layer.member);
    SubtractDense(layer.member, *layer.network, layer.difference);
  }
  WriteDense(shapes.back(), parameters, facts.member_output);
}

// [a, b] by interval arithmetic, and s_k.
void FactFinder::FindDifferences(std::size_t m, PairFacts& facts) {
  PairFacts::Layer& layer = facts.layers[m];
  const RegionFacts::Layer& ours = facts.region->layers[m];
  const DenseLayer& difference = layer.difference;
  const CentredIntervals& z = m == 0 ? facts.region->x : facts.layers[m - 1].z;
  PairRanges& ranges = layer.ranges;
  const std::int64_t units = layer.units();
  if (radius_.size() < units) radius_.Reset(units);
  for (std::int64_t k = 0; k < units; ++k) {
    ranges.a[k] = difference.bias[k];
    layer.size[k] = std::abs(difference.bias[k]);
    radius_[k] = 0;
  }
  AddProduct(difference.weights, z.centre.data(), ranges.a.data());
  AddAbsoluteProduct(difference.weights, z.radius.data(), radius_.data());
  AddAbsoluteProduct(difference.weights, z.size.data(), layer.size.data());
  if (m > 0) {
    const CentredIntervals& delta = facts.layers[m - 1].delta;
    AddProduct(layer.member.weights, delta.centre.data(), ranges.a.data());
    AddAbsoluteProduct(layer.member.weights, delta.radius.data(), radius_.data());
    AddAbsoluteProduct(layer.member.weights, delta.size.data(), layer.size.data());
  }
  for (std::int64_t k = 0; k < units; ++k) {
    const double centre = ranges.a[k];
    const double reach = Up(radius_[k] + (2 * network_.gamma * layer.size[k] + kUnderflow));
    ranges.a[k] = Down(centre - reach);
    ranges.b[k] = Up(centre + reach);
    ranges.l[k] = ours.lower[k];
    ranges.u[k] = ours.upper[k];
    ranges.sign[k] = 0;
    layer.size[k] += ours.size[k];
    if (!(layer.size[k] < kLargestSize)) facts.bounded = false;
  }
}

bool FactFinder::FindLayer(std::size_t m, PairFacts& facts) {
  FindDifferences(m, facts);
  const RegionFacts& region = *facts.region;
  PairFacts::Layer& layer = facts.layers[m];
  PairRanges& ranges = layer.ranges;
  units_.clear();
  for (std::int64_t k = 0; k < layer.units(); ++k) {
    const bool both_on = ranges.l[k] >= 0 && ranges.l[k] + ranges.a[k] >= 0;
    const bool both_off = ranges.u[k] <= 0 && ranges.u[k] + ranges.b[k] <= 0;
    if (!both_on && !both_off) units_.push_back(static_cast<std::int32_t>(k));
  }
  const bool more = !region.cuts.empty() || !member_cuts_.empty() || !region.points.empty();
  if ((m > 0 || more) && !units_.empty()) {
    StartRows(layer.difference, &layer.member);
    for (std::size_t k = m; k-- > 0;) rows_.Substitute(Lined(facts.layers[k]), k == 0);
    const HalfSpaces* cuts[] = {&region.cuts, &member_cuts_};
    NarrowByRows(region, cuts, ranges.a, ranges.b);
  }
  for (const PhaseSplit& phase : region.region.phases) {
    if (!phase.member || phase.layer != static_cast<std::int32_t>(m)) continue;
    FixMemberPhase(phase, ranges);
  }
  for (std::int64_t k = 0; k < layer.units(); ++k) {
    const bool meet = Meet(ranges.l[k], ranges.u[k]) && Meet(ranges.a[k], ranges.b[k]);
    if (!meet && facts.bounded) return false;
  }
  ChooseLines(region.layers[m].split, layer);
  return true;
}

void FactFinder::ChooseLines(const std::vector<char>& split, PairFacts::Layer& layer) {
  layer.alive.clear();
  layer.open.clear();
  const PairRanges& ranges = layer.ranges;
  for (std::int64_t k = 0; k < layer.units(); ++k) {
    SetOutputs(layer, k);
    ChooseOutputLines(ranges.l[k], ranges.u[k], k, layer.lines);
    ChooseDifferenceLines(ranges, split[k] != 0, k, layer.lines);
    if ((NetworkOpen(ranges, k) && MemberOpen(ranges, k)) || split[k] != 0) {
      layer.open.push_back(static_cast<std::int32_t>(k));
    }
    if (HasSlope(layer.lines, k)) layer.alive.push_back(static_cast<std::int32_t>(k));
  }
  intercepts_.Set(ranges, layer.lines);
}

}  // namespace lucid
