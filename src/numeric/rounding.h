// Arithmetic that errs on a stated side. Nearest mode plus one step outward: fesetround is not
// honoured by optimisers, and nextafter costs little where these are used.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace lucid {

// A number proved to be at or above the true value. No conversion from or to a plain double by
// accident: whoever makes one says so.
class UpperBound {
 public:
  static UpperBound Proved(double value) { return UpperBound(value); }
  static UpperBound None() { return UpperBound(std::numeric_limits<double>::infinity()); }
  double value() const { return value_; }
  auto operator<=>(const UpperBound&) const = default;

 private:
  explicit UpperBound(double value) : value_(value) {}
  double value_;
};

inline double NextUp(double x) {
  return std::nextafter(x, std::numeric_limits<double>::infinity());
}
inline double NextDown(double x) {
  return std::nextafter(x, -std::numeric_limits<double>::infinity());
}

// Ensures: result >= the exact sum or product (finite arguments).
inline double AddUp(double a, double b) { return NextUp(a + b); }
inline double MulUp(double a, double b) { return NextUp(a * b); }
inline double DivUp(double a, double b) { return NextUp(a / b); }

inline constexpr double kUnitRoundoff = 0x1p-53;  // of double, round to nearest

// Ensures: result >= gamma_n = n u / (1 - n u): the relative error of n roundings in a row
// (Higham, Accuracy and Stability of Numerical Algorithms, lemma 3.1). Requires: 0 <= n < 2^50.
inline double GammaUp(std::int64_t n) {
  const double nu = static_cast<double>(n) * kUnitRoundoff;  // exact: a scaling by a power of two
  return DivUp(nu, NextDown(1 - nu));
}

}  // namespace lucid
