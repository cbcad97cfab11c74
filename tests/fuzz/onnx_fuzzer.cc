// Any bytes as an ONNX model. What is accepted has the shape that was asked for and finite
// parameters, and can be evaluated; what is refused gets one printable line.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fuzz/require.h"
#include "nn/foreign.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  for (const std::int64_t inputs : {3, 7}) {
    const auto network = lucid::ReadOnnx(bytes, {inputs, 2, {}}, "model.onnx");
    if (!network.ok()) {
      RequireOneLine(network.error().message);
      continue;
    }
    const lucid::Architecture& architecture = network->architecture;
    Require(architecture.inputs() == inputs && architecture.classes() == 2);
    Require(static_cast<std::int64_t>(network->parameters.size()) == architecture.parameters());
    Require(std::ranges::all_of(network->parameters, [](float v) { return std::isfinite(v); }));
    std::vector<float> x(static_cast<std::size_t>(inputs), 0.5F);
    std::vector<double> logits(2);
    lucid::Evaluator(*network).Logits(x, logits);
  }
  return 0;
}
