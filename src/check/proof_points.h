// Features that take one of a few points together, as the encoding of a category does: what a
// checker of bounds over such a domain knows of them. The checker's own code.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lucid/data/domain.h"

namespace lucid {

// The points of a domain's groups that a box holds. Every input of the domain in the box has one of
// them in every group.
class ProofPoints {
 public:
  // Without a domain there are no groups.
  explicit ProofPoints(const Domain* domain = nullptr);

  void Enter(std::span<const double> lower, std::span<const double> upper);
  // No group has more than one point here; then the box alone says all that can be said.
  bool none() const { return possible_.empty(); }
  // Sets the features of the other groups to 0.
  void Clear(std::span<double> x) const;
  // The sum over these groups of the largest c . x: a sum of at most as many products as there are
  // features. What is no number makes `c` times the features' sizes no number, too.
  double Largest(const double* c) const;
  // The same, nothing below the exact value.
  double LargestUp(const double* c) const;

 private:
  struct Point {
    std::vector<std::size_t> features;  // where it is not 0
    std::vector<double> values;
  };
  struct Group {
    std::size_t first = 0, width = 0;
    std::vector<Point> points;
  };
  static bool Holds(const Group& group, const Point& point, std::span<const double> lower,
                    std::span<const double> upper);
  std::vector<Group> groups_;
  std::vector<Group> possible_;  // of each group that is left, the points in the box
};

}  // namespace lucid
