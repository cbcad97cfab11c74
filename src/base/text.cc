#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace lucid {
namespace {

constexpr int kShownCharacters = 40;

// The character at the front of a text. `length` is 0 where that is not valid UTF-8 (overlong forms
// and surrogates are not).
struct Character {
  std::size_t length = 0;
  unsigned code = 0;
};

Character FirstCharacter(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {};
  unsigned code = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr unsigned kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kSmallest[length] || code > 0x10ffff || surrogate) return {};
  return {length, code};
}

// Not: controls (C0, DEL, C1); U+2028 and U+2029, which end a line for some readers; U+202A to
// U+202E and U+2066 to U+2069, which reorder it.
bool IsPrintable(unsigned code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
  return !(code >= 0x2028 && code <= 0x202e) && !(code >= 0x2066 && code <= 0x2069);
}

// Moves the first character of `text` to the end of `shown`, as a message shows it.
void MoveCharacter(std::string_view& text, std::string& shown) {
  const auto [length, code] = FirstCharacter(text);
  if (length == 0 || !IsPrintable(code)) {
    shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    text.remove_prefix(1);
  } else {
    shown += text.substr(0, length);
    text.remove_prefix(length);
  }
}

}  // namespace

std::string Quoted(std::string_view value) {
  std::string shown = "'";
  for (int count = 0; !value.empty(); ++count) {
    if (count == kShownCharacters) {
      shown += "...";
      break;
    }
    MoveCharacter(value, shown);
  }
  return shown + "'";
}

std::string Escaped(std::string_view text) {
  std::string shown;
  while (!text.empty()) MoveCharacter(text, shown);
  return shown;
}

bool EqualInAnyCase(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = FirstCharacter(text).length;
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
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
