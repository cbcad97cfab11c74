#include "lucid/train/accountant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "numeric/rounding.h"

namespace lucid {
namespace {

// What NoiseFor asks to be left between the computed loss and the wanted one. All terms below are
// sums of positive numbers: their relative error is some thousand roundings at most.
constexpr double kSlack = 1e-8;
constexpr double kEndlessNoise = 1e30;  // a sigma with which steps lose nothing

// ln(e^u - 1) for u > 0.
double LogExpMinusOne(double u) {
  return u > 1 ? u + std::log1p(-std::exp(-u)) : std::log(std::expm1(u));
}

// All whole orders up to 128, then steps of 1/32: beside the best order the loss is flat. Any set
// of orders gives a valid loss.
std::vector<std::int64_t> Orders(Conversion conversion) {
  const std::int64_t largest = conversion == Conversion::kTight ? 4096 : 512;
  std::vector<std::int64_t> orders;
  for (std::int64_t a = 2; a < largest; a += a < 128 ? 1 : a / 32) orders.push_back(a);
  orders.push_back(largest);
  return orders;
}

// What the conversion adds to the divergence of order a.
double ConversionCost(Conversion conversion, std::int64_t order, double delta) {
  const auto a = static_cast<double>(order);
  if (conversion == Conversion::kClassic) return -std::log(delta) / (a - 1);
  return std::log1p(-1 / a) - (std::log(delta) + std::log(a)) / (a - 1);
}

// The least loss that the conversion proves with any noise.
double FloorOf(Conversion conversion, double delta) {
  double floor = kInfinity;
  for (const std::int64_t order : Orders(conversion)) {
    floor = std::min(floor, ConversionCost(conversion, order, delta));
  }
  return floor;
}

// Divergences of mechanisms that follow one another add up, whatever the later ones make of the
// answers of the earlier.
double DivergenceOfOneSum(double sigma, std::int64_t order) {
  return sigma > 0 ? static_cast<double>(order) / (2 * sigma * sigma) : 0;
}

PrivacyLoss Loss(const SubsampledGaussian& mechanism, double delta, Conversion conversion) {
  const double floor = FloorOf(conversion, delta);
  PrivacyLoss best{kInfinity, 0};
  for (const std::int64_t order : Orders(conversion)) {
    const double divergence =
        static_cast<double>(mechanism.steps) * RenyiDivergenceOfStep(mechanism, order) +
        DivergenceOfOneSum(mechanism.once, order);
    if (divergence + floor >= best.epsilon) break;  // divergences never fall with the order
    const double epsilon = divergence + ConversionCost(conversion, order, delta);
    if (epsilon < best.epsilon) best = {epsilon, order};
  }
  best.epsilon =
      std::max(best.epsilon, 0.0);  // (-epsilon, delta) is no stronger claim than (0, delta)
  return best;
}

Status CheckDelta(double delta) {
  if (delta > 0 && delta < 1) return Ok();
  return InvalidInput(fmt::format("delta is {}, must be above 0 and below 1", delta));
}

}  // namespace

std::string_view NameOf(Conversion conversion) {
  return conversion == Conversion::kTight ? "tight" : "classic";
}

Result<Conversion> ConversionNamed(std::string_view name) {
  for (const Conversion conversion : {Conversion::kTight, Conversion::kClassic}) {
    if (NameOf(conversion) == name) return conversion;
  }
  return InvalidInput(fmt::format("unknown accountant '{}': use tight or classic", name));
}

Status SubsampledGaussian::Validate() const {
  if (!(rate > 0 && rate <= 1)) {
    return InvalidInput(fmt::format("sampling rate is {}, must be above 0 and at most 1", rate));
  }
  if (!(sigma > 0 && std::isfinite(sigma))) {
    return InvalidInput(fmt::format("sigma is {}, must be above 0 and finite", sigma));
  }
  if (steps < 1) return InvalidInput(fmt::format("steps is {}, must be at least 1", steps));
  if (!(once >= 0 && std::isfinite(once))) {
    return InvalidInput(fmt::format("once is {}, must be at least 0 and finite", once));
  }
  return Ok();
}

double RenyiDivergenceOfStep(const SubsampledGaussian& mechanism, std::int64_t order) {
  const double q = mechanism.rate, log_q = std::log(q), log_rest = std::log1p(-q);
  const auto a = static_cast<double>(order);
  const double variance = mechanism.sigma * mechanism.sigma;
  if (q == 1) return a / (2 * variance);
  // The binomial weights sum to 1 and the exponents of i = 0 and 1 are 0, so the sum is
  //   1 + sum_{i >= 2} C(a, i) (1-q)^(a-i) q^i (exp((i^2 - i) / (2 sigma^2)) - 1):
  // only positive terms, nothing cancels however small the divergence is.
  std::vector<double> terms;
  double largest = -kInfinity;
  double log_binomial = std::log(a);  // of C(a, 1)
  for (double i = 2; i <= a; ++i) {
    log_binomial += std::log((a - i + 1) / i);
    terms.push_back(log_binomial + (a - i) * log_rest + i * log_q +
                    LogExpMinusOne(i * (i - 1) / (2 * variance)));
    largest = std::max(largest, terms.back());
  }
  if (largest == -kInfinity) return 0;  // below the smallest double
  double sum = 0;
  for (const double term : terms) sum += std::exp(term - largest);
  const double excess = largest + std::log(sum);  // ln(sum - 1)
  const double log_sum =
      excess > 0 ? excess + std::log1p(std::exp(-excess)) : std::log1p(std::exp(excess));
  return log_sum / (a - 1);
}

Result<PrivacyLoss> PrivacyLossOf(const SubsampledGaussian& mechanism, double delta,
                                  Conversion conversion) {
  LUCID_TRY(mechanism.Validate());
  LUCID_TRY(CheckDelta(delta));
  return Loss(mechanism, delta, conversion);
}

Result<double> NoiseFor(double epsilon, double rate, std::int64_t steps, double delta,
                        Conversion conversion, double once) {
  LUCID_TRY((SubsampledGaussian{rate, 1, steps, once}.Validate()));
  LUCID_TRY(CheckDelta(delta));
  if (!(epsilon > 0 && std::isfinite(epsilon))) {
    return InvalidInput(fmt::format("epsilon is {}, must be above 0 and finite", epsilon));
  }
  const double floor = Loss({rate, kEndlessNoise, steps, once}, delta, conversion).epsilon;
  if (floor * (1 + kSlack) >= epsilon) {
    return InvalidInput(fmt::format(
        "epsilon {} is below {:.4g}, the least that the {} accountant can prove at delta {}",
        epsilon, floor, NameOf(conversion), delta));
  }
  const auto enough = [&](double sigma) {
    return Loss({rate, sigma, steps, once}, delta, conversion).epsilon * (1 + kSlack) <= epsilon;
  };
  double high = 1;
  while (!enough(high)) high *= 2;  // ends: with sigma the divergences go to 0, and floor < epsilon
  double low = high / 2;
  while (enough(low)) {
    high = low;
    low /= 2;
  }
  while (high - low > 1e-7 * high) {
    const double middle = (low + high) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace lucid
