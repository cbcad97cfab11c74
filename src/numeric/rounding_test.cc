#include "numeric/rounding.h"

#include <gtest/gtest.h>

#include <random>

#include "support/exact_type.h"

namespace lucid {
namespace {

TEST(Rounding, UpwardOperationsNeverFallBelowTheExactValue) {
  std::mt19937_64 engine(1);
  std::uniform_real_distribution<double> value(-3, 3);
  for (int i = 0; i < 100'000; ++i) {
    const double a = value(engine), b = value(engine);
    // 113 bits hold the sum and the product of these doubles exactly enough to compare.
    const Exact sum = static_cast<Exact>(a) + b, product = static_cast<Exact>(a) * b;
    ASSERT_GE(static_cast<Exact>(AddUp(a, b)), sum);
    ASSERT_GE(static_cast<Exact>(MulUp(a, b)), product);
    ASSERT_LE(AddUp(a, b), NextUp(NextUp(a + b))) << "one step, not more";
  }
}

TEST(Rounding, GammaCoversItsDefinition) {
  for (std::int64_t n : {0, 1, 2, 50, 1000, 1 << 20}) {
    const Exact nu = static_cast<Exact>(n) * kUnitRoundoff;
    EXPECT_GE(static_cast<Exact>(GammaUp(n)), nu / (1 - nu));
    EXPECT_LE(GammaUp(n), 1.001 * static_cast<double>(n) * kUnitRoundoff + 1e-300);
  }
}

}  // namespace
}  // namespace lucid
