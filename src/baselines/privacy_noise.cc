#include "baselines/privacy_noise.h"

#include <sodium.h>

#include <cmath>

#include "base/hasher.h"

namespace lucid {

Result<PrivacyNoise> PrivacyNoise::Create(std::optional<std::uint64_t> seed) {
  if (sodium_init() < 0) return InternalError("libsodium finds no source of entropy");
  std::array<std::uint8_t, 32> key{};
  if (seed) {
    key = Hasher().Text("lucid-seeded-noise-1").Number(*seed).Finish().bytes;
  } else {
    randombytes_buf(key.data(), key.size());
  }
  PrivacyNoise noise(key);
  sodium_memzero(key.data(), key.size());
  return noise;
}

double PrivacyNoise::Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

double PrivacyNoise::Normal() {
  if (second_) {
    const double value = *second_;
    second_.reset();
    return value;
  }
  while (true) {  // Marsaglia's polar method
    const double u = 2 * Uniform() - 1, v = 2 * Uniform() - 1, s = u * u + v * v;
    if (s > 0 && s < 1) {
      const double factor = std::sqrt(-2 * std::log(s) / s);
      second_ = v * factor;
      return u * factor;
    }
  }
}

double PrivacyNoise::Laplace(double scale) {
  // An exponential variable with a random sign. 1 - Uniform() is never 0.
  const double size = -std::log(1 - Uniform()) * scale;
  return (Next() & 1) != 0 ? size : -size;
}

}  // namespace lucid
