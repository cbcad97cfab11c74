#include "numeric/interval.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "numeric/rounding.h"
#include "support/exact_type.h"

namespace lucid {
namespace {

constexpr double kMax = std::numeric_limits<double>::max();
constexpr double kTiniest = std::numeric_limits<double>::denorm_min();

// Full 53 bits, exponents within 40 of each other: a sum needs 53 + 41 bits. Some short numbers and
// zeros, so that exact results occur.
double RandomDouble(std::mt19937_64& engine) {
  const int kind = static_cast<int>(engine() % 8);
  if (kind == 0) return 0;
  const double short_number = std::ldexp(static_cast<double>(static_cast<int>(engine() % 17)), -2);
  const double sign = engine() % 2 == 0 ? 1 : -1;
  if (kind == 1) return sign * short_number;
  const double mantissa = 1 + std::ldexp(static_cast<double>(engine() >> 12), -52);
  return sign * std::ldexp(mantissa, static_cast<int>(engine() % 41) - 20);
}

Interval RandomInterval(std::mt19937_64& engine) {
  const double a = RandomDouble(engine), b = engine() % 4 == 0 ? a : RandomDouble(engine);
  return {std::min(a, b), std::max(a, b)};
}

// The bounds hold the exact ones, and are the nearest doubles that do.
void ExpectTight(Interval found, Exact lower, Exact upper) {
  ASSERT_TRUE(static_cast<Exact>(found.lower) <= lower);
  ASSERT_TRUE(static_cast<Exact>(found.upper) >= upper);
  ASSERT_TRUE(static_cast<Exact>(NextUp(found.lower)) > lower) << "one step, not more";
  ASSERT_TRUE(static_cast<Exact>(NextDown(found.upper)) < upper) << "one step, not more";
}

TEST(Interval, OperationsAreTheNearestDoublesAroundTheExactResult) {
  constexpr unsigned kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 engine(kSeed);
  for (int i = 0; i < 100'000; ++i) {
    const Interval a = RandomInterval(engine), b = RandomInterval(engine);
    SCOPED_TRACE(testing::Message()
                 << "[" << a.lower << "," << a.upper << "] [" << b.lower << "," << b.upper << "]");
    const Exact al = a.lower, au = a.upper, bl = b.lower, bu = b.upper;
    ASSERT_NO_FATAL_FAILURE(ExpectTight(a + b, al + bl, au + bu));
    ASSERT_NO_FATAL_FAILURE(ExpectTight(a - b, al - bu, au - bl));
    const Exact lowest = std::min({al * bl, al * bu, au * bl, au * bu});
    const Exact highest = std::max({al * bl, al * bu, au * bl, au * bu});
    ASSERT_NO_FATAL_FAILURE(ExpectTight(a * b, lowest, highest));
    EXPECT_EQ(a.lower * b, Interval::Point(a.lower) * b);
    const Interval positive = Relu(b);
    EXPECT_EQ(TimesNonNegative(a, positive), a * positive);
    EXPECT_GE(static_cast<Exact>(a.Width()), au - al);
    EXPECT_LE(static_cast<Exact>(NextDown(a.Width())), au - al);
  }
}

TEST(Interval, ExactResultsStayExact) {
  EXPECT_EQ((Interval{1, 2} + Interval{0.25, 0.5}), (Interval{1.25, 2.5}));
  EXPECT_EQ((Interval{1, 2} - Interval{1, 2}), (Interval{-1, 1}));
  EXPECT_EQ((Interval{-1, 2} * Interval{-3, 0.5}), (Interval{-6, 3}));
  EXPECT_EQ((Interval{0, 0} * Interval{-0.1, 0.3}), (Interval{0, 0}));
  EXPECT_EQ((Interval{0.1, 0.3} + Interval{0, 0}), (Interval{0.1, 0.3}));
  EXPECT_EQ((Interval{2, 5}).Width(), 3);
  EXPECT_EQ(Interval::Point(7).Width(), 0);
  EXPECT_FALSE(std::signbit((Interval{0, 0} * Interval{1, 1}).lower));
}

TEST(Interval, SetOperations) {
  EXPECT_EQ(Hull({0, 1}, {3, 4}), (Interval{0, 4}));
  EXPECT_EQ(Intersect({0, 3}, {1, 4}), (Interval{1, 3}));
  EXPECT_EQ(Relu({-1, 2}), (Interval{0, 2}));
  EXPECT_EQ(Relu({-2, -1}), (Interval{0, 0}));
  EXPECT_TRUE((Interval{0, 1}).Contains(1));
  EXPECT_FALSE((Interval{0, 1}).Contains(1.5));
}

TEST(Interval, OverflowStaysOnTheSafeSide) {
  const Interval huge{kMax, kMax};
  EXPECT_EQ(huge + huge, (Interval{kMax, kInfinity}));
  EXPECT_EQ(Interval::Point(-kMax) - huge, (Interval{-kInfinity, -kMax}));
  EXPECT_EQ(huge * huge, (Interval{kMax, kInfinity}));
  EXPECT_EQ(huge * Interval::Point(-2), (Interval{-kInfinity, -kMax}));
  EXPECT_EQ(TimesNonNegative({-2, 2}, huge), (Interval{-kInfinity, kInfinity}));
}

TEST(Interval, UnknownBoundsGiveNoNan) {
  const Interval anything{-kInfinity, kInfinity}, zero{0, 0}, above{1, kInfinity};
  EXPECT_EQ(anything * zero, zero);
  EXPECT_EQ(zero * anything, zero);
  EXPECT_EQ(0.0 * anything, zero);
  EXPECT_EQ(TimesNonNegative(zero, above), zero);
  EXPECT_EQ(above + anything, anything);
  EXPECT_EQ(above - above, anything);
  EXPECT_EQ(above * above, above);
  EXPECT_EQ((Interval{0, 1} * above), (Interval{0, kInfinity}));
}

TEST(Interval, UnderflowStaysOnTheSafeSide) {
  const Interval tiny = Interval::Point(kTiniest);
  EXPECT_EQ(tiny * tiny, (Interval{0, kTiniest}));
  EXPECT_EQ(Interval::Point(-kTiniest) * tiny, (Interval{-kTiniest, 0}));
  const double a = 0x1.123456789abcdp-500, b = 0x1.fedcba987654fp-520;  // the rest underflows
  const Interval product = Interval::Point(a) * Interval::Point(b);
  EXPECT_TRUE(static_cast<Exact>(product.lower) < static_cast<Exact>(a) * b);
  EXPECT_TRUE(static_cast<Exact>(product.upper) > static_cast<Exact>(a) * b);
}

TEST(Rounding, UpAndDownReachTheNeighbourEverywhere) {
  constexpr unsigned kSeed = 12;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 engine(kSeed);
  const auto check = [](double x) {
    SCOPED_TRACE(x);
    ASSERT_GE(Up(x), NextUp(x));
    ASSERT_LE(Down(x), NextDown(x));
    if (std::abs(x) > 0x1p-900 && std::abs(x) < 0x1p1000) {
      ASSERT_LE(Up(x), NextUp(NextUp(NextUp(x))));
      ASSERT_GE(Down(x), NextDown(NextDown(NextDown(x))));
    } else if (std::abs(x) <= 0x1p-900) {
      ASSERT_LE(Up(x), x + 0x1p-900);
    }
  };
  for (int i = 0; i < 500'000; ++i) {
    const double x = std::bit_cast<double>(engine());  // every exponent alike, subnormals too
    if (!std::isfinite(x)) continue;
    ASSERT_NO_FATAL_FAILURE(check(x));
  }
  for (int e = -1074; e < 1024; ++e) {
    const double power = std::ldexp(1.0, e);
    for (const double x : {power, NextDown(power), NextUp(power)}) {
      ASSERT_NO_FATAL_FAILURE(check(x));
      ASSERT_NO_FATAL_FAILURE(check(-x));
    }
  }
  ASSERT_NO_FATAL_FAILURE(check(0));
  EXPECT_EQ(Up(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Up(-kInfinity))) << "callers look for results that are not finite";
}

}  // namespace
}  // namespace lucid
