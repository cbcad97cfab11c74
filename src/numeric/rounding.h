// Arithmetic that errs on a stated side. Nearest mode plus one step outward: fesetround is not
// honoured by optimisers, and nextafter costs little where these are used.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

#include "numeric/floating_point.h"

namespace lucid {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A number proved to be at or above the true value. No conversion from or to a plain double by
// accident: whoever makes one says so.
class UpperBound {
 public:
  static UpperBound Proved(double value) { return UpperBound(value); }
  static UpperBound None() { return UpperBound(std::numeric_limits<double>::infinity()); }
  double value() const { return value_; }
  auto operator<=>(const UpperBound&) const = default;  // NOLINT(modernize-use-nullptr)

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

// The same step outward for inner loops: no branch and no bit tricks, so it vectorises. At most two
// neighbours further out than NextUp / NextDown (and 2^-960 around zero).
// Ensures: Up(x) >= NextUp(x) for x > -inf. Proof. Let t be the computed |x| 2^-52 + 2^-960.
// If |x| >= 2^-970 the product is exact (a power of two, no underflow) and at least
// 2^exponent(x) 2^-52 = ulp(x); else ulp(x) <= 2^-1022 < 2^-960. The sum of two non-negative
// numbers, rounded, is at least either of them (rounding is monotone), so t >= ulp(x), the exact
// x + t >= x + ulp(x) >= NextUp(x), and NextUp(x), being a double, survives the rounding of x + t.
// 2^-960 instead of the smallest subnormal: zeros do not become subnormals, which would be slow.
// Infinities: Up(inf) = inf; Up(-inf) is NaN (an upper bound lost to overflow; callers look for
// results that are not finite).
inline double Up(double x) { return x + (std::abs(x) * 0x1p-52 + 0x1p-960); }
inline double Down(double x) { return -Up(-x); }

// Ensures: result >= the exact sum or product (finite arguments).
inline double AddUp(double a, double b) { return NextUp(a + b); }
inline double MulUp(double a, double b) { return NextUp(a * b); }
inline double DivUp(double a, double b) { return NextUp(a / b); }

// The sum and the product rounded in the stated direction, and exact when the result is a double:
// zeros stay zeros, and a hand-made example with short numbers gives the numbers of the book.
// Ensures: SumUp(a, b) >= a + b exactly, also when the nearest sum overflows; the others alike.
// Sums are monotone in both arguments, products in each for a fixed sign of the other. (Products
// below 2^-960 may be one step further out.) Requires: no NaN; not inf + -inf.
inline double SumUp(double a, double b) {
  const double sum = a + b;
  const double back = sum - a;  // TwoSum (Knuth): `rest` is a + b - sum, exactly
  const double rest = (a - (sum - back)) + (b - back);
  // Near the largest doubles TwoSum itself may overflow; NaN compares false, too.
  return std::abs(sum) < 0x1p1020 && rest <= 0 ? sum : NextUp(sum);
}
inline double SumDown(double a, double b) { return 0.0 - SumUp(-a, -b); }  // never -0
// 0 times anything is 0: an infinite bound stands for a number that is large, but a number.
inline double ProductUp(double a, double b) {
  if (a == 0 || b == 0) return 0;
  const double product = a * b;
  if (product == 0 && std::signbit(product)) return 0;  // underflow from below
  // The rest of a product is a double unless it underflows (Boldo and Muller: below 2^-968).
  const bool safe = std::abs(product) > 0x1p-960 && std::abs(product) < 0x1p1020;
  return safe && std::fma(a, b, -product) <= 0 ? product : NextUp(product);
}
inline double ProductDown(double a, double b) { return 0.0 - ProductUp(-a, b); }

inline constexpr double kUnitRoundoff = 0x1p-53;  // of double, round to nearest

// Ensures: result >= gamma_n = n u / (1 - n u): the relative error of n roundings in a row
// (Higham, Accuracy and Stability of Numerical Algorithms, lemma 3.1). Requires: 0 <= n < 2^50.
inline double GammaUp(std::int64_t n) {
  const double nu = static_cast<double>(n) * kUnitRoundoff;  // exact: a scaling by a power of two
  return DivUp(nu, NextDown(1 - nu));
}

}  // namespace lucid
