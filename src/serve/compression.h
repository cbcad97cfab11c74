// Bodies that a client has compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lucid {

enum class Compression : std::uint8_t { kNone, kGzip, kDeflate };

// By the value of a Content-Encoding field, in any case; empty means none. Nothing: another coding,
// or several.
std::optional<Compression> CompressionNamed(std::string_view coding);

enum class Decompression : std::uint8_t {
  kDone,
  kTooLong,   // more than `limit` bytes would come out
  kNotValid,  // damaged, cut off, or followed by something else
};

// Appends to `out` what was compressed. Memory: what is there at `limit`, whatever the input says.
Decompression Decompress(std::string_view bytes, Compression compression, std::size_t limit,
                         std::string& out);

}  // namespace lucid
