// fma(a, b, c) in float32 for machines without the instruction: the same bits, from doubles.
#pragma once

#include <bit>
#include <cstdint>

namespace lucid {

// Ensures: the correctly rounded a * b + c, as std::fma gives it (nearest, ties to even), including
// subnormal results, infinities and NaN (any NaN for NaN).
// How: the product of two floats is exact in double. The sum is rounded to odd there (Boldo and
// Melquiond 2008): 53 bits with a sticky last bit round to 24 exactly as the true sum would.
inline float PortableFma(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = static_cast<double>(c);
  const double sum = product + addend;
  // TwoSum (Knuth): error is the exact rest of the addition.
  const double back = sum - product;
  const double error = (product - (sum - back)) + (addend - back);
  auto bits = std::bit_cast<std::uint64_t>(sum);
  // Not exact and even: step to the odd neighbour on the side of the rest. (Infinities and NaN have
  // error NaN, which compares false.)
  const bool inexact = error > 0 || error < 0;
  if (inexact && (bits & 1) == 0) {
    const bool away = (error > 0) == (sum > 0);
    bits += away ? 1 : static_cast<std::uint64_t>(-1);
  }
  return static_cast<float>(std::bit_cast<double>(bits));
}

}  // namespace lucid
