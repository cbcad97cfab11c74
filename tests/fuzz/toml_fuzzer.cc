// Any bytes as an architecture file and as an architecture's canonical text. What is accepted has
// layers that fit each other, and a canonical text that gives it back; what is refused gets one
// printable line.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "lucid/nn/architecture.h"

namespace {

using lucid::Architecture;
using lucid::Layer;

void CheckLayers(const Architecture& net) {
  Require(net.parameters() > 0 && net.parameters() <= 100'000'000);
  std::int64_t at = 0, inputs = net.inputs();
  for (const Layer& layer : net.layers()) {
    Require(layer.inputs == inputs && layer.inputs > 0 && layer.outputs > 0);
    Require(layer.outputs == layer.filters * layer.positions);
    Require(layer.weight_at == at && layer.bias_at == at + layer.filters * layer.taps);
    at = layer.bias_at + layer.filters;
    // The last place of the filter still lies on the input.
    Require(layer.taps > 0 && layer.stride > 0 && layer.width > 0);
    const std::int64_t last =
        (layer.positions - 1) * layer.stride + layer.TapOffset(layer.taps - 1);
    Require(last >= 0 && last < layer.inputs);
    Require(layer.relu == (&layer != &net.layers().back()));
    Require(layer.outputs <= net.widest() && layer.inputs <= net.widest());
    inputs = layer.outputs;
  }
  Require(at == net.parameters() && inputs == net.classes());
}

void CheckArchitecture(const lucid::Result<Architecture>& net) {
  if (!net.ok()) return RequireOneLine(net.error().message);
  CheckLayers(*net);
  const std::string canonical = net->Canonical();
  const auto again = Architecture::FromCanonical(canonical);
  Require(again.ok() && again->Canonical() == canonical && *again == *net);
  Require(again->parameters() == net->parameters());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto canonical = Architecture::FromCanonical(text);
  CheckArchitecture(canonical);
  if (canonical.ok()) Require(canonical->Canonical() == text);

  const auto hidden = Architecture::ParseToml(text, "f.toml");
  if (!hidden.ok()) {
    RequireOneLine(hidden.error().message);
    return 0;
  }
  for (const std::int64_t inputs : {1, 21, 300, 65'536, 0}) {
    for (const std::int64_t classes : {2, 5, 65'536, 1}) {
      CheckArchitecture(Architecture::Build(*hidden, inputs, classes));
    }
  }
  return 0;
}
