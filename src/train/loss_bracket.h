// An accountant of another kind than accountant.h: privacy loss distributions.
#pragma once

#include "lucid/base/result.h"
#include "lucid/train/accountant.h"

namespace lucid {

// The true epsilon at delta lies between them, in both directions (adding a unit, removing one), up
// to rounding of doubles and tails beyond 13 standard deviations (1e-38).
struct EpsilonBracket {
  double lower = 0, upper = 0;
};

// Losses of one step on a grid, rounded down for the lower end and up for the upper one, composed
// by fast Fourier transforms. The ends are within 1 % of each other if `near` is about as large as
// they are. Some seconds. Errors: fields out of range; more steps than the transform has room for.
Result<EpsilonBracket> BracketOf(const SubsampledGaussian& mechanism, double delta, double near);

}  // namespace lucid
