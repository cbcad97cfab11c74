#include "nn/foreign.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>

#include "base/files.h"
#include "base/text.h"

namespace lucid {
namespace {

constexpr std::size_t kMaxWords = 6;  // 720 orders

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "fc2" < "fc10": runs of digits compare as numbers.
bool NaturallyLess(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (IsDigit(a.front()) && IsDigit(b.front())) {
      const auto number = [](std::string_view& text) {
        const auto end = std::find_if_not(text.begin(), text.end(), IsDigit);
        std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
        text.remove_prefix(digits.size());
        digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
        return digits;
      };
      const std::string_view left = number(a), right = number(b);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.size() < b.size();
}

// The name without its numbers: layers of one word are ordered by their numbers.
std::string WordOf(std::string_view name) {
  std::string word;
  for (const char c : name) {
    if (!IsDigit(c)) {
      word += c;
    } else if (word.empty() || word.back() != '#') {
      word += '#';
    }
  }
  return word;
}

struct TensorLayer {
  ForeignLayer layer;
  const Tensor* weight = nullptr;
  const Tensor* bias = nullptr;  // nullptr: zero
};

// Pairs weights with biases. Natural order of names.
Result<std::vector<TensorLayer>> CollectLayers(const SafetensorsHeader& header,
                                               std::int64_t networks, const std::string& source) {
  const auto refuse = [&](const Tensor& tensor, std::string_view rule) {
    return InvalidInput(fmt::format("{}: tensor {}: {}", source, Quoted(tensor.name), rule));
  };
  const std::size_t first = networks > 0 ? 1 : 0;
  std::vector<TensorLayer> layers;
  std::map<std::string, const Tensor*> biases;
  for (const Tensor& tensor : header.tensors()) {
    if (networks > 0 && (tensor.name == "rows" || tensor.name == "digests")) continue;
    const bool weight = tensor.name.ends_with(".weight");
    if (!weight && !tensor.name.ends_with(".bias")) {
      return refuse(tensor, "is neither a .weight nor a .bias of a dense layer or a convolution");
    }
    if (tensor.type != TensorType::kF32) return refuse(tensor, "is not F32");
    if (networks > 0 && (tensor.shape.empty() || tensor.shape[0] != networks)) {
      return refuse(tensor, fmt::format("its first axis is not the {} networks", networks));
    }
    const std::string name = tensor.name.substr(0, tensor.name.rfind('.'));
    const std::span<const std::int64_t> shape = std::span(tensor.shape).subspan(first);
    if (!weight) {
      if (shape.size() != 1) return refuse(tensor, "a bias has one axis");
      biases[name] = &tensor;
      continue;
    }
    if (shape.size() != 2 && shape.size() != 3) {
      return refuse(tensor, fmt::format("has {} axes; [out, in] or [filters, channels, width] is "
                                        "needed (other layers are not supported)",
                                        shape.size()));
    }
    ForeignLayer layer{.name = name, .units = shape[0], .inputs = shape[1]};
    if (shape.size() == 3) {
      layer.kind = HiddenLayer::Kind::kConv;
      layer.width = shape[2];
    }
    layers.push_back({layer, &tensor, nullptr});
  }
  for (TensorLayer& layer : layers) {
    const auto bias = biases.find(layer.layer.name);
    if (bias == biases.end()) continue;
    if (bias->second->shape[first] != layer.layer.units) {
      return refuse(*bias->second, fmt::format("has {} values where its weight has {} outputs",
                                               bias->second->shape[first], layer.layer.units));
    }
    layer.bias = bias->second;
    biases.erase(bias);
  }
  if (!biases.empty()) return refuse(*biases.begin()->second, "has no weight beside it");
  if (layers.empty()) return InvalidInput(fmt::format("{}: holds no layer", source));
  std::ranges::sort(layers, [](const TensorLayer& a, const TensorLayer& b) {
    return NaturallyLess(a.layer.name, b.layer.name);
  });
  return layers;
}

Result<Architecture> ChainTensorLayers(const std::vector<TensorLayer>& layers,
                                       const NetworkFit& fit, const std::string& source) {
  std::vector<ForeignLayer> chain;
  chain.reserve(layers.size());
  for (const TensorLayer& layer : layers) chain.push_back(layer.layer);
  return ChainLayers(chain, fit, source);
}

// Puts layers whose names have different words into the one order of words that fits.
Result<Architecture> Arrange(std::vector<TensorLayer>& layers, const NetworkFit& fit,
                             const std::string& source) {
  std::vector<std::vector<TensorLayer>> groups;
  std::vector<std::string> words;
  for (const TensorLayer& layer : layers) {
    const std::string word = WordOf(layer.layer.name);
    const auto found = std::ranges::find(words, word);
    if (found == words.end()) {
      words.push_back(word);
      groups.push_back({layer});
    } else {
      groups[static_cast<std::size_t>(found - words.begin())].push_back(layer);
    }
  }
  if (groups.size() == 1) return ChainTensorLayers(layers, fit, source);
  if (groups.size() > kMaxWords) {
    return InvalidInput(
        fmt::format("{}: the names of its layers do not tell their order; call them "
                    "0.weight, 1.weight, ...",
                    source));
  }
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::optional<Architecture> found;
  std::vector<TensorLayer> best;
  do {
    std::vector<TensorLayer> candidate;
    for (const std::size_t g : order) {
      candidate.insert(candidate.end(), groups[g].begin(), groups[g].end());
    }
    Result<Architecture> architecture = ChainTensorLayers(candidate, fit, source);
    if (!architecture.ok()) continue;
    if (found) {
      return InvalidInput(
          fmt::format("{}: its layers ({}) fit in more than one order; call them "
                      "0.weight, 1.weight, ...",
                      source, fmt::join(words, ", ")));
    }
    found = std::move(*architecture);
    best = std::move(candidate);
  } while (std::ranges::next_permutation(order).found);
  if (!found) return ChainTensorLayers(layers, fit, source);  // for its message
  layers = std::move(best);
  return *found;
}

Result<Network> ImportSafetensors(const std::string& path, const NetworkFit& fit) {
  LUCID_ASSIGN(const MappedFile file, MappedFile::Open(path));
  LUCID_ASSIGN(const SafetensorsHeader header,
               SafetensorsHeader::Parse(file.bytes(), file.bytes().size(), path));
  LUCID_ASSIGN(const ForeignTensors tensors, ForeignTensors::Find(header, 0, fit, path));
  Network network{tensors.architecture(), {}};
  network.parameters.resize(static_cast<std::size_t>(network.architecture.parameters()));
  tensors.Copy(file.bytes(), 0, network.parameters);
  LUCID_TRY(CheckFinite(network.parameters, path));
  return network;
}

}  // namespace

Result<Architecture> ChainLayers(std::span<const ForeignLayer> layers, const NetworkFit& fit,
                                 const std::string& source) {
  const auto refuse = [&](const std::string& problem) {
    return InvalidInput(fmt::format("{}: {}", source, problem));
  };
  if (layers.empty()) return refuse("holds no layer");
  const ForeignLayer& last = layers.back();
  if (last.kind == HiddenLayer::Kind::kConv) {
    return refuse(
        fmt::format("the last layer {} is a convolution; a dense one to the classes has "
                    "to follow",
                    Quoted(last.name)));
  }
  if (last.units != fit.classes) {
    return refuse(fmt::format("the last layer {} has {} outputs where the data has {} classes",
                              Quoted(last.name), last.units, fit.classes));
  }
  const bool known = fit.architecture && fit.architecture->layers().size() == layers.size();
  std::vector<HiddenLayer> hidden;
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    const ForeignLayer& layer = layers[i];
    const std::int64_t stride = known ? fit.architecture->layers()[i].stride : 1;
    hidden.push_back({.kind = layer.kind,
                      .units = layer.units,
                      .width = layer.width,
                      .stride = layer.stride > 0 ? layer.stride : stride});
  }
  Result<Architecture> architecture = Architecture::Build(hidden, fit.inputs, fit.classes);
  if (!architecture.ok()) return refuse(architecture.error().message);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = architecture->layers()[i];
    const bool conv = layer.kind == HiddenLayer::Kind::kConv;
    const std::int64_t given = conv ? layer.taps / layer.width : layer.taps;
    if (layers[i].inputs == given) continue;
    return refuse(fmt::format("layer {} takes {} {} where {} {}", Quoted(layers[i].name),
                              layers[i].inputs, conv ? "channels" : "inputs",
                              i == 0 ? "the data has" : Quoted(layers[i - 1].name) + " gives",
                              given));
  }
  if (fit.architecture && !(*architecture == *fit.architecture)) {
    return refuse(fmt::format("its architecture is '{}', must be '{}'", architecture->Canonical(),
                              fit.architecture->Canonical()));
  }
  return architecture;
}

Status CheckFinite(std::span<const float> parameters, const std::string& source) {
  if (std::ranges::all_of(parameters, [](float v) { return std::isfinite(v); })) return Ok();
  return InvalidInput(fmt::format("{}: holds a parameter that is not finite", source));
}

Result<ForeignTensors> ForeignTensors::Find(const SafetensorsHeader& header, std::int64_t networks,
                                            const NetworkFit& fit, const std::string& source) {
  LUCID_ASSIGN(std::vector<TensorLayer> layers, CollectLayers(header, networks, source));
  NetworkFit complete = fit;
  const auto format = header.metadata().find("format");
  const bool ours = format != header.metadata().end() && format->second.starts_with("lucid-");
  if (!fit.architecture && ours) {
    LUCID_ASSIGN(const std::string canonical, header.Metadata("architecture"));
    LUCID_ASSIGN(complete.architecture, Architecture::FromCanonical(canonical));
  }
  ForeignTensors tensors;
  LUCID_ASSIGN(tensors.architecture_, Arrange(layers, complete, source));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = tensors.architecture_.layers()[i];
    const Tensor* bias = layers[i].bias;
    tensors.parts_.push_back({layers[i].weight->begin, layer.weight_at, layer.weights(), false});
    tensors.parts_.push_back(
        {bias == nullptr ? 0 : bias->begin, layer.bias_at, layer.filters, bias == nullptr});
  }
  return tensors;
}

void ForeignTensors::Copy(std::span<const std::byte> file, std::int64_t network,
                          std::span<float> out) const {
  for (const Part& part : parts_) {
    const auto bytes = static_cast<std::size_t>(part.count) * sizeof(float);
    float* to = out.data() + part.offset;
    if (part.zero) {
      std::fill(to, to + part.count, 0.0F);
    } else {
      std::memcpy(to, file.data() + part.begin + static_cast<std::size_t>(network) * bytes, bytes);
    }
  }
}

Result<Network> ImportNetwork(const std::string& path, const NetworkFit& fit) {
  if (path.ends_with(".safetensors")) return ImportSafetensors(path, fit);
  if (path.ends_with(".onnx")) {
    LUCID_ASSIGN(const MappedFile file, MappedFile::Open(path));
    return ReadOnnx(file.bytes(), fit, path);
  }
  return InvalidInput(
      fmt::format("'{}': networks are read from .safetensors and .onnx files", path));
}

}  // namespace lucid
