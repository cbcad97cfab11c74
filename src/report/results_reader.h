// Reads back what `lucid evaluate` and `lucid audit` wrote.
#pragma once

#include <string>
#include <string_view>

#include "lucid/audit/audit.h"
#include "lucid/baselines/evaluation.h"

namespace lucid {

// Errors name the source and the field. What Json functions leave out is NaN or 0 here.
Result<Evaluation> ParseEvaluation(std::string_view text, const std::string& source);
Result<Audit> ParseAudit(std::string_view text, const std::string& source);

}  // namespace lucid
