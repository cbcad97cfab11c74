// A keyed hash of a unit's key: who is in which batch, without any order of the rows.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "lucid/base/digest.h"

namespace lucid {

// SipHash-2-4 under a key that is derived from (secret, purpose, index). Two different names give
// unrelated functions, as far as SHA-256 and SipHash look random. Immutable, thread-safe.
class KeyedHash {
 public:
  KeyedHash(std::span<const std::byte> secret, std::string_view purpose, std::uint64_t index);
  // The secret is a public seed: nothing is hidden.
  KeyedHash(std::uint64_t seed, std::string_view purpose, std::uint64_t index);
  ~KeyedHash();  // wipes the key
  KeyedHash(const KeyedHash&) = delete;
  KeyedHash& operator=(const KeyedHash&) = delete;

  std::uint64_t operator()(const Digest& key) const;

 private:
  std::array<unsigned char, 16> key_{};
};

}  // namespace lucid
