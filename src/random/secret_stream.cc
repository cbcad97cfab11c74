#include "random/secret_stream.h"

#include <sodium.h>

#include <algorithm>

#include "base/hasher.h"
#include "random/wiped_vector.h"

namespace lucid {

void WipeMemory(void* bytes, std::size_t size) { sodium_memzero(bytes, size); }

Result<Secret> Secret::FromEntropy() {
  if (sodium_init() < 0) return InternalError("libsodium finds no source of entropy");
  Secret secret;
  randombytes_buf(secret.bytes_.data(), secret.bytes_.size());
  return secret;
}

Secret Secret::FromSeed(std::uint64_t seed) {
  Secret secret;
  secret.bytes_ = Hasher().Text("lucid-seeded-secret-1").Number(seed).Finish().bytes;
  return secret;
}

Secret::Secret(std::span<const std::uint8_t, 32> bytes) {
  std::ranges::copy(bytes, bytes_.begin());
}

Secret::~Secret() { sodium_memzero(bytes_.data(), bytes_.size()); }

Secret::Secret(Secret&& other) noexcept : bytes_(other.bytes_) {
  sodium_memzero(other.bytes_.data(), other.bytes_.size());
}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    bytes_ = other.bytes_;
    sodium_memzero(other.bytes_.data(), other.bytes_.size());
  }
  return *this;
}

SecretStream::SecretStream(const Secret& secret, std::string_view purpose, std::uint64_t index,
                           std::string_view context)
    : stream_(Hasher()
                  .Text("lucid-secret-stream-1")
                  .Bytes(secret.bytes())
                  .Text(purpose)
                  .Number(index)
                  .Text(context)
                  .Finish()
                  .bytes) {}

KeyStream::~KeyStream() {
  sodium_memzero(key_.data(), key_.size());
  sodium_memzero(words_.data(), sizeof(words_));
}

void KeyStream::Refill() {
  static constexpr std::array<std::uint8_t, crypto_stream_chacha20_NONCEBYTES> kNonce{};
  static_assert(crypto_stream_chacha20_KEYBYTES == 32);
  constexpr std::uint64_t kBlockBytes = 64;
  words_.fill(0);
  auto* const bytes = reinterpret_cast<unsigned char*>(words_.data());
  crypto_stream_chacha20_xor_ic(bytes, bytes, sizeof(words_), kNonce.data(), block_, key_.data());
  block_ += sizeof(words_) / kBlockBytes;
  next_ = 0;
}

}  // namespace lucid
