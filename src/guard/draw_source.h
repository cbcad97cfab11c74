// The memo without memory: where the randomness of an answer comes from (docs/guard.md has the
// bytes).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "lucid/base/digest.h"
#include "lucid/guard/guard.h"
#include "lucid/guard/mechanism.h"

namespace lucid {

// Draws that are fixed by key, network, mechanism, epsilon, number of classes and input, and
// uniform to whoever does not hold the key. Sources that differ in any of these share no draw.
// Immutable, thread-safe. Requires: PrepareSodium().
class DrawSource {
 public:
  DrawSource(const GuardKey& key, const Digest& network, const Mechanism& mechanism);
  ~DrawSource();
  DrawSource(DrawSource&&) noexcept;
  DrawSource& operator=(DrawSource&&) noexcept;

  // Requires: x is canonical (one input, one spelling).
  Draw For(std::span<const float> x) const;
  // Another hash of the same, under another tag: says nothing about the draw.
  std::array<std::uint8_t, 16> Fingerprint(std::span<const float> x) const;

 private:
  struct States;
  std::unique_ptr<States> states_;
};

}  // namespace lucid
