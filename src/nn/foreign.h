// From the layers that a file of another program holds to a network of ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lucid/nn/import.h"
#include "nn/safetensors.h"

namespace lucid {

// A layer as a file describes it.
struct ForeignLayer {
  std::string name;  // in messages
  HiddenLayer::Kind kind = HiddenLayer::Kind::kDense;
  std::int64_t units = 0;   // outputs, or filters
  std::int64_t inputs = 0;  // inputs, or channels
  std::int64_t width = 0;   // of a convolution
  std::int64_t stride = 0;  // of a convolution; 0: the file does not say
};

// Ensures: the architecture that `layers` make one after another, and that it fits.
Result<Architecture> ChainLayers(std::span<const ForeignLayer> layers, const NetworkFit& fit,
                                 const std::string& source);

Status CheckFinite(std::span<const float> parameters, const std::string& source);

// Where the parameters of one network, or of many stacked along a first axis, lie in a safetensors
// file with the names described at ImportNetwork.
class ForeignTensors {
 public:
  // `networks`: the length of the first axis, 0 if there is none. With it, tensors called "rows"
  // and "digests" are not parameters. The header's tensors are copied.
  static Result<ForeignTensors> Find(const SafetensorsHeader& header, std::int64_t networks,
                                     const NetworkFit& fit, const std::string& source);

  const Architecture& architecture() const { return architecture_; }
  // Requires: `file` is the whole file, network < max(networks, 1), out.size() == parameters.
  void Copy(std::span<const std::byte> file, std::int64_t network, std::span<float> out) const;

 private:
  // One tensor of every network: where the first lies in the file, where it goes. A bias that the
  // file does not have is zero.
  struct Part {
    std::uint64_t begin = 0;
    std::int64_t offset = 0, count = 0;
    bool zero = false;
  };
  Architecture architecture_;
  std::vector<Part> parts_;
};

// Reads an ONNX model from memory. `source` names it in messages.
Result<Network> ReadOnnx(std::span<const std::byte> bytes, const NetworkFit& fit,
                         const std::string& source);

}  // namespace lucid
