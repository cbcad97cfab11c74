#include "random/keyed_hash.h"

#include <sodium.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/hasher.h"

namespace lucid {

KeyedHash::KeyedHash(std::span<const std::byte> secret, std::string_view purpose,
                     std::uint64_t index) {
  static_assert(crypto_shorthash_KEYBYTES == sizeof(key_) && crypto_shorthash_BYTES == 8);
  Digest digest = Hasher()
                      .Text("lucid-keyed-hash-1")
                      .Number(secret.size())
                      .Bytes(secret)
                      .Text(purpose)
                      .Number(index)
                      .Finish();
  std::copy_n(digest.bytes.begin(), key_.size(), key_.begin());
  sodium_memzero(digest.bytes.data(), digest.bytes.size());
}

KeyedHash::KeyedHash(std::uint64_t seed, std::string_view purpose, std::uint64_t index)
    : KeyedHash(std::as_bytes(std::span(&seed, 1)), purpose, index) {}

KeyedHash::~KeyedHash() { sodium_memzero(key_.data(), key_.size()); }

std::uint64_t KeyedHash::operator()(const Digest& key) const {
  static_assert(std::endian::native == std::endian::little);
  std::array<unsigned char, 8> out{};
  crypto_shorthash(out.data(), key.bytes.data(), key.bytes.size(), key_.data());
  std::uint64_t value = 0;
  std::memcpy(&value, out.data(), sizeof(value));
  return value;
}

}  // namespace lucid
