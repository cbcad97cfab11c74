// The confidence of one class and its gradient with respect to the input.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lucid/nn/network.h"

namespace lucid {

// Double arithmetic, one fixed order of sums, zeros of ReLUs skipped. Where the confidence has a
// kink (a ReLU at 0, two other classes equal) the gradient is that of one adjoining piece. Holds
// the state of the last evaluation: one object per thread.
class NetworkGradient {
 public:
  NetworkGradient() = default;  // Assign before use
  // Requires: parameters.size() == architecture.parameters(), 0 <= label < classes.
  NetworkGradient(const Architecture& architecture, std::span<const float> parameters,
                  std::int32_t label) {
    Assign(architecture, parameters, label);
  }

  // Becomes the gradient of another network; keeps its memory.
  void Assign(const Architecture& architecture, std::span<const float> parameters,
              std::int32_t label);

  // output[label] - max of the other outputs at x. Requires: x.size() == inputs.
  double Evaluate(std::span<const double> x);
  // At the x of the last Evaluate. Requires: out.size() == inputs.
  void Gradient(std::span<double> out);

 private:
  struct WideLayer {
    Layer shape;
    bool contiguous = false;            // TapOffset(k) == k
    std::vector<double> by_tap;         // weights [tap][filter]
    std::vector<double> by_filter;      // weights [filter][tap]
    std::vector<double> biases;         // [filter]
    std::vector<std::int64_t> offsets;  // TapOffset(k)
    std::vector<double> values;         // outputs of the last evaluation
    std::vector<double> slopes;         // d confidence / d pre-activation
  };
  static void Forward(WideLayer& layer, std::span<const double> in, std::vector<double>& sums);
  static void Backward(const WideLayer& layer, std::span<double> below);

  std::int32_t label_ = 0, other_ = 0;  // other_: the largest other class
  std::vector<WideLayer> layers_;
  std::vector<double> sums_;
};

}  // namespace lucid
