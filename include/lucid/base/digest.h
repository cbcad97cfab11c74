// SHA-256 values. Every artefact carries the digests of what it came from.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "lucid/base/result.h"

namespace lucid {

struct Digest {
  std::array<std::uint8_t, 32> bytes{};
  auto operator<=>(const Digest&) const = default;  // NOLINT(modernize-use-nullptr)

  std::string Hex() const;                              // 64 lower-case digits
  static Result<Digest> FromHex(std::string_view hex);  // exactly 64 hex digits
};

// For hash tables: a digest's first bytes are as good as any hash of it.
struct DigestHash {
  std::size_t operator()(const Digest& digest) const {
    std::size_t first = 0;
    std::memcpy(&first, digest.bytes.data(), sizeof(first));
    return first;
  }
};

Digest Sha256Of(std::span<const std::byte> data);
Digest Sha256Of(std::string_view text);

// Ensures: the digest of the file's bytes, read in blocks (memory stays constant).
Result<Digest> Sha256OfFile(const std::string& path);

}  // namespace lucid
