// Cells in messages and numbers in cells.
#pragma once

#include <string>
#include <string_view>

#include "lucid/base/result.h"

namespace lucid {

// 'value' as a message shows it: in quotes, control characters and broken UTF-8 as \xNN, cut after
// 40 characters. A message stays one line and cannot drive a terminal, whatever the file held.
std::string Quoted(std::string_view value);

// The same without quotes and whole: for messages of others.
std::string Escaped(std::string_view text);

bool IsUtf8(std::string_view text);

// Whether two texts are equal but for the case of ASCII letters.
bool EqualInAnyCase(std::string_view a, std::string_view b);

// Ensures: the whole text is one finite decimal number. No locale, no blanks, no leading '+'.
Result<double> ParseNumber(std::string_view text);

}  // namespace lucid
