// Closed intervals of doubles whose arithmetic is rounded outward: the result contains every exact
// value, and is the exact result where that has doubles as bounds. An infinite bound means "not
// known": the values inside are always real numbers, so 0 * [0, inf] is 0 and NaN never occurs.
// Requires everywhere: lower <= upper, lower < inf, upper > -inf.
#pragma once

#include <algorithm>

#include "numeric/rounding.h"

namespace lucid {

struct Interval {
  double lower = 0, upper = 0;

  static Interval Point(double value) { return {value, value}; }
  double Width() const { return SumUp(upper, -lower); }  // at or above the exact width
  bool Contains(double value) const { return lower <= value && value <= upper; }
  bool operator==(const Interval&) const = default;
};

inline double AddDown(double a, double b) { return NextDown(a + b); }
inline double MulDown(double a, double b) { return NextDown(a * b); }

inline Interval operator+(Interval a, Interval b) {
  return {SumDown(a.lower, b.lower), SumUp(a.upper, b.upper)};
}
inline Interval operator-(Interval a, Interval b) {
  return {SumDown(a.lower, -b.upper), SumUp(a.upper, -b.lower)};
}
inline Interval operator*(Interval a, Interval b) {
  return {std::min({ProductDown(a.lower, b.lower), ProductDown(a.lower, b.upper),
                    ProductDown(a.upper, b.lower), ProductDown(a.upper, b.upper)}),
          std::max({ProductUp(a.lower, b.lower), ProductUp(a.lower, b.upper),
                    ProductUp(a.upper, b.lower), ProductUp(a.upper, b.upper)})};
}
inline Interval operator*(double a, Interval b) {
  const double from = a < 0 ? b.upper : b.lower, to = a < 0 ? b.lower : b.upper;
  return {ProductDown(a, from), ProductUp(a, to)};
}
// The product with b.lower >= 0, which needs only the two corners that can win.
inline Interval TimesNonNegative(Interval a, Interval b) {
  return {ProductDown(a.lower, a.lower < 0 ? b.upper : b.lower),
          ProductUp(a.upper, a.upper < 0 ? b.lower : b.upper)};
}
inline Interval Hull(Interval a, Interval b) {
  return {std::min(a.lower, b.lower), std::max(a.upper, b.upper)};
}
// Requires: both contain the same true values. (Rounded bounds of one quantity always meet.)
inline Interval Intersect(Interval a, Interval b) {
  return {std::max(a.lower, b.lower), std::min(a.upper, b.upper)};
}
inline double Relu(double x) { return std::max(x, 0.0); }
inline Interval Relu(Interval a) { return {std::max(a.lower, 0.0), std::max(a.upper, 0.0)}; }

}  // namespace lucid
