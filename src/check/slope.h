// Values and gradients of a network's margin, in plain double arithmetic: for searching, not for
// proving. Written apart from nn's Evaluator and from the engines, which lucid-check checks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lucid/nn/network.h"

namespace lucid {

// The taps of a filter as runs of neighbouring inputs: a dense layer has one run, a convolution one
// for each channel. (TapOffset divides; the loops here are too hot for that.)
struct TapRuns {
  explicit TapRuns(const Layer& layer)
      : length(layer.kind == HiddenLayer::Kind::kDense ? layer.taps : layer.width),
        count(layer.taps / length),
        step(layer.input_length) {}
  std::int64_t length, count, step;
};

// The margin of a class at an input: its logit minus the largest other one.
struct Slope {
  double value = 0;
  std::vector<double> gradient;  // of the active piece
};

// One network with room for its activations. Not thread-safe; cheap to point at other parameters.
class SlopeNetwork {
 public:
  // Keeps a reference to the architecture.
  explicit SlopeNetwork(const Architecture& architecture);

  // Room for a network's parameters.
  std::span<float> parameters() { return parameters_; }

  // Requires: x.size() == inputs.
  std::span<const double> Logits(std::span<const float> x);
  double Margin(std::span<const float> x, std::int32_t label);
  void MarginAndGradient(std::span<const float> x, std::int32_t label, Slope& out);

 private:
  std::int32_t Rival(std::int32_t label) const;  // the largest other logit

  const Architecture& architecture_;
  std::vector<float> parameters_;
  std::vector<std::vector<double>> values_;  // [0]: the input; [l + 1]: after layer l
  std::vector<std::vector<double>> slopes_;  // of the margin, same sizes
};

}  // namespace lucid
