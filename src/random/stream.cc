#include "random/stream.h"

#include <bit>
#include <cmath>

#include "base/hasher.h"

namespace lucid {

Stream::Stream(std::uint64_t seed, std::string_view purpose, std::uint64_t index) {
  const Digest digest =
      Hasher().Text("lucid-stream-1").Number(seed).Text(purpose).Number(index).Finish();
  for (int i = 0; i < 4; ++i) {
    state_[i] = 0;
    for (int b = 0; b < 8; ++b) {
      state_[i] |= static_cast<std::uint64_t>(digest.bytes[8 * i + b]) << (8 * b);
    }
  }
}

std::uint64_t Stream::Next() {
  auto& s = state_;
  const std::uint64_t result = std::rotl(s[0] + s[3], 23) + s[0];
  const std::uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = std::rotl(s[3], 45);
  return result;
}

std::uint64_t Stream::Below(std::uint64_t n) {
  // Lemire 2019: the high half of draw * n, with the few draws that would favour some values
  // redrawn.
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(Next()) * n;
  if (static_cast<std::uint64_t>(product) < n) {
    const std::uint64_t unfair = -n % n;  // 2^64 mod n
    while (static_cast<std::uint64_t>(product) < unfair) product = static_cast<Wide>(Next()) * n;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double Stream::Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

double Stream::Normal() {
  while (true) {
    const double u = Uniform(-1, 1), v = Uniform(-1, 1), s = u * u + v * v;
    if (s > 0 && s < 1) return u * std::sqrt(-2 * std::log(s) / s);
  }
}

}  // namespace lucid
