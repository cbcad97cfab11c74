// Text that is safe inside HTML and SVG.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lucid {

// Ensures: `text` as character data or as the value of a quoted attribute: the five special
// characters are entities, and what XML does not allow (control characters, bytes that are not
// UTF-8) is U+FFFD.
std::string EscapedMarkup(std::string_view text);

// At most `characters` code points, the last one an ellipsis if some were left out; not escaped.
std::string Shortened(std::string_view text, std::size_t characters);

// 12345678 as "12,345,678".
std::string Grouped(std::int64_t value);

// `part` of `whole` in percent: "12.3 %", "1.23 %", "0.042 %"; "-" of nothing.
std::string Percent(std::int64_t part, std::int64_t whole);

}  // namespace lucid
