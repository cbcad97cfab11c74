#include "nn/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "base/text.h"

namespace lucid {
namespace {

using Json = nlohmann::ordered_json;

// The format allows 100 MB; ours have a few tensors, so anything near that is not ours.
constexpr std::uint64_t kMaxHeaderBytes = 4 << 20;
constexpr std::size_t kMaxTensors = 4096, kMaxRank = 8;
constexpr std::uint64_t kMaxTensorBytes = 1ull << 46;
constexpr std::uint64_t kPrefixBytes = 8, kAlignment = 64;

struct TypeName {
  TensorType type;
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array kTypes = {TypeName{TensorType::kF32, "F32", 4},
                               TypeName{TensorType::kI64, "I64", 8},
                               TypeName{TensorType::kU8, "U8", 1}};

const TypeName& Named(TensorType type) {
  return *std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& t) { return t.type == type; });
}

// Ensures: the number of bytes, or 0 if it is out of range.
std::uint64_t TensorBytes(const Tensor& tensor) {
  std::uint64_t bytes = Named(tensor.type).bytes;
  for (std::int64_t size : tensor.shape) {
    if (size <= 0 || static_cast<std::uint64_t>(size) > kMaxTensorBytes / bytes) return 0;
    bytes *= static_cast<std::uint64_t>(size);
  }
  return bytes;
}

std::string ShapeText(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

// nlohmann keeps the last of two equal keys; a header with such a pair means two things at once.
Result<Json> ParseStrictly(std::string_view text, const std::string& source) {
  std::vector<std::set<std::string>> keys;
  std::string problem;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > 4) problem = "too deeply nested";
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty() &&
        !keys.back().insert(value.get<std::string>()).second) {
      problem = fmt::format("{} appears twice", Quoted(value.get<std::string>()));
    }
    return problem.empty();
  };
  Json header = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (!problem.empty()) return InvalidInput(fmt::format("{}: header: {}", source, problem));
  if (header.is_discarded() || !header.is_object()) {
    return InvalidInput(
        fmt::format("{}: header is not a JSON object: not a safetensors file, or "
                    "damaged",
                    source));
  }
  return header;
}

Result<Tensor> ParseTensor(const std::string& name, const Json& json, std::uint64_t data_at,
                           const std::string& source) {
  const auto bad = [&](std::string_view rule) {
    return InvalidInput(fmt::format("{}: tensor {}: {}", source, Quoted(name), rule));
  };
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets")) {
    return bad("needs exactly dtype, shape and data_offsets");
  }
  Tensor tensor;
  tensor.name = name;
  const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const auto& t) { return json["dtype"] == t.name; });
  if (type == kTypes.end()) {
    const std::string given = json["dtype"].is_string() ? json["dtype"].get<std::string>() : "?";
    return bad(fmt::format("dtype is {}, must be F32 (weights; in PyTorch: .float()), I64 or U8",
                           Quoted(given)));
  }
  tensor.type = type->type;
  const Json& shape = json["shape"];
  if (!shape.is_array() || shape.size() > kMaxRank) return bad("shape must be a list of sizes");
  for (const Json& size : shape) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > kMaxTensorBytes) {
      return bad("shape must be a list of sizes");
    }
    tensor.shape.push_back(size.get<std::int64_t>());
  }
  const Json& offsets = json["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    return bad("data_offsets must be two offsets");
  }
  const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
  const std::uint64_t bytes = TensorBytes(tensor);
  if (bytes == 0) return bad("has an empty or too large shape");
  if (begin > kMaxTensorBytes || end > kMaxTensorBytes || end < begin || end - begin != bytes) {
    return bad(fmt::format("data_offsets do not hold the {} bytes of its shape", bytes));
  }
  tensor.begin = data_at + begin;
  tensor.end = data_at + end;
  return tensor;
}

}  // namespace

SafetensorsHeader SafetensorsHeader::Build(std::vector<Tensor> tensors,
                                           std::map<std::string, std::string> metadata) {
  SafetensorsHeader header;
  header.tensors_ = std::move(tensors);
  header.metadata_ = std::move(metadata);
  std::uint64_t at = 0;
  for (Tensor& tensor : header.tensors_) {
    tensor.begin = at;
    at = tensor.end = at + TensorBytes(tensor);
  }
  const std::uint64_t data_at = header.Encode().size();  // offsets in the header are relative
  for (Tensor& tensor : header.tensors_) {
    tensor.begin += data_at;
    tensor.end += data_at;
  }
  return header;
}

std::string SafetensorsHeader::Encode() const {
  Json json = Json::object();
  if (!metadata_.empty()) json["__metadata__"] = metadata_;
  const std::uint64_t data_at = tensors_.empty() ? 0 : tensors_.front().begin;
  for (const Tensor& tensor : tensors_) {
    json[tensor.name] = {{"dtype", Named(tensor.type).name},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.begin - data_at, tensor.end - data_at}}};
  }
  std::string text = json.dump();
  // The format lets a header end in spaces: the data starts aligned for whoever maps the file.
  text.append((kAlignment - (kPrefixBytes + text.size()) % kAlignment) % kAlignment, ' ');
  std::string bytes(kPrefixBytes, '\0');
  for (std::size_t i = 0; i < kPrefixBytes; ++i) {
    bytes[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  }
  return bytes + text;
}

std::uint64_t SafetensorsHeader::file_size() const {
  return tensors_.empty() ? Encode().size() : tensors_.back().end;
}

Result<SafetensorsHeader> SafetensorsHeader::Parse(std::span<const std::byte> start,
                                                   std::uint64_t file_size,
                                                   const std::string& source) {
  if (file_size < kPrefixBytes || start.size() < kPrefixBytes) {
    return InvalidInput(
        fmt::format("{}: {} bytes are too few for a safetensors file", source, file_size));
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kPrefixBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(start[i]) << (8 * i);
  }
  if (length > kMaxHeaderBytes || kPrefixBytes + length > file_size ||
      kPrefixBytes + length > start.size()) {
    return InvalidInput(
        fmt::format("{}: header of {} bytes does not fit (file of {} bytes, limit {}): not a "
                    "safetensors file, or "
                    "truncated",
                    source, length, file_size, kMaxHeaderBytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(start.data()) + kPrefixBytes, length);
  LUCID_ASSIGN(const Json json, ParseStrictly(text, source));
  if (json.size() > kMaxTensors) {
    return InvalidInput(fmt::format("{}: more than {} tensors", source, kMaxTensors));
  }
  SafetensorsHeader header;
  header.source_ = source;
  for (const auto& [name, value] : json.items()) {
    if (name != "__metadata__") {
      LUCID_ASSIGN(Tensor tensor, ParseTensor(name, value, kPrefixBytes + length, source));
      header.tensors_.push_back(std::move(tensor));
      continue;
    }
    if (!value.is_object()) {
      return InvalidInput(fmt::format("{}: __metadata__ must map names to texts", source));
    }
    for (const auto& [key, text_value] : value.items()) {
      if (!text_value.is_string()) {
        return InvalidInput(fmt::format("{}: __metadata__ must map names to texts", source));
      }
      header.metadata_[key] = text_value.get<std::string>();
    }
  }
  std::sort(header.tensors_.begin(), header.tensors_.end(),
            [](const Tensor& a, const Tensor& b) { return a.begin < b.begin; });
  std::uint64_t at = kPrefixBytes + length;
  for (const Tensor& tensor : header.tensors_) {
    if (tensor.begin != at) {
      return InvalidInput(
          fmt::format("{}: a hole or an overlap before tensor {}", source, Quoted(tensor.name)));
    }
    at = tensor.end;
  }
  if (at != file_size) {
    return InvalidInput(fmt::format(
        "{}: has {} bytes where its header says {}: truncated or damaged", source, file_size, at));
  }
  return header;
}

Result<SafetensorsHeader> SafetensorsHeader::Read(const std::string& path) {
  LUCID_ASSIGN(File file, File::OpenToRead(path));
  LUCID_ASSIGN(const std::uint64_t size, file.Size());
  std::vector<std::byte> start(
      static_cast<std::size_t>(std::min(size, kPrefixBytes + kMaxHeaderBytes)));
  LUCID_TRY(file.ReadAt(0, start));
  return Parse(start, size, path);
}

Result<const Tensor*> SafetensorsHeader::Find(std::string_view name, TensorType type,
                                              std::span<const std::int64_t> shape) const {
  for (const Tensor& tensor : tensors_) {
    if (tensor.name != name) continue;
    if (tensor.type != type || !std::ranges::equal(tensor.shape, shape)) {
      return InvalidInput(fmt::format("{}: tensor '{}' is {} {}, expected {} {}", source_, name,
                                      Named(tensor.type).name, ShapeText(tensor.shape),
                                      Named(type).name, ShapeText(shape)));
    }
    return &tensor;
  }
  return InvalidInput(fmt::format("{}: has no tensor '{}'", source_, name));
}

Result<std::string> SafetensorsHeader::Metadata(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) {
    return InvalidInput(
        fmt::format("{}: metadata has no '{}': not written by LUCID", source_, key));
  }
  return found->second;
}

}  // namespace lucid
