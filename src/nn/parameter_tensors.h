// The named tensors that a network's flat parameter vector consists of, in order.
#pragma once

#include <string>
#include <vector>

#include "lucid/nn/architecture.h"

namespace lucid {

struct ParameterTensor {
  std::string name;                 // "0.weight", "0.bias", ...
  std::vector<std::int64_t> shape;  // [out, in], conv [filters, channels, width], bias [out]
  std::int64_t offset = 0;          // in the flat vector
  std::int64_t count = 0;
};

std::vector<ParameterTensor> ParameterTensors(const Architecture& architecture);

}  // namespace lucid
