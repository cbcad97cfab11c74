#include "check/proof_points.h"

#include <algorithm>
#include <utility>

#include "numeric/rounding.h"

namespace lucid {

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
        value += c[point.features[n]] * point.values[n];
      }
      if (&point == &group.points.front() || value > largest) largest = value;
    }
    total += largest;
  }
  return total;
}

double ProofPoints::LargestUp(const double* c) const {
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

}  // namespace lucid
