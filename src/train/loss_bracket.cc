#include "train/loss_bracket.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

namespace lucid {
namespace {

// The largest loss of a step that is looked at: its exponential is a double.
constexpr double kLongestReach = 600;
constexpr std::int64_t kMostSize = std::int64_t{1} << 23;
// Rounding shifts the sum of all losses by at most (steps + 1) * grid: less than 1 % of epsilon.
constexpr double kWidth = 0.008;

// The privacy loss distribution of all steps on a grid, and of the sum before them if there is one.
// Distributions are composed by a fast Fourier transform. Losses that are rounded down give a lower
// end of epsilon, rounded up an upper one.
class LossDistribution {
 public:
  enum class Direction { kRemove, kAdd };
  enum class Rounding { kDown, kUp };

  LossDistribution(const SubsampledGaussian& step, double grid, std::int64_t size,
                   Direction direction, Rounding rounding)
      : grid_(grid), size_(size), mass_(MassOf(step, direction, rounding)) {
    for (auto& z : mass_) z = std::pow(z, static_cast<double>(step.steps));
    if (step.once > 0) {
      const auto once = MassOf({1, step.once, 1}, direction, rounding);
      for (std::size_t i = 0; i < mass_.size(); ++i) mass_[i] *= once[i];
    }
    Transform(mass_, true);
    for (auto& z : mass_) z /= static_cast<double>(size_);
  }

  // The smallest epsilon with E[(1 - exp(epsilon - loss))+] <= delta.
  double Epsilon(double delta) const {
    double low = 0, high = grid_ * static_cast<double>(size_) / 2;
    while (high - low > 1e-6 * high) {
      const double middle = (low + high) / 2;
      (DeltaAt(middle) <= delta ? high : low) = middle;
    }
    return high;
  }

 private:
  // The transform of one step's distribution.
  std::vector<std::complex<double>> MassOf(const SubsampledGaussian& step, Direction direction,
                                           Rounding rounding) const {
    std::vector<std::complex<double>> mass(static_cast<std::size_t>(size_));
    // The loss ln(1 - q + q exp((2 x - 1) / (2 sigma^2))) rises with x. Removing looks at it under
    // the mixture, adding at its negative under the Gaussian at 0.
    const double sigma = step.sigma, reach = 13 * sigma;
    const auto first = static_cast<std::int64_t>(std::floor(LossAt(step, -reach) / grid_));
    const auto last = static_cast<std::int64_t>(std::ceil(LossAt(step, reach + 1) / grid_));
    const bool remove = direction == Direction::kRemove;
    for (std::int64_t k = first; k < last; ++k) {
      const double low = PlaceOf(step, static_cast<double>(k) * grid_);
      const double high = PlaceOf(step, static_cast<double>(k + 1) * grid_);
      const double p = remove ? (1 - step.rate) * Between(low, high, 0, sigma) +
                                    step.rate * Between(low, high, 1, sigma)
                              : Between(low, high, 0, sigma);
      // The losses of this cell lie in [k, k + 1] grid (adding: in -[k, k + 1] grid).
      const std::int64_t at = remove ? (rounding == Rounding::kUp ? k + 1 : k)
                                     : (rounding == Rounding::kUp ? -k : -k - 1);
      mass[static_cast<std::size_t>((at + size_) % size_)] += p;
    }
    Transform(mass, false);
    return mass;
  }
  static double LossAt(const SubsampledGaussian& step, double x) {
    const double exponent = (2 * x - 1) / (2 * step.sigma * step.sigma);
    return step.rate == 1 ? exponent : std::log1p(step.rate * std::expm1(exponent));
  }
  static double PlaceOf(const SubsampledGaussian& step, double loss) {
    if (step.rate == 1) return step.sigma * step.sigma * loss + 0.5;
    const double inner = (std::expm1(loss) + step.rate) / step.rate;
    if (inner <= 0) return -1e300;
    return step.sigma * step.sigma * std::log(inner) + 0.5;
  }
  static double Between(double low, double high, double mean, double sigma) {
    const auto tail = [&](double x) {
      return std::erfc((x - mean) / sigma / std::numbers::sqrt2) / 2;
    };
    return tail(low) - tail(high);
  }
  double DeltaAt(double epsilon) const {
    double sum = 0;
    for (std::int64_t k = size_ / 2 - 1; static_cast<double>(k) * grid_ > epsilon; --k) {
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

  double grid_;
  std::int64_t size_;
  std::vector<std::complex<double>> mass_;
};

}  // namespace

Result<EpsilonBracket> BracketOf(const SubsampledGaussian& mechanism, double delta, double near) {
  LUCID_TRY(mechanism.Validate());
  const auto steps = static_cast<double>(mechanism.steps);
  const double grid = kWidth * near / steps;
  // Sums of losses up to three times `near` fit on either side, and one step's does.
  const auto reach_of = [](double sigma) { return (26 * sigma + 1) / (2 * sigma * sigma); };
  double reach = reach_of(mechanism.sigma);
  if (mechanism.once > 0) reach = std::max(reach, reach_of(mechanism.once));
  if (reach > kLongestReach) {
    return InvalidInput(fmt::format(
        "noise {:.3g} is too little for the bracket",
        mechanism.once > 0 ? std::min(mechanism.sigma, mechanism.once) : mechanism.sigma));
  }
  const double cells = 2 * std::max(3 * near, reach) / grid;
  if (!(cells < static_cast<double>(kMostSize))) {
    return InvalidInput(fmt::format("{} steps with noise {:.3g} are too many for the bracket",
                                    mechanism.steps, mechanism.sigma));
  }
  const auto size = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(cells) + 1));
  using L = LossDistribution;
  EpsilonBracket bracket;
  for (const auto direction : {L::Direction::kRemove, L::Direction::kAdd}) {
    const auto epsilon = [&](L::Rounding rounding) {
      return L(mechanism, grid, size, direction, rounding).Epsilon(delta);
    };
    bracket.lower = std::max(bracket.lower, epsilon(L::Rounding::kDown));
    bracket.upper = std::max(bracket.upper, epsilon(L::Rounding::kUp));
  }
  return bracket;
}

}  // namespace lucid
