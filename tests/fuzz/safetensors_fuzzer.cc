// Any bytes as a safetensors file, as a header before data of any size, and as a network. The
// tensors of what is accepted fill the file without holes; what is refused gets one printable line.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "lucid/nn/network.h"
#include "nn/safetensors.h"

namespace {

using lucid::SafetensorsHeader;
using lucid::Tensor;

std::uint64_t BytesPerValue(lucid::TensorType type) {
  return type == lucid::TensorType::kF32 ? 4 : type == lucid::TensorType::kI64 ? 8 : 1;
}

void CheckTensors(const SafetensorsHeader& header, std::uint64_t data_at, std::uint64_t file_size) {
  std::set<std::string> names;
  std::uint64_t at = data_at;
  for (const Tensor& tensor : header.tensors()) {
    Require(names.insert(tensor.name).second);
    Require(tensor.begin == at && tensor.end > tensor.begin && tensor.end <= file_size);
    std::uint64_t bytes = BytesPerValue(tensor.type);
    for (const std::int64_t size : tensor.shape) {
      Require(size > 0 && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes));
    }
    Require(bytes == tensor.bytes());
    at = tensor.end;
    const auto found = header.Find(tensor.name, tensor.type, tensor.shape);
    Require(found.ok() && *found == &tensor);
  }
  Require(at == file_size);
}

// What was read can be written, and reads back the same.
void CheckRoundTrip(const SafetensorsHeader& header) {
  const auto built = SafetensorsHeader::Build(header.tensors(), header.metadata());
  const std::string encoded = built.Encode();
  Require(encoded.size() % 64 == 0);
  const auto again =
      SafetensorsHeader::Parse(std::as_bytes(std::span(encoded)), built.file_size(), "again");
  Require(again.ok() && again->metadata() == header.metadata());
  Require(again->tensors().size() == header.tensors().size());
  for (std::size_t i = 0; i < header.tensors().size(); ++i) {
    const Tensor &was = header.tensors()[i], &is = again->tensors()[i];
    Require(is.name == was.name && is.type == was.type && is.shape == was.shape);
    Require(is.bytes() == was.bytes());
  }
  Require(again->Encode() == encoded);
}

void CheckHeader(std::string_view start, std::uint64_t file_size) {
  const auto header =
      SafetensorsHeader::Parse(std::as_bytes(std::span(start)), file_size, "f.safetensors");
  if (!header.ok()) return RequireOneLine(header.error().message);
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(start[i]);
  CheckTensors(*header, 8 + length, file_size);
  CheckRoundTrip(*header);
}

void CheckNetwork(std::string_view bytes) {
  static const int fd = ::memfd_create("network", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  Require(::ftruncate(fd, 0) == 0);
  Require(::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  const auto network = lucid::LoadNetwork(path);
  if (!network.ok()) return RequireOneLine(network.error().message);
  const auto parameters = static_cast<std::int64_t>(network->parameters.size());
  Require(parameters == network->architecture.parameters());
  for (const float v : network->parameters) Require(std::isfinite(v));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckHeader(bytes, size);
  CheckNetwork(bytes);
  // The same bytes as the text of a header, so that its length is always right. The data behind it
  // has as many bytes as the first two say.
  if (size < 2) return 0;
  const std::string_view text = bytes.substr(2);
  std::string start(8, '\0');
  for (int i = 0; i < 8; ++i) start[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  start += text;
  CheckHeader(start, start.size() + data[0] + 256u * data[1]);
  return 0;
}
