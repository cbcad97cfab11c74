#include "baselines/privacy_noise.h"

#include <sodium.h>

#include <cmath>

#include "base/hasher.h"

namespace lucid {

Result<PrivacyNoise> PrivacyNoise::Create(std::optional<std::uint64_t> seed) {
  if (sodium_init() < 0) return InternalError("libsodium finds no source of entropy");
  PrivacyNoise noise;
  if (seed) {
    noise.key_ = Hasher().Text("lucid-seeded-noise-1").Number(*seed).Finish().bytes;
  } else {
    randombytes_buf(noise.key_.data(), noise.key_.size());
  }
  return noise;
}

PrivacyNoise::~PrivacyNoise() {
  sodium_memzero(key_.data(), key_.size());
  sodium_memzero(words_.data(), sizeof(words_));
}

void PrivacyNoise::Refill() {
  static constexpr std::array<std::uint8_t, crypto_stream_chacha20_NONCEBYTES> kNonce{};
  static_assert(crypto_stream_chacha20_KEYBYTES == 32);
  constexpr std::uint64_t kBlockBytes = 64;
  words_.fill(0);
  auto* const bytes = reinterpret_cast<unsigned char*>(words_.data());
  crypto_stream_chacha20_xor_ic(bytes, bytes, sizeof(words_), kNonce.data(), block_, key_.data());
  block_ += sizeof(words_) / kBlockBytes;
  next_ = 0;
}

std::uint64_t PrivacyNoise::Next() {
  if (next_ == words_.size()) Refill();
  return words_[next_++];
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
