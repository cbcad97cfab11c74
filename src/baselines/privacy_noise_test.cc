#include "baselines/privacy_noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace lucid {
namespace {

// Moments of n draws. Seeded, so the outcome is fixed: the tests fail always or never.
struct Moments {
  double mean = 0, second = 0, fourth = 0;
};
Moments MomentsOf(int n, const std::function<double()>& draw) {
  Moments m;
  for (int i = 0; i < n; ++i) {
    const double x = draw();
    m.mean += x / n;
    m.second += x * x / n;
    m.fourth += x * x * x * x / n;
  }
  return m;
}

constexpr int kDraws = 1'000'000;

TEST(PrivacyNoise, NormalHasTheMomentsOfANormal) {
  PrivacyNoise noise = PrivacyNoise::Create(1).value();
  const Moments m = MomentsOf(kDraws, [&] { return noise.Normal(); });
  // Five standard errors: sqrt of 1, 2 and 96, over 1000.
  EXPECT_NEAR(m.mean, 0, 0.005);
  EXPECT_NEAR(m.second, 1, 0.0071);
  EXPECT_NEAR(m.fourth, 3, 0.049);
}

TEST(PrivacyNoise, LaplaceHasTheMomentsOfALaplace) {
  PrivacyNoise noise = PrivacyNoise::Create(2).value();
  const double b = 2;
  const Moments m = MomentsOf(kDraws, [&] { return noise.Laplace(b); });
  // Moments 0, 2 b^2, 24 b^4; variances 2 b^2, 20 b^4, (40320 - 576) b^8.
  EXPECT_NEAR(m.mean, 0, 0.005 * std::sqrt(2) * b);
  EXPECT_NEAR(m.second, 2 * b * b, 0.005 * std::sqrt(20) * b * b);
  EXPECT_NEAR(m.fourth, 24 * std::pow(b, 4), 0.005 * std::sqrt(39744) * std::pow(b, 4));
}

TEST(PrivacyNoise, ConsecutiveDrawsAreNotCorrelated) {
  PrivacyNoise noise = PrivacyNoise::Create(3).value();
  double last = noise.Normal(), product = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = noise.Normal();
    product += x * last / kDraws;
    last = x;
  }
  EXPECT_NEAR(product, 0, 0.005);
}

TEST(PrivacyNoise, ASeedRepeatsItAndEntropyDoesNot) {
  PrivacyNoise a = PrivacyNoise::Create(7).value(), b = PrivacyNoise::Create(7).value();
  PrivacyNoise c = PrivacyNoise::Create(8).value();
  PrivacyNoise d = PrivacyNoise::Create({}).value(), e = PrivacyNoise::Create({}).value();
  for (int i = 0; i < 1000; ++i) {  // beyond one refill
    const std::uint64_t value = a.Next();
    EXPECT_EQ(value, b.Next());
    EXPECT_NE(value, c.Next());
    EXPECT_NE(d.Next(), e.Next());
  }
}

}  // namespace
}  // namespace lucid
