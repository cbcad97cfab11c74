// Deterministic pseudo-random numbers for training and tests. Not for privacy noise: that comes
// from the system's entropy and has a type of its own.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lucid {

// A stream is named by (seed, purpose, index): two different names give unrelated streams, and the
// same name gives the same numbers on every machine. xoshiro256++ seeded through SHA-256.
class Stream {
 public:
  Stream(std::uint64_t seed, std::string_view purpose, std::uint64_t index = 0);

  std::uint64_t Next();
  std::uint64_t Below(std::uint64_t n);  // uniform in [0, n), n > 0, without bias
  double Uniform();                      // [0, 1), 53 bits
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }
  double Normal();  // standard normal (Marsaglia's polar method)

  // Fisher-Yates.
  template <typename Container>
  void Shuffle(Container& items) {
    for (std::uint64_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Below(i)]);
  }

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace lucid
