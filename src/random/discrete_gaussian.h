// Exact samples of the discrete Gaussian: the noise of private training.
#pragma once

#include <cstdint>

#include "random/secret_stream.h"

namespace lucid {

// N_Z(0, s2): the integer x has a probability proportional to exp(-x^2 / (2 s2)).
//
// Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), algorithms
// 1 to 3, in 128-bit integers. No floating point: the distribution is exact as far as the stream
// looks random, and the samples are the same on every machine.
class DiscreteGaussian {
 public:
  // So that no product leaves 128 bits; the standard deviation is then at most 2^26.
  static constexpr std::uint64_t kMaxVariance = std::uint64_t{1} << 52;

  // Requires: 1 <= s2 <= kMaxVariance.
  explicit DiscreteGaussian(std::uint64_t s2);

  std::int64_t Sample(SecretStream& stream) const;

 private:
  std::uint64_t s2_, t_;  // t = floor(sqrt(s2)) + 1
};

}  // namespace lucid
