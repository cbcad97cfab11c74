#include "base/number_text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <utility>

namespace lucid {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Run keys hash these texts. A changed text makes every run of an earlier version unreadable:
// "belongs to another run".
TEST(NumberText, HexTextIsPinned) {
  const std::pair<double, std::string> kPinned[] = {
      {0, "0x0p+0"},
      {-0.0, "-0x0p+0"},
      {1, "0x1p+0"},
      {-2, "-0x1p+1"},
      {0.1, "0x1.999999999999ap-4"},
      {1e-5, "0x1.4f8b588e368f1p-17"},
      {0.9, "0x1.ccccccccccccdp-1"},
      {1000, "0x1.f4p+9"},
      {0x1.0008p+3, "0x1.0008p+3"},
      {std::numeric_limits<double>::min(), "0x1p-1022"},
      {std::numeric_limits<double>::denorm_min(), "0x0.0000000000001p-1022"},
      {0x0.8p-1022, "0x0.8p-1022"},
      {std::numeric_limits<double>::max(), "0x1.fffffffffffffp+1023"},
      {kInfinity, "inf"},
      {-kInfinity, "-inf"},
      {std::numeric_limits<double>::quiet_NaN(), "nan"}};
  for (const auto& [value, text] : kPinned) EXPECT_EQ(HexText(value), text);
}

TEST(NumberText, ShortestTextIsPinned) {
  const std::pair<double, std::string> kPinned[] = {
      {0, "0"},
      {-0.0, "-0"},
      {1, "1"},
      {-1.5, "-1.5"},
      {0.1, "0.1"},
      {100, "100"},
      {12.25, "12.25"},
      {1e15, "1000000000000000"},
      {1234567890123456, "1234567890123456"},
      {1e16, "1e+16"},
      {1.25e100, "1.25e+100"},
      {1e-4, "0.0001"},
      {0.00012, "0.00012"},
      {1e-5, "1e-05"},
      {1.0 / 3, "0.3333333333333333"},
      {std::numeric_limits<double>::denorm_min(), "5e-324"},
      {std::numeric_limits<double>::max(), "1.7976931348623157e+308"},
      {kInfinity, "inf"},
      {-kInfinity, "-inf"},
      {std::numeric_limits<double>::quiet_NaN(), "nan"}};
  for (const auto& [value, text] : kPinned) EXPECT_EQ(ShortestText(value), text);
}

TEST(NumberText, EveryTextReadsBackAsTheSameNumber) {
  std::mt19937_64 bits(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto value = std::bit_cast<double>(bits());
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(std::strtod(HexText(value).c_str(), nullptr), value) << HexText(value);
    ASSERT_EQ(std::strtod(ShortestText(value).c_str(), nullptr), value) << ShortestText(value);
  }
}

}  // namespace
}  // namespace lucid
