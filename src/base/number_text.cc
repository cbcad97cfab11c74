#include "base/number_text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace lucid {
namespace {

// "inf", "nan", with "-" before them if the sign bit is set.
std::string NotFinite(double value) {
  return std::string(std::signbit(value) ? "-" : "") + (std::isnan(value) ? "nan" : "inf");
}

}  // namespace

std::string HexText(double value) {
  if (!std::isfinite(value)) return NotFinite(value);
  constexpr int kFractionBits = 52, kBias = 1023, kSmallestExponent = -1022;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int biased = static_cast<int>(bits >> kFractionBits & 0x7ff);
  std::uint64_t fraction = bits & ((std::uint64_t{1} << kFractionBits) - 1);

  std::string text = std::signbit(value) ? "-0x" : "0x";
  text += biased == 0 ? '0' : '1';
  if (fraction != 0) text += '.';
  for (; fraction != 0; fraction = fraction << 4 & ((std::uint64_t{1} << kFractionBits) - 1)) {
    text += "0123456789abcdef"[fraction >> (kFractionBits - 4)];
  }
  const int exponent = value == 0 ? 0 : biased == 0 ? kSmallestExponent : biased - kBias;
  return text + (exponent < 0 ? "p-" : "p+") + std::to_string(std::abs(exponent));
}

std::string ShortestText(double value) {
  if (!std::isfinite(value)) return NotFinite(value);
  // The standard fixes the digits, "d.ddde[+-]xx"; only their layout is decided here.
  char buffer[32];
  const auto [end, code] =
      std::to_chars(buffer, buffer + sizeof buffer, std::abs(value), std::chars_format::scientific);
  const std::string_view scientific(buffer, end);
  const std::size_t e = scientific.find('e');
  std::string digits(scientific.substr(0, e));
  if (digits.size() > 1) digits.erase(1, 1);  // the point
  const int exponent = std::stoi(std::string(scientific.substr(e + 1)));

  constexpr int kFirstLargeExponent = 16, kSmallestFixedExponent = -4;
  std::string text = std::signbit(value) ? "-" : "";
  if (exponent < kSmallestFixedExponent || exponent >= kFirstLargeExponent) {
    return text + std::string(scientific);
  }
  const auto count = static_cast<int>(digits.size());
  if (exponent < 0) return text + "0." + std::string(-exponent - 1, '0') + digits;
  if (exponent >= count - 1) return text + digits + std::string(exponent - count + 1, '0');
  return text + digits.substr(0, exponent + 1) + "." + digits.substr(exponent + 1);
}

}  // namespace lucid
