#include "random/discrete_gaussian.h"

#include <bit>
#include <cmath>

namespace lucid {
namespace {

__extension__ using Wide = unsigned __int128;

// Uniform in [0, n): as many bits as n - 1 has, drawn again while they are not below n.
std::uint64_t Below(std::uint64_t n, SecretStream& stream) {
  if (n == 1) return 0;
  const int shift = std::countl_zero(n - 1);
  while (true) {
    const std::uint64_t draw = stream.Next() >> shift;
    if (draw < n) return draw;
  }
}

Wide Below(Wide n, SecretStream& stream) {
  const auto high = static_cast<std::uint64_t>((n - 1) >> 64);
  if (high == 0) {
    // n - 1 fits into 64 bits; n itself may be 2^64.
    const auto last = static_cast<std::uint64_t>(n - 1);
    return last == ~std::uint64_t{0} ? stream.Next() : Below(last + 1, stream);
  }
  const int shift = std::countl_zero(high);
  while (true) {
    const Wide draw = static_cast<Wide>(stream.Next() >> shift) << 64 | stream.Next();
    if (draw < n) return draw;
  }
}

// True with probability exp(-numerator / denominator), for numerator <= denominator: of draws with
// probability x / 1, x / 2, x / 3, ... the first that fails is an odd one. (Algorithm 1.)
template <typename T>
bool ExpOfFraction(T numerator, T denominator, SecretStream& stream) {
  for (std::uint64_t k = 1;; ++k) {
    // A draw of probability x / k is one of probability 1 / k and one of probability x.
    if (k > 1 && Below(k, stream) != 0) return k % 2 == 1;
    if (Below(denominator, stream) >= numerator) return k % 2 == 1;
  }
}

bool ExpOfMinusOne(SecretStream& stream) {
  for (std::uint64_t k = 2;; ++k) {  // the draw with k = 1 always succeeds
    if (Below(k, stream) != 0) return k % 2 == 1;
  }
}

// True with probability exp(-numerator / denominator).
bool Exp(Wide numerator, Wide denominator, SecretStream& stream) {
  while (numerator > denominator) {
    if (!ExpOfMinusOne(stream)) return false;
    numerator -= denominator;
  }
  return ExpOfFraction(numerator, denominator, stream);
}

struct Signed {
  std::uint64_t size;
  bool negative;
};

// The integer y has a probability proportional to exp(-|y| / t). (Algorithm 2.)
Signed DiscreteLaplace(std::uint64_t t, SecretStream& stream) {
  while (true) {
    const std::uint64_t u = Below(t, stream);
    if (!ExpOfFraction(u, t, stream)) continue;
    std::uint64_t v = 0;
    while (ExpOfMinusOne(stream)) ++v;
    const std::uint64_t size = u + t * v;
    const bool negative = (stream.Next() >> 63) != 0;
    if (negative && size == 0) continue;
    return {size, negative};
  }
}

}  // namespace

DiscreteGaussian::DiscreteGaussian(std::uint64_t s2) : s2_(s2) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(s2)));
  while (root * root > s2) --root;
  while ((root + 1) * (root + 1) <= s2) ++root;
  t_ = root + 1;
}

// Algorithm 3: a Laplace variable y is kept with probability
//   exp(-(|y| - s2 / t)^2 / (2 s2)) = exp(-(|y| t - s2)^2 / (2 s2 t^2)).
// With t <= 2^26 + 1, |y| < 2^10 t keeps the square below 2^124; larger |y| has a probability below
// exp(-1000) and is never drawn.
std::int64_t DiscreteGaussian::Sample(SecretStream& stream) const {
  while (true) {
    const Signed y = DiscreteLaplace(t_, stream);
    const Wide product = static_cast<Wide>(y.size) * t_;
    const Wide distance = product > s2_ ? product - s2_ : s2_ - product;
    const Wide denominator = static_cast<Wide>(2) * s2_ * t_ * t_;
    if (!Exp(distance * distance, denominator, stream)) continue;
    const auto size = static_cast<std::int64_t>(y.size);
    return y.negative ? -size : size;
  }
}

}  // namespace lucid
