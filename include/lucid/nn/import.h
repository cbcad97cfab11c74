// Networks trained elsewhere, as safetensors (a PyTorch state dict) or ONNX files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lucid/base/result.h"
#include "lucid/nn/network.h"

namespace lucid {

// What an imported network has to be.
struct NetworkFit {
  std::int64_t inputs = 0;   // features of the data
  std::int64_t classes = 0;  // of the data
  // If given, exactly this architecture; otherwise it follows from the file.
  std::optional<Architecture> architecture;
};

// Reads one network by the ending of its name.
//   .safetensors  NAME.weight and NAME.bias per layer, F32: [out, in], or [filters, channels,
//   width]
//                 for a convolution without padding, whose stride is 1 unless fit.architecture (or
//                 the metadata of a file that LUCID wrote) says otherwise. Layers follow one
//                 another in the natural order of their names (fc2 before fc10); names of different
//                 words (conv1, conv2, fc1) go in the one order that fits the shapes. A layer
//                 without a bias has a zero bias. The file cannot say so: ReLU stands after every
//                 layer but the last.
//   .onnx         a chain of Gemm, MatMul + Add, 1-D Conv, BatchNormalization (folded into the
//                 layer before), Relu, Flatten, Reshape, Unsqueeze, Squeeze, Dropout and Identity
//                 from the input to the logits; a final Softmax or LogSoftmax is dropped.
// Ensures: the parameters are those of the file, bit for bit (but for what is folded), and finite.
// Errors name the file, the tensor or node, and the rule.
Result<Network> ImportNetwork(const std::string& path, const NetworkFit& fit);

}  // namespace lucid
