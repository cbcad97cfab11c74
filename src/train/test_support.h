// Data for the tests of this folder and of those that train on top of it.
#pragma once

#include <cstdint>

#include "lucid/data/dataset.h"
#include "random/stream.h"

namespace lucid {

inline Table RandomTable(std::int64_t rows, std::int64_t features, std::int64_t classes,
                         std::uint64_t seed) {
  Stream stream(seed, "test table");
  Table table;
  table.features = features;
  for (std::int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (std::int64_t k = 0; k < features; ++k) {
      // A third of the inputs are exactly zero, as in real data.
      const float v = stream.Below(3) == 0 ? 0.0f : static_cast<float>(stream.Uniform());
      table.x.push_back(v);
      sum += v;
    }
    table.y.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(sum * 3) % classes));
  }
  return table;
}

}  // namespace lucid
