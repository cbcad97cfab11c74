#include "serve/compression.h"

#include <zlib.h>

#include <array>
#include <memory>
#include <utility>

#include "base/text.h"

namespace lucid {

std::optional<Compression> CompressionNamed(std::string_view coding) {
  static constexpr std::pair<std::string_view, Compression> kNames[] = {
      {"", Compression::kNone},           {"identity", Compression::kNone},
      {"gzip", Compression::kGzip},       {"x-gzip", Compression::kGzip},
      {"deflate", Compression::kDeflate},
  };
  for (const auto& [name, compression] : kNames) {
    if (EqualInAnyCase(coding, name)) return compression;
  }
  return std::nullopt;
}

Decompression Decompress(std::string_view bytes, Compression compression, std::size_t limit,
                         std::string& out) {
  constexpr int kWindow = 15, kOfGzip = 16;  // zlib's bits of the window; it adds 16 for gzip
  z_stream stream{};
  if (inflateInit2(&stream, compression == Compression::kGzip ? kWindow + kOfGzip : kWindow) !=
      Z_OK) {
    return Decompression::kNotValid;
  }
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> end(&stream, &inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::array<char, 16384> block;
  int code = Z_OK;
  std::size_t total = 0;
  while (code == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    code = inflate(&stream, Z_NO_FLUSH);
    const std::size_t made = block.size() - stream.avail_out;
    total += made;
    if (total > limit) return Decompression::kTooLong;
    out.append(block.data(), made);
    if (code == Z_OK && made == 0 && stream.avail_in == 0) break;  // cut off
  }
  const bool whole = code == Z_STREAM_END && stream.avail_in == 0;
  return whole ? Decompression::kDone : Decompression::kNotValid;
}

}  // namespace lucid
