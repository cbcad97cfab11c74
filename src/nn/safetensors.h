// The safetensors file format: 8 bytes header length (little endian), a JSON header, the tensors'
// bytes. Readers accept only files without holes, overlaps, duplicate names or trailing bytes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/result.h"

namespace lucid {

enum class TensorType { kF32, kI64, kU8 };

struct Tensor {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // byte offsets in the file

  std::uint64_t bytes() const { return end - begin; }
};

class SafetensorsHeader {
 public:
  // Places the tensors one after another (begin and end are filled in); the data starts at a
  // multiple of 64 bytes. Requires: distinct names, sizes that do not overflow.
  static SafetensorsHeader Build(std::vector<Tensor> tensors,
                                 std::map<std::string, std::string> metadata);

  // Parses the header of a file of `file_size` bytes from (at least) its first bytes.
  // `source` names the file in messages.
  static Result<SafetensorsHeader> Parse(std::span<const std::byte> start, std::uint64_t file_size,
                                         const std::string& source);
  // Reads just the header of a file.
  static Result<SafetensorsHeader> Read(const std::string& path);

  std::string Encode() const;  // the bytes before the data
  std::uint64_t file_size() const;
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Errors name the file, the tensor, and what was expected.
  Result<const Tensor*> Find(std::string_view name, TensorType type,
                             std::span<const std::int64_t> shape) const;
  Result<std::string> Metadata(const std::string& key) const;

 private:
  std::string source_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace lucid
