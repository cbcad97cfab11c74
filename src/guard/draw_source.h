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

// Everything that decides which inputs are noised. One draw must never meet two noised sets:
// whether the two answers differ would tell on which side of them an input lies.
struct NoisedSet {
  GuardKind guard = GuardKind::kScalar;
  std::span<const double> bounds;  // one per class
  Digest spatial, index;           // of the parts that the guard uses; zeros: it uses none
};

// Draws that are fixed by key, network, noised set, mechanism, epsilon, number of classes and
// input, and uniform to whoever does not hold the key. Sources that differ in any of these share no
// draw. Immutable, thread-safe. Requires: PrepareSodium(); a bound for each class.
class DrawSource {
 public:
  DrawSource(const GuardKey& key, const Digest& network, const NoisedSet& noised,
             const Mechanism& mechanism);
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
