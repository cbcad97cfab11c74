#include "lucid/nn/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/files.h"
#include "base/hasher.h"
#include "base/text.h"
#include "nn/parameter_tensors.h"
#include "nn/safetensors.h"

namespace lucid {
namespace {

constexpr std::string_view kFormat = "lucid-network-1";

}  // namespace

std::vector<ParameterTensor> ParameterTensors(const Architecture& architecture) {
  std::vector<ParameterTensor> tensors;
  const auto layers = architecture.layers();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    std::vector<std::int64_t> shape = {layer.filters, layer.taps};
    if (layer.kind == HiddenLayer::Kind::kConv) {
      shape = {layer.filters, layer.taps / layer.width, layer.width};
    }
    tensors.push_back({fmt::format("{}.weight", i), shape, layer.weight_at, layer.weights()});
    tensors.push_back({fmt::format("{}.bias", i), {layer.filters}, layer.bias_at, layer.filters});
  }
  return tensors;
}

Digest Network::digest() const {
  return Hasher()
      .Text(kFormat)
      .Text(architecture.Canonical())
      .Bytes(std::as_bytes(std::span(parameters)))
      .Finish();
}

Status SaveNetwork(const Network& network, const std::string& path) {
  std::vector<Tensor> tensors;
  for (const ParameterTensor& p : ParameterTensors(network.architecture)) {
    tensors.push_back({.name = p.name, .shape = p.shape});
  }
  const SafetensorsHeader header = SafetensorsHeader::Build(
      std::move(tensors),
      {{"format", std::string(kFormat)}, {"architecture", network.architecture.Canonical()}});
  // Parameters lie in the file in the order of the flat vector.
  std::string bytes = header.Encode();
  bytes.append(reinterpret_cast<const char*>(network.parameters.data()),
               network.parameters.size() * sizeof(float));
  return WriteFileAtomically(path, bytes, 0600);  // it is made of people's rows
}

Result<Network> LoadNetwork(const std::string& path) {
  LUCID_ASSIGN(const MappedFile file, MappedFile::Open(path));
  LUCID_ASSIGN(const SafetensorsHeader header,
               SafetensorsHeader::Parse(file.bytes(), file.bytes().size(), path));
  LUCID_ASSIGN(const std::string format, header.Metadata("format"));
  if (format != kFormat) {
    return InvalidInput(fmt::format("{}: format {} is not {}", path, Quoted(format), kFormat));
  }
  LUCID_ASSIGN(const std::string canonical, header.Metadata("architecture"));
  LUCID_ASSIGN(Architecture architecture, Architecture::FromCanonical(canonical));
  Network network{std::move(architecture), {}};
  const auto parameters = ParameterTensors(network.architecture);
  if (header.tensors().size() != parameters.size()) {
    return InvalidInput(fmt::format("{}: has {} tensors, its architecture needs {}", path,
                                    header.tensors().size(), parameters.size()));
  }
  // All of them first: a small file that claims a large architecture gets no memory for it.
  std::vector<const Tensor*> tensors;
  for (const ParameterTensor& p : parameters) {
    LUCID_ASSIGN(const Tensor* tensor, header.Find(p.name, TensorType::kF32, p.shape));
    tensors.push_back(tensor);
  }
  network.parameters.resize(static_cast<std::size_t>(network.architecture.parameters()));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::memcpy(network.parameters.data() + parameters[i].offset,
                file.bytes().data() + tensors[i]->begin, tensors[i]->bytes());
  }
  if (!std::ranges::all_of(network.parameters, [](float v) { return std::isfinite(v); })) {
    return InvalidInput(fmt::format("{}: holds a parameter that is not finite", path));
  }
  return network;
}

}  // namespace lucid
