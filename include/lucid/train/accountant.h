// How much privacy DP-SGD spends: the Renyi accountant of the subsampled Gaussian mechanism.
#pragma once

#include <cstdint>
#include <string_view>

#include "lucid/base/result.h"

namespace lucid {

// From Renyi divergences rdp(a) of integer orders a to (epsilon, delta):
enum class Conversion {
  kTight,    // min_a rdp + ln(1 - 1/a) - (ln delta + ln a) / (a - 1), orders up to 4096
  kClassic,  // min_a rdp + ln(1/delta) / (a - 1), orders up to 512: what the paper's baseline used.
             // It proves nothing below ln(1/delta) / 511 (0.0225 at delta = 1e-5)
};
std::string_view NameOf(Conversion conversion);  // "tight", "classic"
Result<Conversion> ConversionNamed(std::string_view name);

// `steps` times: every row is in with probability `rate`, and Gaussian noise of `sigma` times the
// clipping norm is added to the sum.
struct SubsampledGaussian {
  double rate = 0;
  double sigma = 0;
  std::int64_t steps = 0;
  // Before the steps, noise of `once` times the sensitivity is added to one sum over everybody.
  // 0: there is no such sum.
  double once = 0;

  // rate in (0, 1], sigma > 0 and finite, steps >= 1, once >= 0 and finite
  Status Validate() const;
};

struct PrivacyLoss {
  double epsilon = 0;      // with delta: an upper bound up to rounding (1e-8 of it is above that)
  std::int64_t order = 0;  // the order that gave it
};

// ln(sum_i C(a, i) (1-q)^(a-i) q^i exp((i^2 - i) / (2 sigma^2))) / (a - 1): the divergence of one
// step at the order a. Requires: order >= 2, mechanism valid. O(order).
double RenyiDivergenceOfStep(const SubsampledGaussian& mechanism, std::int64_t order);

// Errors: fields out of range, delta outside of (0, 1). Some milliseconds.
Result<PrivacyLoss> PrivacyLossOf(const SubsampledGaussian& mechanism, double delta,
                                  Conversion conversion = Conversion::kTight);

// The smallest noise whose loss is at most `epsilon`: PrivacyLossOf(result) <= epsilon always, and
// the result is at most a millionth larger than needed. Errors: arguments out of range; an epsilon
// below what the conversion can prove with any noise (the message names that floor).
Result<double> NoiseFor(double epsilon, double rate, std::int64_t steps, double delta,
                        Conversion conversion = Conversion::kTight, double once = 0);

}  // namespace lucid
