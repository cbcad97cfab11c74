// The last field of a JSON document, "seal": the SHA-256 of the document without it, so that a
// changed byte anywhere is noticed.
#pragma once

#include <string>
#include <string_view>

#include "lucid/base/result.h"

namespace lucid {

// The document with one more field. Requires: it ends with "\n}\n".
std::string WithSeal(std::string document);
// Errors: a text whose seal is not that of its content. `kind` is what it should have been.
Status CheckSeal(std::string_view text, const std::string& source, std::string_view kind);

}  // namespace lucid
