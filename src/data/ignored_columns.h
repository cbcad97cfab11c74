// Columns of the tables that a schema.csv leaves out: lines of the kind `ignore`. They are no part
// of a schema, because they have no bearing on what a network sees.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/result.h"

namespace lucid {

inline constexpr std::string_view kIgnoreKind = "ignore";

// Their names. Errors: as Schema::Load.
Result<std::vector<std::string>> IgnoredColumns(const std::string& schema_path);

}  // namespace lucid
