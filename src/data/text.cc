#include "data/text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace lucid {
namespace {

constexpr int kShownCharacters = 40;

// The length of the valid, printable UTF-8 character at the front of `text`, or 0. Overlong forms,
// surrogates and the C1 controls do not count as printable.
std::size_t PrintableLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  unsigned code = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr unsigned kSmallest[] = {0, 0, 0xa0, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  // U+2028 and U+2029 end a line for some readers; U+202A to U+202E and U+2066 to U+2069 reorder
  // it.
  const bool layout = (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return code >= kSmallest[length] && code <= 0x10ffff && !surrogate && !layout ? length : 0;
}

}  // namespace

std::string Quoted(std::string_view value) {
  std::string shown = "'";
  for (int count = 0; !value.empty(); ++count) {
    if (count == kShownCharacters) {
      shown += "...";
      break;
    }
    const std::size_t length = PrintableLength(value);
    if (length == 0) {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(value[0]));
    } else {
      shown += value.substr(0, length);
    }
    value.remove_prefix(length == 0 ? 1 : length);
  }
  return shown + "'";
}

Result<double> ParseNumber(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code == std::errc::invalid_argument || stop != end) {
    return InvalidInput(fmt::format("{} is not a number", Quoted(text)));
  }
  if (code == std::errc::result_out_of_range) {
    return InvalidInput(fmt::format("{} is beyond the range of a double", Quoted(text)));
  }
  if (!std::isfinite(value)) {
    return InvalidInput(fmt::format("{} is not a finite number", Quoted(text)));
  }
  return value;
}

}  // namespace lucid
