// Where the bytes of a text come from: memory, a file, a gzip stream.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lucid/base/result.h"

namespace lucid {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Writes up to out.size() bytes and returns how many; 0 only at the end. Requires: !out.empty().
  virtual Result<std::size_t> Read(std::span<char> out) = 0;
};

// Requires: `text` outlives the source.
std::unique_ptr<ByteSource> MemorySource(std::string_view text);

// A file, a pipe or a device; decompressed if the name ends in ".gz".
Result<std::unique_ptr<ByteSource>> OpenSource(const std::string& path);

// The decompressed bytes of `compressed`: one or more gzip members and nothing after them. Errors
// say whether the stream is cut off or corrupt; the caller adds the name.
std::unique_ptr<ByteSource> GunzipSource(std::unique_ptr<ByteSource> compressed);

}  // namespace lucid
