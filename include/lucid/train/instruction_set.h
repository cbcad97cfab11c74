// What a group of networks can be trained with. The weights are the same bits with all of them.
#pragma once

#include <string_view>

#include "lucid/base/result.h"

namespace lucid {

enum class InstructionSet { kAvx512, kAvx2, kPortable };  // the fastest first
std::string_view NameOf(InstructionSet set);              // "avx512", "avx2", "portable"
Result<InstructionSet> InstructionSetNamed(std::string_view name);

}  // namespace lucid
