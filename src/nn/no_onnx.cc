// Stands in for onnx.cc where the part ONNX is left out.
#include "base/left_out.h"
#include "nn/foreign.h"

namespace lucid {

Result<Network> ReadOnnx(std::span<const std::byte>, const NetworkFit&, const std::string&) {
  return LeftOut("the import of ONNX files", "LUCID_ONNX", "ONNX and protobuf");
}

}  // namespace lucid
