#include "lucid/train/accountant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

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

// An accountant of another kind: the privacy loss distribution of one step on a grid, composed by a
// fast Fourier transform. Losses that are rounded down give a lower end of epsilon, rounded up an
// upper one.
class LossDistribution {
 public:
  enum class Direction { kRemove, kAdd };
  enum class Rounding { kDown, kUp };

  LossDistribution(const SubsampledGaussian& step, double grid, Direction direction,
                   Rounding rounding)
      : step_(step), grid_(grid), mass_(kSize) {
    // The loss ln(1 - q + q exp((2 x - 1) / (2 sigma^2))) rises with x. Removing looks at it under
    // the mixture, adding at its negative under the Gaussian at 0.
    const double sigma = step.sigma, reach = 13 * sigma;
    const auto first = static_cast<std::int64_t>(std::floor(LossAt(-reach) / grid));
    const auto last = static_cast<std::int64_t>(std::ceil(LossAt(reach + 1) / grid));
    const bool remove = direction == Direction::kRemove;
    for (std::int64_t k = first; k < last; ++k) {
      const double low = PlaceOf(static_cast<double>(k) * grid);
      const double high = PlaceOf(static_cast<double>(k + 1) * grid);
      const double p =
          remove ? (1 - step.rate) * Between(low, high, 0) + step.rate * Between(low, high, 1)
                 : Between(low, high, 0);
      // The losses of this cell lie in [k, k + 1] grid (adding: in -[k, k + 1] grid).
      const std::int64_t at = remove ? (rounding == Rounding::kUp ? k + 1 : k)
                                     : (rounding == Rounding::kUp ? -k : -k - 1);
      mass_[static_cast<std::size_t>((at + kSize) % kSize)] += p;
    }
    Transform(mass_, false);
    for (auto& z : mass_) z = std::pow(z, static_cast<double>(step.steps));
    Transform(mass_, true);
    for (auto& z : mass_) z /= static_cast<double>(kSize);
  }

  // The smallest epsilon with E[(1 - exp(epsilon - loss))+] <= delta.
  double Epsilon(double delta) const {
    double low = 0, high = grid_ * kSize / 2;
    while (high - low > 1e-6 * high) {
      const double middle = (low + high) / 2;
      (DeltaAt(middle) <= delta ? high : low) = middle;
    }
    return high;
  }

 private:
  static constexpr std::int64_t kSize = 1 << 20;

  double LossAt(double x) const {
    const double v = step_.sigma * step_.sigma;
    return std::log1p(step_.rate * std::expm1((2 * x - 1) / (2 * v)));
  }
  double PlaceOf(double loss) const {
    const double inner = (std::expm1(loss) + step_.rate) / step_.rate;
    if (inner <= 0) return -1e300;
    return step_.sigma * step_.sigma * std::log(inner) + 0.5;
  }
  double Between(double low, double high, double mean) const {
    const auto tail = [&](double x) {
      return std::erfc((x - mean) / step_.sigma / std::numbers::sqrt2) / 2;
    };
    return tail(low) - tail(high);
  }
  double DeltaAt(double epsilon) const {
    double sum = 0;
    for (std::int64_t k = kSize / 2 - 1; static_cast<double>(k) * grid_ > epsilon; --k) {
      sum += -std::expm1(epsilon - static_cast<double>(k) * grid_) *
             mass_[static_cast<std::size_t>(k)].real();
    }
    return sum;
  }
  static void Transform(std::vector<std::complex<double>>& a, bool back) {
    const std::size_t n = a.size();
    for (std::size_t i = 1, j = 0; i < n; ++i) {
      std::size_t bit = n >> 1;
      for (; (j & bit) != 0; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) std::swap(a[i], a[j]);
    }
    for (std::size_t length = 2; length <= n; length <<= 1) {
      std::vector<std::complex<double>> turns(length / 2);
      for (std::size_t k = 0; k < turns.size(); ++k) {
        turns[k] = std::polar(1.0, (back ? 2 : -2) * std::numbers::pi * static_cast<double>(k) /
                                       static_cast<double>(length));
      }
      for (std::size_t i = 0; i < n; i += length) {
        for (std::size_t k = 0; k < length / 2; ++k) {
          const auto u = a[i + k], v = a[i + k + length / 2] * turns[k];
          a[i + k] = u + v;
          a[i + k + length / 2] = u - v;
        }
      }
    }
  }

  SubsampledGaussian step_;
  double grid_;
  std::vector<std::complex<double>> mass_;
};

TEST(PrivacyLossOf, LiesInTheBracketOfLossDistributions) {
  using L = LossDistribution;
  const struct {
    double rate;
    std::int64_t steps;
    double epsilon;
  } cases[] = {{1024.0 / 32561, 1590, 1}, {512.0 / 30000, 1172, 0.2}, {0.5, 40, 1}};
  for (const auto& [rate, steps, epsilon] : cases) {
    const double sigma = NoiseFor(epsilon, rate, steps, 1e-5).value();
    const SubsampledGaussian mechanism{rate, sigma, steps};
    const double renyi = PrivacyLossOf(mechanism, 1e-5).value().epsilon;
    // Rounding shifts the sum of all losses by at most steps * grid.
    const double grid = 0.008 * epsilon / static_cast<double>(steps);
    double lower = 0, upper = 0;
    for (const auto direction : {L::Direction::kRemove, L::Direction::kAdd}) {
      lower = std::max(lower, L(mechanism, grid, direction, L::Rounding::kDown).Epsilon(1e-5));
      upper = std::max(upper, L(mechanism, grid, direction, L::Rounding::kUp).Epsilon(1e-5));
    }
    EXPECT_LE(upper - lower, 0.01 * upper) << rate << " " << epsilon;
    EXPECT_GE(renyi, lower) << rate << " " << epsilon;
    EXPECT_LE(renyi, 1.15 * upper) << rate << " " << epsilon;
  }
}

}  // namespace
}  // namespace lucid
