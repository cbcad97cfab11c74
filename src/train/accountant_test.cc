#include "lucid/train/accountant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "train/loss_bracket.h"

namespace lucid {
namespace {

using testing::HasSubstr;

struct Vector {
  const char* name;
  double rate;
  std::int64_t steps;
  double epsilon, sigma;
};

// 50 epochs, delta = 1e-5; steps = ceil(50 / rate). Noise to three digits, as published.
const Vector kVectors[] = {
    {"Adult", 1024.0 / 32561, 1590, 1, 5.17},   {"Adult", 1024.0 / 32561, 1590, 0.2, 22.5},
    {"Adult", 1024.0 / 32561, 1590, 0.02, 186}, {"Crypto", 100.0 / 2800, 1400, 1, 5.50},
    {"Crypto", 100.0 / 2800, 1400, 0.2, 24.0},  {"Crypto", 100.0 / 2800, 1400, 0.02, 198},
};

std::string ThreeDigits(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

TEST(Accountant, GivesTheKnownNoise) {
  for (const Vector& v : kVectors) {
    const auto sigma = NoiseFor(v.epsilon, v.rate, v.steps, 1e-5);
    ASSERT_TRUE(sigma.ok()) << sigma.error().message;
    EXPECT_EQ(ThreeDigits(*sigma), ThreeDigits(v.sigma)) << v.name << " at " << v.epsilon;
  }
}

TEST(Accountant, NoiseIsEnoughAndHardlyMore) {
  for (const Conversion conversion : {Conversion::kTight, Conversion::kClassic}) {
    for (const double epsilon : {0.05, 0.2, 1.0, 8.0, 100.0}) {
      for (const double rate : {0.001, 0.0357, 0.5, 1.0}) {
        const double sigma = NoiseFor(epsilon, rate, 1000, 1e-5, conversion).value();
        const auto loss = [&](double s) {
          return PrivacyLossOf({rate, s, 1000}, 1e-5, conversion).value().epsilon;
        };
        EXPECT_LE(loss(sigma), epsilon);
        EXPECT_GT(loss(sigma * (1 - 1e-6)), epsilon) << epsilon << " " << rate;
      }
    }
  }
}

// The divergence by its definition: with p = N(0, s^2) and the mixture m = (1-q) N(0, s^2) +
// q N(1, s^2), ln E_p[(m/p)^a] / (a - 1), integrated numerically. The trapezoid rule converges
// faster than any power of its step on such an integrand.
double DivergenceByIntegration(double q, double sigma, int order) {
  const double variance = sigma * sigma;
  const double from = -15 * sigma, to = order + 15 * sigma;
  const int points = 400'000;
  const double h = (to - from) / points;
  double sum = 0;
  for (int i = 0; i <= points; ++i) {
    const double x = from + i * h;
    const double ratio = (1 - q) + q * std::exp((2 * x - 1) / (2 * variance));
    sum += std::exp(-x * x / (2 * variance) + order * std::log(ratio));
  }
  return std::log(sum * h / (sigma * std::sqrt(2 * std::numbers::pi))) / (order - 1);
}

TEST(Accountant, DivergenceEqualsItsIntegral) {
  for (const double q : {0.01, 0.2, 0.9, 1.0}) {
    for (const double sigma : {0.7, 1.5, 6.0}) {
      for (const int order : {2, 3, 7, 20}) {
        const double expected = DivergenceByIntegration(q, sigma, order);
        const double divergence = RenyiDivergenceOfStep({q, sigma, 1}, order);
        // 1e-11: rounding of 400,000 summands before the logarithm of a number near 1.
        EXPECT_NEAR(divergence, expected, 1e-9 * expected + 1e-11)
            << "q " << q << " sigma " << sigma << " order " << order;
      }
    }
  }
}

TEST(Accountant, SmallDivergencesKeepTheirDigits) {
  // To first order in 1/sigma^2 the sum is 1 + C(a,2) q^2 / sigma^2, whatever a is.
  for (const std::int64_t order : {2, 64, 4096}) {
    const double q = 1e-6, sigma = 1e6, a = static_cast<double>(order);
    EXPECT_NEAR(RenyiDivergenceOfStep({q, sigma, 1}, order), a / 2 * q * q / (sigma * sigma),
                1e-2 * a / 2 * q * q / (sigma * sigma));
  }
}

TEST(Accountant, LossFallsWithNoiseAndGrowsWithStepsAndRate) {
  const auto loss = [](double rate, double sigma, std::int64_t steps) {
    return PrivacyLossOf({rate, sigma, steps}, 1e-5).value().epsilon;
  };
  EXPECT_LT(loss(0.01, 2, 100), loss(0.01, 1, 100));
  EXPECT_LT(loss(0.01, 1, 100), loss(0.01, 1, 200));
  EXPECT_LT(loss(0.01, 1, 100), loss(0.02, 1, 100));
  EXPECT_LE(loss(0.01, 1, 100),
            PrivacyLossOf({0.01, 1, 100}, 1e-5, Conversion::kClassic).value().epsilon);
}

TEST(Accountant, ClassicConversionHasThePapersFloor) {
  const auto noise = NoiseFor(0.02, 0.0357, 1400, 1e-5, Conversion::kClassic);
  ASSERT_FALSE(noise.ok());
  EXPECT_THAT(noise.error().message, HasSubstr("0.02253"));
  EXPECT_TRUE(NoiseFor(0.023, 0.0357, 1400, 1e-5, Conversion::kClassic).ok());
}

TEST(Accountant, RefusesWhatIsOutOfRange) {
  const double nan = std::nan("");
  for (const double bad : {0.0, -1.0, nan}) {
    EXPECT_FALSE(NoiseFor(bad, 0.1, 10, 1e-5).ok());
    EXPECT_FALSE(NoiseFor(1, bad, 10, 1e-5).ok());
    EXPECT_FALSE(NoiseFor(1, 0.1, 10, bad).ok());
    EXPECT_FALSE(PrivacyLossOf({0.1, bad, 10}, 1e-5).ok());
  }
  EXPECT_FALSE(NoiseFor(1, 1.5, 10, 1e-5).ok());
  EXPECT_FALSE(NoiseFor(1, 0.1, 0, 1e-5).ok());
  EXPECT_FALSE(NoiseFor(1, 0.1, 10, 1).ok());
  EXPECT_FALSE(NoiseFor(HUGE_VAL, 0.1, 10, 1e-5).ok());
}

TEST(PrivacyLossOf, LiesInTheBracketOfLossDistributions) {
  const struct {
    double rate;
    std::int64_t steps;
    double epsilon;
  } cases[] = {{1024.0 / 32561, 1590, 1}, {512.0 / 30000, 1172, 0.2}, {0.5, 40, 1}};
  for (const auto& [rate, steps, epsilon] : cases) {
    const double sigma = NoiseFor(epsilon, rate, steps, 1e-5).value();
    const SubsampledGaussian mechanism{rate, sigma, steps};
    const double renyi = PrivacyLossOf(mechanism, 1e-5).value().epsilon;
    const auto [lower, upper] = BracketOf(mechanism, 1e-5, epsilon).value();
    EXPECT_LE(upper - lower, 0.01 * upper) << rate << " " << epsilon;
    EXPECT_GE(renyi, lower) << rate << " " << epsilon;
    EXPECT_LE(renyi, 1.15 * upper) << rate << " " << epsilon;
  }
}

// A sum over everybody comes first: the accountant knows of it, and so does the bracket.
TEST(PrivacyLossOf, ASumBeforeTheStepsCostsWhatTheBracketSays) {
  const double alone = NoiseFor(1, 512.0 / 30000, 1172, 1e-5).value();
  for (const double once : {20.0, 6.0}) {
    const double sigma = NoiseFor(1, 512.0 / 30000, 1172, 1e-5, Conversion::kTight, once).value();
    EXPECT_GT(sigma, alone) << once;
    EXPECT_LT(sigma, (once > 10 ? 1.05 : 1.5) * alone) << once;
    const SubsampledGaussian mechanism{512.0 / 30000, sigma, 1172, once};
    const double renyi = PrivacyLossOf(mechanism, 1e-5).value().epsilon;
    const auto [lower, upper] = BracketOf(mechanism, 1e-5, 1).value();
    EXPECT_LE(upper - lower, 0.01 * upper);
    EXPECT_GE(renyi, lower);
    EXPECT_LE(renyi, 1.15 * upper);
    // Forgotten, the same noise would seem to cost less than it does.
    EXPECT_LT(PrivacyLossOf({512.0 / 30000, sigma, 1172}, 1e-5).value().epsilon, renyi);
  }
  // The sum alone, by the exact delta of a Gaussian: Phi(1/(2s) - es) - exp(e) Phi(-1/(2s) - es).
  const auto phi = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  const double s = 4;
  const auto [lower, upper] = BracketOf({1e-9, 1e9, 1, s}, 1e-5, 1).value();
  const auto delta = [&](double e) {
    return phi(1 / (2 * s) - e * s) - std::exp(e) * phi(-1 / (2 * s) - e * s);
  };
  EXPECT_GE(delta(lower * (1 - 1e-6)), 1e-5);
  EXPECT_LE(delta(upper), 1e-5);
  // So little noise that losses leave the grid: an error, and nothing is written beyond it.
  EXPECT_TRUE(BracketOf({512.0 / 30000, 0.4587, 1172, 20.0 / 60}, 1e-6, 60).ok());
  EXPECT_FALSE(BracketOf({512.0 / 30000, 1, 20, 1e-3}, 1e-6, 1).ok());
  EXPECT_FALSE(BracketOf({1, 1e-3, 20}, 1e-6, 1).ok());
  const auto too_much = NoiseFor(1, 0.01, 100, 1e-5, Conversion::kTight, 2);
  ASSERT_FALSE(too_much.ok());
  EXPECT_THAT(too_much.error().message, HasSubstr("the least that"));
}

}  // namespace
}  // namespace lucid
