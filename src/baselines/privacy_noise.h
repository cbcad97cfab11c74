// The randomness that privacy rests on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "lucid/base/result.h"

namespace lucid {

// A ChaCha20 key stream: keyed by the system's entropy, or - to repeat an experiment, and then
// nothing is private - by a seed. Move-only, so that no noise is used twice.
class PrivacyNoise {
 public:
  // `seed`: nullopt for the system's entropy. Errors: the system has none.
  static Result<PrivacyNoise> Create(std::optional<std::uint64_t> seed);
  ~PrivacyNoise();  // wipes the key
  PrivacyNoise(PrivacyNoise&&) = default;
  PrivacyNoise& operator=(PrivacyNoise&&) = default;
  PrivacyNoise(const PrivacyNoise&) = delete;
  PrivacyNoise& operator=(const PrivacyNoise&) = delete;

  std::uint64_t Next();
  double Uniform();              // [0, 1), 53 bits
  double Normal();               // standard normal
  double Laplace(double scale);  // density e^(-|x| / scale) / (2 scale)

 private:
  PrivacyNoise() = default;
  void Refill();

  std::array<std::uint8_t, 32> key_{};
  std::uint64_t block_ = 0;  // of the key stream, the next one
  std::array<std::uint64_t, 512> words_{};
  std::size_t next_ = words_.size();
  std::optional<double> second_;  // the polar method gives two normals at a time
};

}  // namespace lucid
