// Any bytes as spatial bounds, also with the seal put right. What is accepted is a partition: every
// input has a bound, and the file is the only one of it; what is refused gets one printable line.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/require.h"
#include "lucid/certificate/spatial.h"

namespace {

void CheckBounds(std::string_view bytes) {
  const auto bounds = lucid::SpatialBounds::Parse(bytes, "spatial.lucid");
  if (!bounds.ok()) return RequireOneLine(bounds.error().message);
  std::vector<lucid::SpatialBounds::Tree> trees;
  for (std::int32_t c = 0; c < bounds->classes(); ++c) {
    trees.push_back(bounds->tree(c));
    Require(2 * bounds->leaves(c) == static_cast<std::int64_t>(trees.back().size()) + 1);
    if (bounds->features() > 64) continue;
    for (const float value : {0.0F, 0.3F, 1.0F}) {
      const std::vector<float> x(static_cast<std::size_t>(bounds->features()), value);
      Require(bounds->Bound(c, x) >= 0);
    }
  }
  Require(lucid::SpatialBounds::Encode(bounds->features(), trees) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckBounds(bytes);
  if (size < 32) return 0;
  std::string sealed(bytes.substr(0, size - 32));
  const lucid::Digest seal = lucid::Sha256Of(sealed);
  CheckBounds(sealed.append(reinterpret_cast<const char*>(seal.bytes.data()), seal.bytes.size()));
  return 0;
}
