// The shape of a network as data: which layers, which parameters, where each lies.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/result.h"

namespace lucid {

// One hidden layer as the user writes it. ReLU follows every hidden layer.
struct HiddenLayer {
  enum class Kind { kDense, kConv };
  Kind kind = Kind::kDense;
  std::int64_t units = 0;   // dense: neurons; conv: filters
  std::int64_t width = 0;   // conv only: taps per channel
  std::int64_t stride = 1;  // conv only
};

// A layer with every size known. Dense and convolutional layers are one thing here: a filter of
// `taps` weights slides over `positions` places (a dense layer has one place and sees every input).
//   output[o, t] = bias[o] + sum_k weight[o, k] * input[t * stride + TapOffset(k)]
// Units are numbered channel by channel (PyTorch's flatten order): unit (o, t) is o * positions +
// t.
struct Layer {
  HiddenLayer::Kind kind = HiddenLayer::Kind::kDense;
  bool relu = false;
  std::int64_t inputs = 0, outputs = 0;     // units
  std::int64_t filters = 0, positions = 0;  // outputs == filters * positions
  std::int64_t taps = 0;                    // weights per filter
  std::int64_t width = 1, stride = 1;       // taps == channels * width
  std::int64_t input_length = 1;            // inputs == channels * input_length
  std::int64_t weight_at = 0, bias_at = 0;  // offsets into the flat parameter vector

  std::int64_t weights() const { return filters * taps; }
  std::int64_t TapOffset(std::int64_t k) const { return k / width * input_length + k % width; }
};

class Architecture {
 public:
  // `hidden` on `inputs` features, followed by a linear layer to `classes` outputs.
  // Errors: a size out of range, a convolution wider than its input, a convolution after a dense
  // layer.
  static Result<Architecture> Build(std::span<const HiddenLayer> hidden, std::int64_t inputs,
                                    std::int64_t classes);
  // "2x50", "4x30" (layers x neurons), "conv" (the paper's), or the path of a TOML file:
  //   [[layer]]
  //   type = "conv"     # or "dense"
  //   filters = 6
  //   width = 3
  //   stride = 1        # default
  //   [[layer]]
  //   type = "dense"
  //   units = 2
  static Result<Architecture> FromName(const std::string& name, std::int64_t inputs,
                                       std::int64_t classes);
  static Result<std::vector<HiddenLayer>> ParseToml(std::string_view text,
                                                    const std::string& source);

  std::span<const Layer> layers() const { return layers_; }
  std::int64_t inputs() const { return layers_.front().inputs; }
  std::int64_t classes() const { return layers_.back().outputs; }
  std::int64_t parameters() const { return parameters_; }
  std::int64_t widest() const;  // the largest number of units of any layer, inputs included

  // One fixed spelling, e.g. "21 > dense 50 > dense 50 > 2": what digests are of, what files store.
  std::string Canonical() const;
  static Result<Architecture> FromCanonical(std::string_view text);

  bool operator==(const Architecture& other) const { return Canonical() == other.Canonical(); }

 private:
  std::vector<Layer> layers_;
  std::int64_t parameters_ = 0;
};

}  // namespace lucid
