#include "lucid/train/instruction_set.h"

#include <fmt/format.h>

namespace lucid {

std::string_view NameOf(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx2:
      return "avx2";
    default:
      return "portable";
  }
}

Result<InstructionSet> InstructionSetNamed(std::string_view name) {
  using enum InstructionSet;
  for (const InstructionSet set : {kAvx512, kAvx2, kPortable}) {
    if (NameOf(set) == name) return set;
  }
  return InvalidInput(
      fmt::format("instruction set '{}' is not one of: avx512, avx2, portable", name));
}

}  // namespace lucid
