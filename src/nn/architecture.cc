#include "lucid/nn/architecture.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <charconv>
#include <optional>

#include "base/files.h"
#include "base/text.h"

namespace lucid {
namespace {

// Far above anything the engine can certify; low enough that no product of sizes can overflow.
constexpr std::int64_t kMaxUnits = 65'536, kMaxLayers = 64, kMaxParameters = 100'000'000;
constexpr std::uint64_t kMaxTomlBytes = 1 << 20;

Status CheckRange(std::string_view what, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return Ok();
  return InvalidInput(
      fmt::format("architecture: {} is {}, must be from {} to {}", what, value, low, high));
}

std::optional<std::int64_t> ParseWhole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

Result<Layer> Resolve(const HiddenLayer& wanted, const Layer& below, std::size_t index) {
  Layer layer;
  layer.kind = wanted.kind;
  layer.relu = true;
  layer.inputs = below.outputs;
  layer.filters = wanted.units;
  LUCID_TRY(CheckRange(fmt::format("the size of layer {}", index + 1), wanted.units, 1, kMaxUnits));
  if (wanted.kind == HiddenLayer::Kind::kDense) {
    layer.taps = layer.inputs;
    layer.positions = 1;
  } else {
    if (index > 0 && below.kind == HiddenLayer::Kind::kDense) {
      return InvalidInput(
          fmt::format("architecture: layer {} is a convolution after a dense layer, which has no "
                      "order to slide "
                      "over; put convolutions first",
                      index + 1));
    }
    const std::int64_t channels = below.filters;
    layer.input_length = below.positions;
    LUCID_TRY(CheckRange(fmt::format("the width of convolution {}", index + 1), wanted.width, 1,
                         layer.input_length));
    LUCID_TRY(CheckRange(fmt::format("the stride of convolution {}", index + 1), wanted.stride, 1,
                         kMaxUnits));
    layer.width = wanted.width;
    layer.stride = wanted.stride;
    layer.taps = channels * wanted.width;
    layer.positions = (layer.input_length - wanted.width) / wanted.stride + 1;
  }
  layer.outputs = layer.filters * layer.positions;
  LUCID_TRY(CheckRange(fmt::format("the number of outputs of layer {}", index + 1), layer.outputs,
                       1, kMaxUnits));
  return layer;
}

}  // namespace

Result<Architecture> Architecture::Build(std::span<const HiddenLayer> hidden, std::int64_t inputs,
                                         std::int64_t classes) {
  LUCID_TRY(CheckRange("the number of inputs", inputs, 1, kMaxUnits));
  LUCID_TRY(CheckRange("the number of classes", classes, 2, kMaxUnits));
  LUCID_TRY(CheckRange("the number of hidden layers", static_cast<std::int64_t>(hidden.size()), 0,
                       kMaxLayers));
  // The input seen as a layer: one channel of `inputs` places.
  Layer below;
  below.kind = HiddenLayer::Kind::kConv;
  below.filters = 1;
  below.positions = below.outputs = inputs;

  Architecture result;
  const auto append = [&](Layer layer) {
    layer.weight_at = result.parameters_;
    layer.bias_at = layer.weight_at + layer.weights();
    result.parameters_ = layer.bias_at + layer.filters;
    result.layers_.push_back(layer);
    below = layer;
  };
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    LUCID_ASSIGN(const Layer layer, Resolve(hidden[i], below, i));
    append(layer);
  }
  LUCID_ASSIGN(Layer last, Resolve({.units = classes}, below, hidden.size()));
  last.relu = false;
  append(last);
  LUCID_TRY(CheckRange("the number of parameters", result.parameters_, 1, kMaxParameters));
  return result;
}

Result<Architecture> Architecture::FromName(const std::string& name, std::int64_t inputs,
                                            std::int64_t classes) {
  if (name == "conv") {
    const HiddenLayer conv{.kind = HiddenLayer::Kind::kConv, .units = 6, .width = 3, .stride = 1};
    return Build(std::vector{conv, conv, HiddenLayer{.units = 2}}, inputs, classes);
  }
  if (name.ends_with(".toml")) {
    LUCID_ASSIGN(const std::string text, ReadTextFile(name, kMaxTomlBytes));
    LUCID_ASSIGN(const auto hidden, ParseToml(text, name));
    return Build(hidden, inputs, classes);
  }
  const std::size_t cross = name.find('x');
  if (cross != std::string::npos) {
    const auto depth = ParseWhole(std::string_view(name).substr(0, cross));
    const auto width = ParseWhole(std::string_view(name).substr(cross + 1));
    if (depth && width) {
      LUCID_TRY(CheckRange("the number of hidden layers", *depth, 0, kMaxLayers));
      return Build(std::vector(static_cast<std::size_t>(*depth), HiddenLayer{.units = *width}),
                   inputs, classes);
    }
  }
  return InvalidInput(fmt::format(
      "unknown architecture {}: use LAYERSxNEURONS (2x50), conv, or the path of a .toml file",
      Quoted(name)));
}

Result<std::vector<HiddenLayer>> Architecture::ParseToml(std::string_view text,
                                                         const std::string& source) {
  const auto fail = [&](std::size_t layer, std::string_view rule) {
    return InvalidInput(fmt::format("{}: layer {}: {}", source, layer + 1, rule));
  };
  toml::table document;
  try {
    document = toml::parse(text, source);
  } catch (const toml::parse_error& e) {
    return InvalidInput(
        fmt::format("{}:{}: {}", source, e.source().begin.line, Escaped(e.description())));
  }
  for (const auto& [key, value] : document) {
    if (key.str() != "layer") {
      return InvalidInput(
          fmt::format("{}: unknown key {} (only [[layer]])", source, Quoted(key.str())));
    }
  }
  const toml::array* layers = document["layer"].as_array();
  if (layers == nullptr) return InvalidInput(fmt::format("{}: no [[layer]]", source));

  std::vector<HiddenLayer> hidden;
  for (std::size_t i = 0; i < layers->size(); ++i) {
    const toml::table* table = (*layers)[i].as_table();
    if (table == nullptr) return fail(i, "is not a table");
    const auto type = (*table)["type"].value_exact<std::string>();
    if (!type || (*type != "dense" && *type != "conv")) {
      return fail(i, "needs type = \"dense\" or type = \"conv\"");
    }
    const bool conv = *type == "conv";
    HiddenLayer layer;
    layer.kind = conv ? HiddenLayer::Kind::kConv : HiddenLayer::Kind::kDense;
    for (const auto& [key, value] : *table) {
      if (key.str() == "type") continue;
      const auto number = value.value_exact<std::int64_t>();
      std::int64_t* field = nullptr;
      if (key.str() == (conv ? "filters" : "units")) field = &layer.units;
      if (conv && key.str() == "width") field = &layer.width;
      if (conv && key.str() == "stride") field = &layer.stride;
      if (field == nullptr) {
        return fail(i, fmt::format("unknown key {} in a {} layer", Quoted(key.str()), *type));
      }
      if (!number) return fail(i, fmt::format("'{}' must be a whole number", key.str()));
      *field = *number;
    }
    if (layer.units == 0) return fail(i, conv ? "needs 'filters'" : "needs 'units'");
    if (conv && layer.width == 0) return fail(i, "needs 'width'");
    hidden.push_back(layer);
  }
  return hidden;
}

std::int64_t Architecture::widest() const {
  std::int64_t widest = inputs();
  for (const Layer& layer : layers_) widest = std::max(widest, layer.outputs);
  return widest;
}

std::string Architecture::Canonical() const {
  std::string text = fmt::format("{}", inputs());
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    text += layer.kind == HiddenLayer::Kind::kDense
                ? fmt::format(" > dense {}", layer.filters)
                : fmt::format(" > conv {} width {} stride {}", layer.filters, layer.width,
                              layer.stride);
  }
  return text + fmt::format(" > {}", classes());
}

Result<Architecture> Architecture::FromCanonical(std::string_view text) {
  const auto bad = [&] {
    return InvalidInput(
        fmt::format("{} is not an architecture (like '21 > dense 50 > 2')", Quoted(text)));
  };
  std::vector<std::vector<std::string_view>> parts(1);
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, space);
    rest.remove_prefix(std::min(space + 1, rest.size()));
    if (word == ">") {
      parts.emplace_back();
    } else {
      parts.back().push_back(word);
    }
    if (parts.size() > kMaxLayers + 2) return bad();
  }
  if (parts.size() < 2 || parts.front().size() != 1 || parts.back().size() != 1) return bad();
  const auto inputs = ParseWhole(parts.front()[0]), classes = ParseWhole(parts.back()[0]);
  if (!inputs || !classes) return bad();
  std::vector<HiddenLayer> hidden;
  for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
    const auto& words = parts[i];
    HiddenLayer layer;
    std::optional<std::int64_t> units, width, stride;
    if (words.size() == 2 && words[0] == "dense") {
      units = ParseWhole(words[1]);
      width = stride = 1;
    } else if (words.size() == 6 && words[0] == "conv" && words[2] == "width" &&
               words[4] == "stride") {
      layer.kind = HiddenLayer::Kind::kConv;
      units = ParseWhole(words[1]);
      width = ParseWhole(words[3]);
      stride = ParseWhole(words[5]);
    }
    if (!units || !width || !stride) return bad();
    layer.units = *units;
    layer.width = *width;
    layer.stride = *stride;
    hidden.push_back(layer);
  }
  LUCID_ASSIGN(Architecture result, Build(hidden, *inputs, *classes));
  if (result.Canonical() != text) return bad();
  return result;
}

}  // namespace lucid
