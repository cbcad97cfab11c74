// The randomness that a private training rests on. Not a Stream: the two types do not convert.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "lucid/base/result.h"

namespace lucid {

// 32 secret bytes, wiped from memory when they go. Move-only.
class Secret {
 public:
  // From the system's entropy. Errors: the system has none.
  static Result<Secret> FromEntropy();
  // From a seed, to repeat an experiment: nothing is private then.
  static Secret FromSeed(std::uint64_t seed);
  explicit Secret(std::span<const std::uint8_t, 32> bytes);
  ~Secret();
  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;

  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  Secret() = default;
  std::array<std::uint8_t, 32> bytes_{};
};

// A ChaCha20 key stream. Move-only, so that no number is used twice; wipes its key.
class KeyStream {
 public:
  explicit KeyStream(const std::array<std::uint8_t, 32>& key) : key_(key) {}
  ~KeyStream();
  KeyStream(KeyStream&&) = default;
  KeyStream& operator=(KeyStream&&) = default;
  KeyStream(const KeyStream&) = delete;
  KeyStream& operator=(const KeyStream&) = delete;

  std::uint64_t Next() {
    if (next_ == words_.size()) Refill();
    return words_[next_++];
  }

 private:
  void Refill();

  std::array<std::uint8_t, 32> key_;
  std::uint64_t block_ = 0;  // of the key stream, the next one
  std::array<std::uint64_t, 64> words_{};
  std::size_t next_ = words_.size();
};

// A key stream whose key is SHA-256(secret, purpose, index, context). Streams of two
// different names are unrelated, as far as SHA-256 and ChaCha20 look random.
class SecretStream {
 public:
  SecretStream(const Secret& secret, std::string_view purpose, std::uint64_t index,
               std::string_view context);
  SecretStream(const SecretStream&) = delete;
  SecretStream& operator=(const SecretStream&) = delete;

  std::uint64_t Next() { return stream_.Next(); }

 private:
  KeyStream stream_;
};

}  // namespace lucid
