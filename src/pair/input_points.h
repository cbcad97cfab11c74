// Features that take one of a few points together, as the encoding of a category does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lucid/data/domain.h"
#include "pair/half_spaces.h"
#include "pair/neuron_bounds.h"

namespace lucid {

// The points of a domain's groups, as far as a region's box holds them. A linear function of the
// inputs is largest at one of these points in every group, and in any corner of the box over the
// other features. Over a box alone, a one-hot group of n features could be any of 2^n corners.
class InputPoints {
 public:
  // A group of more than one feature, and its points as their entries that are not 0.
  struct Group {
    std::int64_t first = 0, width = 0;
    std::vector<std::size_t> begin;  // of each point, and the end of the last one
    std::vector<std::int32_t> feature;
    std::vector<double> value;
    std::size_t points() const { return begin.size() - 1; }
  };
  using Groups = std::shared_ptr<const std::vector<Group>>;
  // Without a domain, or in one without groups, every feature is free.
  static Groups GroupsOf(const Domain* domain);

  explicit InputPoints(Groups groups) : groups_(std::move(groups)) {}

  // What is possible in the box. Requires: it holds a point of every group.
  void Enter(const Box& box);

  // Whether the box alone says all that can be said. Nothing below may be asked then.
  bool empty() const { return possible_.empty(); }

  // The box with 0 for every feature that is not free.
  const CentredIntervals& free() const { return free_; }
  const Box& free_box() const { return free_box_; }
  // The largest sum of c_j x_j over the features that are not free: a sum of as many products.
  double Largest(const double* c) const;
  // Sets these features to where it is.
  void PutLargest(const double* c, double* x) const;

 private:
  struct Possible {
    std::size_t group = 0;
    std::vector<std::size_t> points;
  };
  double Value(const Group& group, std::size_t point, const double* c) const;
  bool Holds(const Box& box, const Group& group, std::size_t point) const;

  Groups groups_;
  std::vector<Possible> possible_;  // groups of which the box holds more than one point
  CentredIntervals free_;
  Box free_box_;
};

}  // namespace lucid
