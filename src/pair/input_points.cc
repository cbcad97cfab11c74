#include "pair/input_points.h"

#include <algorithm>

namespace lucid {

InputPoints::Groups InputPoints::GroupsOf(const Domain* domain) {
  std::vector<Group> groups;
  if (domain != nullptr) {
    for (const Domain::Group& of : domain->groups()) {
      if (of.width < 2) continue;  // an interval says as much
      Group group{of.first, of.width, {0}, {}, {}};
      for (const std::vector<float>& point : of.points) {
        for (std::size_t j = 0; j < point.size(); ++j) {
          if (point[j] == 0) continue;
          group.feature.push_back(
              static_cast<std::int32_t>(of.first + static_cast<std::int64_t>(j)));
          group.value.push_back(point[j]);
        }
        group.begin.push_back(group.feature.size());
      }
      groups.push_back(std::move(group));
    }
  }
  return std::make_shared<const std::vector<Group>>(std::move(groups));
}

bool InputPoints::Holds(const Box& box, const Group& group, std::size_t point) const {
  std::size_t at = group.begin[point];
  const std::size_t end = group.begin[point + 1];
  for (std::int64_t j = group.first; j < group.first + group.width; ++j) {
    const bool here = at < end && group.feature[at] == j;
    const double value = here ? group.value[at++] : 0;
    if (value < box[j].lower || value > box[j].upper) return false;
  }
  return true;
}

void InputPoints::Enter(const Box& box) {
  possible_.clear();
  for (std::size_t g = 0; g < groups_->size(); ++g) {
    Possible possible{g, {}};
    const Group& group = (*groups_)[g];
    for (std::size_t point = 0; point < group.points(); ++point) {
      if (Holds(box, group, point)) possible.points.push_back(point);
    }
    if (possible.points.size() > 1) possible_.push_back(std::move(possible));
  }
  if (possible_.empty()) return;
  free_box_ = box;
  for (const Possible& possible : possible_) {
    const Group& group = (*groups_)[possible.group];
    for (std::int64_t j = group.first; j < group.first + group.width; ++j) free_box_[j] = {0, 0};
  }
  if (free_.centre.size() == 0) free_.Reset(static_cast<std::int64_t>(box.size()));
  for (std::size_t j = 0; j < box.size(); ++j) {
    free_.Set(static_cast<std::int64_t>(j), free_box_[j].lower, free_box_[j].upper);
  }
}

double InputPoints::Value(const Group& group, std::size_t point, const double* c) const {
  double sum = 0;
  for (std::size_t at = group.begin[point]; at < group.begin[point + 1]; ++at) {
    sum += c[group.feature[at]] * group.value[at];
  }
  return sum;
}

double InputPoints::Largest(const double* c) const {
  double sum = 0;
  for (const Possible& possible : possible_) {
    const Group& group = (*groups_)[possible.group];
    double largest = Value(group, possible.points.front(), c);
    for (const std::size_t point : possible.points) {
      largest = std::max(largest, Value(group, point, c));
    }
    sum += largest;
  }
  return sum;
}

void InputPoints::PutLargest(const double* c, double* x) const {
  for (const Possible& possible : possible_) {
    const Group& group = (*groups_)[possible.group];
    const std::size_t best = *std::ranges::max_element(
        possible.points, {}, [&](std::size_t point) { return Value(group, point, c); });
    std::fill_n(x + group.first, group.width, 0.0);
    for (std::size_t at = group.begin[best]; at < group.begin[best + 1]; ++at) {
      x[group.feature[at]] = group.value[at];
    }
  }
}

}  // namespace lucid
