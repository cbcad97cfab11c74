// Any bytes as an index.safetensors, also with the seal put right, which no mutation would hit.
// What is accepted is sorted, a permutation, and the only file of it; what is refused gets one
// printable line.
#include <cstdint>
#include <string>
#include <string_view>

#include "certificate/member_table.h"
#include "fuzz/require.h"

namespace {

void CheckTable(std::string_view bytes) {
  const auto table = lucid::ParseMemberTable(bytes, "index.safetensors");
  if (!table.ok()) return RequireOneLine(table.error().message);
  Require(table->classes.size() >= 2);
  const std::size_t members = table->classes.front().order.size();
  Require(members >= 1);
  for (const lucid::RankedMembers& ranked : table->classes) {
    Require(ranked.order.size() == members && ranked.upper.size() == members);
    std::vector<bool> seen(members);
    for (std::size_t k = 0; k < members; ++k) {
      Require(ranked.order[k] >= 0 && static_cast<std::size_t>(ranked.order[k]) < members);
      Require(!seen[ranked.order[k]]);
      seen[ranked.order[k]] = true;
      Require(ranked.upper[k] >= 0 && (k == 0 || ranked.upper[k - 1] >= ranked.upper[k]));
    }
  }
  Require(lucid::EncodeMemberTable(*table) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CheckTable(bytes);
  if (size < 32) return 0;
  std::string sealed(bytes.substr(0, size - 32));
  const lucid::Digest seal = lucid::Sha256Of(sealed);
  CheckTable(sealed.append(reinterpret_cast<const char*>(seal.bytes.data()), seal.bytes.size()));
  return 0;
}
