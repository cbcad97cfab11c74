// Incremental SHA-256 with typed, length-prefixed fields, so that no two different sequences of
// fields can hash alike.
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <string_view>

#include "lucid/base/digest.h"

namespace lucid {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  Hasher& Bytes(std::span<const std::byte> data);  // raw, no prefix
  Hasher& Text(std::string_view text);             // 8-byte length, then the bytes
  Hasher& Number(std::uint64_t value);             // 8 bytes, little endian

  Digest Finish();  // once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace lucid
