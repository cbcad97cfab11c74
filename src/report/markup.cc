#include "report/markup.h"

#include <fmt/format.h>

#include <algorithm>

namespace lucid {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";     // U+2026

// The length of the UTF-8 sequence at the start of `text` if it is a whole one of a character that
// XML allows, otherwise 0.
std::size_t CharacterLength(std::string_view text) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) {
    return lead >= 0x20 ? (lead != 0x7f ? 1 : 0) : (lead == '\t' || lead == '\n' || lead == '\r');
  }
  const std::size_t length = lead >= 0xf5   ? 0
                             : lead >= 0xf0 ? 4
                             : lead >= 0xe0 ? 3
                             : lead >= 0xc2 ? 2
                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  std::uint32_t code = lead & (0x7fu >> length);
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(k) & 0x3f);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  const bool not_a_character = code == 0xfffe || code == 0xffff || code < 0xa0;  // C1 controls too
  return overlong || surrogate || not_a_character || code > 0x10ffff ? 0 : length;
}

}  // namespace

std::string EscapedMarkup(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    if (length == 0) {
      safe += kReplacement;
      text.remove_prefix(1);
      continue;
    }
    switch (text.front()) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return safe;
}

std::string Shortened(std::string_view text, std::size_t characters) {
  std::size_t end = 0, count = 0, before_last = 0;
  while (end < text.size()) {
    if (count + 1 == characters) before_last = end;
    if (count == characters) return std::string(text.substr(0, before_last)).append(kEllipsis);
    end += std::max<std::size_t>(1, CharacterLength(text.substr(end)));
    ++count;
  }
  return std::string(text);
}

std::string Grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string Percent(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return "-";
  const double percent = 100 * static_cast<double>(part) / static_cast<double>(whole);
  if (percent >= 10 || part == 0) return fmt::format("{:.1f} %", percent);
  if (percent >= 0.1) return fmt::format("{:.2f} %", percent);
  return fmt::format("{:.2g} %", percent);
}

}  // namespace lucid
