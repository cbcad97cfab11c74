// Half spaces that cut a box of inputs.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "pair/dense_kernels.h"

namespace lucid {

// Intervals as kernels read them.
struct CentredIntervals {
  PaddedArray centre, radius, size;  // size: at or above the absolute value
  void Reset(std::int64_t n);
  void Set(std::int64_t k, double lower, double upper);
};

class HalfSpaces {
 public:
  void Clear() { count_ = 0; }
  std::size_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  // sign a . x >= at_least, of a box x; dropped if all of the box is in it.
  void Add(const CentredIntervals& x, const double* a, double sign, double at_least);

 private:
  friend class CutMaximiser;
  struct HalfSpace {
    PaddedArray a, reach;  // reach: a times the radius of x
    double at_least = 0;
    double middle = 0;  // a . centre - at_least
  };
  std::vector<HalfSpace> half_spaces_;  // the first count_ of them; the others are storage
  std::size_t count_ = 0;
};

class InputPoints;

// max c . x over a box, the points in it, and half spaces is at most
// max (c + mu a) . x - mu at_least over box and points, for any mu >= 0 of each half space.
class CutMaximiser {
 public:
  // Lowers `value`, the maximum of c . x, by the mu of one half space after the other that is best
  // over the box. Adds to `size` what the rounding charge is proportional to.
  void Lower(const CentredIntervals& x, const InputPoints& points,
             std::span<const HalfSpaces* const> cuts, const double* c, double& value, double& size);

 private:
  bool Apply(const CentredIntervals& x, const HalfSpaces::HalfSpace& cut, double& shift,
             double& size);

  std::vector<double> row_;
  std::vector<std::pair<double, std::int32_t>> breaks_;
};

}  // namespace lucid
