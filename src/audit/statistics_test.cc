#include "audit/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "random/stream.h"

namespace lucid {
namespace {

TEST(AuditStatistics, CurveOfHandMadeScores) {
  const std::vector<double> in = {3, 2, 2, 1}, out = {2, 1, 0, 0};
  // Pairs won: 4 by the 3, 3.5 by each 2, 2.5 by the 1.
  EXPECT_DOUBLE_EQ(AreaUnderCurve(in, out), 13.5 / 16);
  EXPECT_DOUBLE_EQ(LargestAdvantage(in, out), 0.5);
  EXPECT_DOUBLE_EQ(TruePositivesAt(0, in, out), 0.25);
  EXPECT_DOUBLE_EQ(TruePositivesAt(0.25, in, out), 0.75);
  EXPECT_DOUBLE_EQ(AreaUnderCurve(in, in), 0.5);
}

// The tail of the binomial at the bound is the risk: Clopper and Pearson's definition.
TEST(AuditStatistics, BoundsAreThoseOfClopperAndPearson) {
  const auto tail = [](int from, int to, int n, double p) {
    double sum = 0;
    for (int k = from; k <= to; ++k) {
      sum += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                      k * std::log(p) + (n - k) * std::log1p(-p));
    }
    return sum;
  };
  for (const int successes : {1, 7, 19}) {
    const double low = LowerProbability(successes, 20, 0.01);
    EXPECT_NEAR(tail(successes, 20, 20, low), 0.01, 1e-9);
    const double high = UpperProbability(successes, 20, 0.01);
    EXPECT_NEAR(tail(0, successes, 20, high), 0.01, 1e-9);
  }
  EXPECT_EQ(LowerProbability(0, 20, 0.01), 0);
  EXPECT_EQ(UpperProbability(20, 20, 0.01), 1);
}

// Randomised response of a known epsilon: the bound is below it, and near it for many trials.
TEST(AuditStatistics, EpsilonOfAKnownMechanism) {
  for (const double epsilon : {0.0, 0.5, 2.0}) {
    const double truth = std::exp(epsilon) / (1 + std::exp(epsilon));
    Stream stream(5, "randomised response");
    std::vector<double> in, out;
    for (int i = 0; i < 40'000; ++i) {
      in.push_back(stream.Uniform() < truth ? 1 : 0);
      out.push_back(stream.Uniform() < truth ? 0 : 1);
    }
    const double lower = EpsilonLowerBound(in, out, 1e-6);
    EXPECT_LE(lower, epsilon);
    EXPECT_GE(lower, epsilon - 0.25);
    // An attack that is always wrong says as much.
    EXPECT_NEAR(EpsilonLowerBound(out, in, 1e-6), lower, 0.1);
  }
}

// Gives the row away with probability delta and says nothing otherwise: (0, delta)-DP. Without
// delta the bound would be infinite in the limit; with it, it is 0.
TEST(AuditStatistics, DeltaIsAllowedFor) {
  constexpr double kDelta = 0.05;
  Stream stream(6, "delta");
  std::vector<double> in, out;
  for (int i = 0; i < 20'000; ++i) {
    in.push_back(stream.Uniform() < kDelta ? 1 : 0);
    out.push_back(0);
  }
  EXPECT_GT(EpsilonLowerBound(in, out, 1e-6), 2);
  EXPECT_EQ(EpsilonLowerBound(in, out, 1e-6, kDelta), 0);
  EXPECT_LT(EpsilonLowerBound(in, out, 1e-6, kDelta / 2), EpsilonLowerBound(in, out, 1e-6));
  // A mechanism that is worse than its delta is not excused.
  EXPECT_GT(EpsilonLowerBound(in, out, 1e-6, kDelta / 4), 1);
}

TEST(AuditStatistics, WelchOfKnownSamples) {
  const std::vector<double> a = {1, 2, 3}, b = {3, 5, 7, 9};
  // Means 2 and 6, variances 1 and 20/3.
  EXPECT_NEAR(WelchT(a, b), -4 / std::sqrt(1.0 / 3 + 20.0 / 12), 1e-12);
}

TEST(Statistics, TheLargestAreaUnderPrivacyIsThatOfTheCurve) {
  for (const auto& [epsilon, delta] : {std::pair(0.0, 0.0), {0.2, 0.0}, {1.0, 0.05}, {3.0, 1e-5}}) {
    double area = 0;
    constexpr int kSteps = 200000;
    for (int i = 0; i < kSteps; ++i) {
      const double a = (i + 0.5) / kSteps;
      area +=
          std::min({1.0, delta + std::exp(epsilon) * a, 1 - std::exp(-epsilon) * (1 - delta - a)}) /
          kSteps;
    }
    EXPECT_NEAR(LargestAreaUnderPrivacy(epsilon, delta), area, 1e-4) << epsilon;
  }
  EXPECT_EQ(LargestAreaUnderPrivacy(0, 0), 0.5);
}

TEST(AuditStatistics, TailsOfCounts) {
  EXPECT_DOUBLE_EQ(AtLeast(0, 10, 0.3), 1);
  EXPECT_DOUBLE_EQ(AtLeast(11, 10, 0.3), 0);
  EXPECT_NEAR(AtLeast(10, 10, 0.5), std::exp2(-10), 1e-15);
  EXPECT_NEAR(AtLeast(9, 10, 0.5), 11 * std::exp2(-10), 1e-14);
}

// Ville's inequality, tried: of 2,000 fair games about one in 20 at most may ever reach 20. (120 is
// two standard deviations above what that allows.) An attacker who always wins is found out soon.
TEST(AuditStatistics, AFairGameMakesNobodyRich) {
  Stream stream(8, "bets");
  int rich = 0;
  for (int game = 0; game < 2000; ++game) {
    std::vector<double> in, out;
    for (int i = 0; i < 200; ++i) {
      in.push_back(static_cast<double>(stream.Below(3)));
      out.push_back(static_cast<double>(stream.Below(3)));
    }
    rich += EvidenceAgainst(in, out, 0.5) >= 20;
  }
  EXPECT_LE(rich, 120);
  const std::vector<double> wins(40, 1), losses(40, 0);
  EXPECT_GT(EvidenceAgainst(wins, losses, 0.5), 1e9);
  EXPECT_EQ(EvidenceAgainst(losses, wins, 0.5), 1);
  EXPECT_EQ(EvidenceAgainst(wins, wins, 0.5), 1);
  EXPECT_LT(EvidenceAgainst(wins, losses, 0.9), 1e3) << "nine of ten were allowed";
}

}  // namespace
}  // namespace lucid
