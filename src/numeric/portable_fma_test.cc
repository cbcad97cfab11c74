#include "numeric/portable_fma.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace lucid {
namespace {

void ExpectSame(float a, float b, float c) {
  const float expected = std::fma(a, b, c), actual = PortableFma(a, b, c);
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(actual)) << a << " * " << b << " + " << c;
  } else {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(actual), std::bit_cast<std::uint32_t>(expected))
        << a << " * " << b << " + " << c;
  }
}

TEST(PortableFma, EqualsTheInstructionOnRandomBitPatterns) {
  std::mt19937 engine(3);
  for (int i = 0; i < 2'000'000; ++i) {
    ExpectSame(std::bit_cast<float>(static_cast<std::uint32_t>(engine())),
               std::bit_cast<float>(static_cast<std::uint32_t>(engine())),
               std::bit_cast<float>(static_cast<std::uint32_t>(engine())));
  }
}

// Random patterns hardly ever land on the hard cases: a sum that lies at, or one part in 2^60
// beside, the middle between two floats. Here c is chosen near -a*b or near a half step of it.
TEST(PortableFma, EqualsTheInstructionAtTiesAndCancellations) {
  std::mt19937 engine(4);
  std::uniform_real_distribution<float> mantissa(1, 2);
  for (int i = 0; i < 1'000'000; ++i) {
    const float a = mantissa(engine), b = mantissa(engine);
    const int shift = static_cast<int>(engine() % 90) - 45;
    float c = std::ldexp(-a * b, shift);
    if (engine() % 2 == 0) c = std::nextafter(c, 0.0f);
    if (engine() % 2 == 0) c = -c;
    ExpectSame(a, b, c);
    ExpectSame(std::ldexp(a, -70), std::ldexp(b, -70), std::ldexp(c, -140));  // subnormal
  }
}

TEST(PortableFma, PlainDoubleArithmeticWouldFailThisTest) {
  // a*b + c sits just above a tie of float32; rounding to double first loses the "just above".
  const float a = 1 + 0x1p-12f, b = 1 + 0x1p-12f, c = 0x1p30f;
  ExpectSame(a, b, c);
  const float tie_a = 0x1.000002p0f, tie_b = 0x1.000002p-30f, tie_c = 0x1.000001p0f;
  ExpectSame(tie_a, tie_b, tie_c);
  std::mt19937 engine(5);
  int differs = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const float x = std::ldexp(1 + static_cast<float>(engine() % 4096) / 4096, -24);
    const float y = 1 + static_cast<float>(engine() % 8) * 0x1p-23f;
    const float z = 1 + static_cast<float>(engine() % 16) * 0x1p-23f;
    const float twice = static_cast<float>(static_cast<double>(x) * y + z);
    differs += twice != std::fma(x, y, z);
    ExpectSame(x, y, z);
  }
  RecordProperty("double_rounding_cases", differs);
}

TEST(PortableFma, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (float a : {0.0f, -0.0f, 1.0f, inf, -inf, nan, 3e38f}) {
    for (float b : {0.0f, -0.0f, -1.0f, inf, nan, 3e38f}) {
      for (float c : {0.0f, -0.0f, 1.0f, inf, -inf, nan, -3e38f}) ExpectSame(a, b, c);
    }
  }
}

}  // namespace
}  // namespace lucid
