// The randomness that privacy rests on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "lucid/base/result.h"
#include "random/secret_stream.h"

namespace lucid {

// Numbers of a key stream: keyed by the system's entropy, or - to repeat an experiment, and then
// nothing is private - by a seed. Move-only, so that no noise is used twice.
class PrivacyNoise {
 public:
  // `seed`: nullopt for the system's entropy. Errors: the system has none.
  static Result<PrivacyNoise> Create(std::optional<std::uint64_t> seed);

  std::uint64_t Next() { return stream_.Next(); }
  double Uniform();              // [0, 1), 53 bits
  double Normal();               // standard normal
  double Laplace(double scale);  // density e^(-|x| / scale) / (2 scale)

 private:
  explicit PrivacyNoise(const std::array<std::uint8_t, 32>& key) : stream_(key) {}

  KeyStream stream_;
  std::optional<double> second_;  // the polar method gives two normals at a time
};

}  // namespace lucid
