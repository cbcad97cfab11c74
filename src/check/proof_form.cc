#include "check/proof_form.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "numeric/rounding.h"

namespace lucid {

// Convolutions are written out: unit (o, t) of a layer sees the inputs t * stride + TapOffset(k).
// The entries it does not write are 0 from the start.
void ProofMatrix::Read(const Layer& shape, std::span<const float> parameters) {
  const bool dense = shape.kind == HiddenLayer::Kind::kDense;
  for (std::int64_t o = 0; o < shape.filters; ++o) {
    const std::span<const float> filter =
        parameters.subspan(shape.weight_at + o * shape.taps, shape.taps);
    for (std::int64_t t = 0; t < shape.positions; ++t) {
      const std::size_t unit = o * shape.positions + t;
      for (std::int64_t k = 0; k < shape.taps; ++k) {
        const std::int64_t column = dense ? k : t * shape.stride + shape.TapOffset(k);
        weights[unit * stride + column] = filter[k];
      }
      bias[unit] = parameters[shape.bias_at + o];
    }
  }
}

double ProofRanges::Size(std::size_t k) const {
  return std::max(std::abs(low[k]), std::abs(high[k]));
}

void LineTable::Set(std::size_t k, const NeuronLines& lines, double scale_of_unit) {
  const auto& [output, over, under] = lines;
  su[k] = output.su, tu[k] = output.tu, sl[k] = output.sl, scale[k] = scale_of_unit;
  over_q[k] = over.q, over_p[k] = over.p, over_r[k] = over.r, over_t[k] = over.t;
  under_q[k] = under.q, under_p[k] = under.p, under_r[k] = under.r, under_t[k] = under.t;
  const bool flat = output.su == 0 && output.sl == 0 && over.q == 0 && over.p == 0 &&
                    under.q == 0 && under.p == 0;
  if (!flat) alive.push_back(static_cast<std::uint32_t>(k));
}

ProofLayer::ProofLayer(std::size_t units, std::size_t inputs)
    : network(units, inputs),
      member(units, inputs),
      difference(units, inputs),
      split(units),
      sum(units),
      output(units),
      scale(units),
      output_lines(units),
      network_table(units),
      polygons(units),
      pair_output(units),
      delta(units),
      pair_scale(units),
      lines(units),
      pair_table(units) {}

ProofPoints::ProofPoints(const Domain* domain) {
  if (domain == nullptr) return;
  for (const Domain::Group& of : domain->groups()) {
    if (of.width == 1) continue;  // an interval of the box says as much
    Group group{static_cast<std::size_t>(of.first), static_cast<std::size_t>(of.width), {}};
    for (const std::vector<float>& values : of.points) {
      Point point;
      for (std::size_t j = 0; j < values.size(); ++j) {
        if (values[j] == 0) continue;
        point.features.push_back(group.first + j);
        point.values.push_back(values[j]);
      }
      group.points.push_back(std::move(point));
    }
    groups_.push_back(std::move(group));
  }
}

bool ProofPoints::Holds(const Group& group, const Point& point, std::span<const double> lower,
                        std::span<const double> upper) {
  std::vector<double> x(group.width, 0.0);
  for (std::size_t n = 0; n < point.features.size(); ++n) {
    x[point.features[n] - group.first] = point.values[n];
  }
  for (std::size_t j = 0; j < group.width; ++j) {
    if (!(x[j] >= lower[group.first + j] && x[j] <= upper[group.first + j])) return false;
  }
  return true;
}

void ProofPoints::Enter(std::span<const double> lower, std::span<const double> upper) {
  possible_.clear();
  for (const Group& group : groups_) {
    Group here{group.first, group.width, {}};
    for (const Point& point : group.points) {
      if (Holds(group, point, lower, upper)) here.points.push_back(point);
    }
    if (here.points.size() > 1) possible_.push_back(std::move(here));
  }
}

void ProofPoints::Clear(std::span<double> x) const {
  for (const Group& group : possible_) {
    std::ranges::fill(x.subspan(group.first, group.width), 0.0);
  }
}

double ProofPoints::Largest(const double* c) const {
  double total = 0;
  for (const Group& group : possible_) {
    double largest = 0;
    for (const Point& point : group.points) {
      double value = 0;
      for (std::size_t n = 0; n < point.features.size(); ++n) {
        value = Up(value + Up(c[point.features[n]] * point.values[n]));
      }
      if (&point == &group.points.front() || value > largest) largest = value;
    }
    total = Up(total + largest);
  }
  return total;
}

void ProofBox::Set(const ProofRanges& x) {
  low = x.low;
  high = x.high;
  size.clear();
  for (std::size_t j = 0; j < x.low.size(); ++j) size.push_back(x.Size(j));
  points.Enter(low, high);
  free_low = low;
  free_high = high;
  points.Clear(free_low);
  points.Clear(free_high);
  for (auto* of : {&low, &high, &size, &free_low, &free_high}) {
    of->resize(ProofLanes(x.low.size()));
  }
}

ProofForm::ProofForm(std::int64_t terms) : gamma_(GammaUp(terms)) {}

void ProofForm::Start(std::size_t units) {
  cz.resize(units);
  cd.assign(units, 0.0);
  constant = above = size = 0;
}

void ProofForm::StartNextLayer(std::size_t columns) {
  above += constant;
  constant = 0;
  next_z_.assign(columns, 0.0);
  next_d_.assign(columns, 0.0);
}

void ProofForm::Unfold(const ProofLayer& layer, std::size_t k, double a, double d) {
  const std::size_t columns = layer.network.columns;
  constant += a * layer.network.bias[k];
  const double* w = layer.network.row(k);
  if (d == 0) {
    for (std::size_t j = 0; j < columns; ++j) next_z_[j] += a * w[j];
    return;
  }
  constant += d * layer.difference.bias[k];
  const double* dw = layer.difference.row(k);
  const double* wm = layer.member.row(k);
  for (std::size_t j = 0; j < columns; ++j) next_z_[j] += a * w[j] + d * dw[j];
  for (std::size_t j = 0; j < columns; ++j) next_d_[j] += d * wm[j];
}

void ProofForm::PassDown() {
  std::swap(cz, next_z_);
  std::swap(cd, next_d_);
}

void ProofForm::AddInputSize(const ProofRanges& x) {
  for (std::size_t j = 0; j < cz.size(); ++j) size += std::abs(cz[j]) * x.Size(j);
}

double ProofForm::Largest(const ProofBox& x) const {
  double value = constant, sizes = size;
  for (std::size_t j = 0; j < cz.size(); ++j) {
    value += std::max(cz[j] * x.free_low[j], cz[j] * x.free_high[j]);
    sizes += std::abs(cz[j]) * x.size[j];
  }
  value += x.points.Largest(cz.data());
  const double result = Up(above + value + Up(4 * gamma_ * sizes + kUnderflow));
  return std::isnan(result) ? kInfinity : result;
}

double ProofForm::ChargedConstant() const {
  const double result = Up(above + constant + Up(4 * gamma_ * size + kUnderflow));
  return std::isnan(result) ? kInfinity : result;
}

}  // namespace lucid
