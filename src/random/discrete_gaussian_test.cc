#include "random/discrete_gaussian.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace lucid {
namespace {

// The probabilities of N_Z(0, s2), as far out as they matter.
std::map<std::int64_t, double> Exact(std::uint64_t s2) {
  const auto variance = static_cast<long double>(s2);
  const auto reach = static_cast<std::int64_t>(std::sqrt(static_cast<double>(s2)) * 12) + 12;
  std::map<std::int64_t, double> p;
  long double total = 0;
  const auto weight = [&](std::int64_t x) {
    const auto value = static_cast<long double>(x);
    return std::exp(-value * value / (2 * variance));
  };
  for (std::int64_t x = -reach; x <= reach; ++x) total += weight(x);
  for (std::int64_t x = -reach; x <= reach; ++x) p[x] = static_cast<double>(weight(x) / total);
  return p;
}

// Chi-square over 10^6 or 10^7 draws against the exact distribution. Cells with an expected count
// of at least 25, one for each tail. The statistic has k - 1 degrees of freedom; it fails at 6 of
// its standard deviations (the seeds are fixed: it passes for ever or never).
TEST(DiscreteGaussian, HasItsExactDistribution) {
  for (const std::uint64_t s2 : {1, 2, 37, 10'000}) {
    const std::int64_t draws = s2 == 37 ? 10'000'000 : 1'000'000;
    const DiscreteGaussian gaussian(s2);
    const Secret secret = Secret::FromSeed(s2);
    SecretStream stream(secret, "chi-square", 0, "");
    std::map<std::int64_t, std::int64_t> counts;
    for (std::int64_t i = 0; i < draws; ++i) ++counts[gaussian.Sample(stream)];
    double statistic = 0, low = 0, high = 0;
    std::int64_t cells = 2, low_count = 0, high_count = 0;
    for (const auto& [x, p] : Exact(s2)) {
      const double expected = p * static_cast<double>(draws);
      const std::int64_t count = counts[x];
      if (expected < 25) {
        (x < 0 ? low : high) += expected;
        (x < 0 ? low_count : high_count) += count;
        continue;
      }
      ++cells;
      statistic += (static_cast<double>(count) - expected) *
                   (static_cast<double>(count) - expected) / expected;
    }
    for (const auto& [expected, count] : {std::pair{low, low_count}, std::pair{high, high_count}}) {
      ASSERT_GT(expected, 1) << "the tails are looked at";
      statistic += (static_cast<double>(count) - expected) *
                   (static_cast<double>(count) - expected) / expected;
    }
    const double degrees = static_cast<double>(cells - 1);
    EXPECT_NEAR(statistic, degrees, 6 * std::sqrt(2 * degrees)) << "variance " << s2;
  }
}

// The noise of real trainings is wider than any table: its moments and its tail.
TEST(DiscreteGaussian, IsWideWhereItShouldBe) {
  constexpr int kDraws = 400'000;
  for (const std::uint64_t s2 : {std::uint64_t{1} << 36, DiscreteGaussian::kMaxVariance}) {
    const DiscreteGaussian gaussian(s2);
    const Secret secret = Secret::FromSeed(3);
    SecretStream stream(secret, "moments", 0, "");
    const double deviation = std::sqrt(static_cast<double>(s2));
    double sum = 0, squares = 0;
    int beyond = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double z = static_cast<double>(gaussian.Sample(stream)) / deviation;
      sum += z;
      squares += z * z;
      beyond += std::abs(z) > 3;
    }
    EXPECT_NEAR(sum / kDraws, 0, 6 / std::sqrt(kDraws));
    EXPECT_NEAR(squares / kDraws, 1, 6 * std::sqrt(2.0 / kDraws));
    const double expected = kDraws * std::erfc(3 / std::sqrt(2.0));
    EXPECT_NEAR(beyond, expected, 6 * std::sqrt(expected));
  }
}

TEST(DiscreteGaussian, TheSameStreamGivesTheSameNoiseOnEveryMachine) {
  const DiscreteGaussian gaussian(1 << 20);
  const Secret secret = Secret::FromSeed(7);
  SecretStream a(secret, "noise", 3, "options"), b(secret, "noise", 3, "options");
  for (int i = 0; i < 100; ++i) ASSERT_EQ(gaussian.Sample(a), gaussian.Sample(b));
}

}  // namespace
}  // namespace lucid
