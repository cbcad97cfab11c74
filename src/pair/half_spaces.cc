#include "pair/half_spaces.h"

#include <algorithm>
#include <cmath>

#include "numeric/rounding.h"
#include "pair/input_points.h"

namespace lucid {

void CentredIntervals::Reset(std::int64_t n) {
  for (PaddedArray* array : {&centre, &radius, &size}) array->Reset(n);
}
void CentredIntervals::Set(std::int64_t k, double lower, double upper) {
  centre[k] = 0.5 * lower + 0.5 * upper;
  radius[k] = lower == upper ? 0 : Up(std::max(upper - centre[k], centre[k] - lower));
  size[k] = std::max(std::abs(lower), std::abs(upper));
}

void HalfSpaces::Add(const CentredIntervals& x, const double* a, double sign, double at_least) {
  const std::int64_t inputs = x.centre.size();
  if (half_spaces_.size() == count_) {
    half_spaces_.emplace_back();
    half_spaces_.back().a.Reset(inputs);
    half_spaces_.back().reach.Reset(inputs);
  }
  HalfSpace& cut = half_spaces_[count_];
  cut.at_least = at_least;
  cut.middle = -at_least;
  double reach = 0;
  for (std::int64_t j = 0; j < inputs; ++j) {
    cut.a[j] = sign * a[j];
    cut.reach[j] = cut.a[j] * x.radius[j];
    cut.middle += cut.a[j] * x.centre[j];
    reach += std::abs(cut.reach[j]);
  }
  if (cut.middle < reach) ++count_;
}

void CutMaximiser::Lower(const CentredIntervals& x, const InputPoints& points,
                         std::span<const HalfSpaces* const> cuts, const double* c, double& value,
                         double& size) {
  const std::int64_t inputs = x.centre.size();
  row_.assign(c, c + inputs);
  double shift = 0;
  bool changed = false;
  for (const HalfSpaces* some : cuts) {
    for (std::size_t n = 0; n < some->count_; ++n) {
      if (Apply(x, some->half_spaces_[n], shift, size)) changed = true;
    }
  }
  if (!changed) return;
  const CentredIntervals& free = points.empty() ? x : points.free();
  double best = -shift;
  for (std::int64_t j = 0; j < inputs; ++j) {
    best += row_[j] * free.centre[j] + std::abs(row_[j]) * free.radius[j];
  }
  if (!points.empty()) best += points.Largest(row_.data());
  value = std::min(value, best);
}

// The best mu is where the slope of the maximum in mu changes its sign. False: it is 0.
bool CutMaximiser::Apply(const CentredIntervals& x, const HalfSpaces::HalfSpace& cut, double& shift,
                         double& size) {
  const std::int64_t inputs = x.centre.size();
  const double* reach = cut.reach.data();
  double slope = cut.middle;  // where the row is 0, up to the next break
  for (std::int64_t j = 0; j < inputs; ++j) slope += row_[j] > 0 ? reach[j] : -reach[j];
  if (!(slope < 0)) return false;
  breaks_.clear();
  for (std::int64_t j = 0; j < inputs; ++j) {
    if (row_[j] * reach[j] < 0 || (row_[j] == 0 && reach[j] > 0)) {
      breaks_.emplace_back(-row_[j] / cut.a[j], j);
    }
  }
  std::ranges::sort(breaks_);
  double mu = 0;
  for (const auto& [at, j] : breaks_) {
    mu = at;
    slope += 2 * std::abs(reach[j]);
    if (slope >= 0) break;
  }
  if (!(mu > 0)) return false;
  for (std::int64_t j = 0; j < inputs; ++j) {
    row_[j] += mu * cut.a[j];
    size += mu * std::abs(cut.a[j]) * x.size[j];
  }
  shift += mu * cut.at_least;
  size += mu * std::abs(cut.at_least);
  return true;
}

}  // namespace lucid
