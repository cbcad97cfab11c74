// The numbers of clipped and private steps that follow from options and architecture alone.
//
// Sums on a grid. Gradients of units are added in float32 by the same multiply-add as elsewhere,
// but the sum starts at the offset M = 1.5 * 2^23 g and not at 0, so that every product is rounded
// to a multiple of the grid g by itself. Before the sum could leave [2^23 g, 2^24 g) its whole part
// k = (S - M) / g moves to an integer: acc += k & ~1, S = M + (k & 1) g. The parity stays, so that
// ties are broken as if nothing had been moved. Leaving out a unit of norm at most C changes the
// integer sum by at most
//
//   Delta = (1 + eta) C / g + 1.5 R sqrt(p)
//
// in the 2-norm: (1 + eta) C is the norm with every rounding of the clipping (eta below). Each of R
// rows adds at most 0.5 a coordinate by its own rounding and at most 1 by turning one later tie;
// after a turned tie both sums are even, and further ties fall alike.
#pragma once

#include <cstdint>

#include "lucid/nn/architecture.h"
#include "lucid/train/options.h"

namespace lucid {

// A unit's rows lie in one strip.
inline constexpr std::int64_t kMaxRowsPerUnit = 8;

// A row whose activations have a larger squared norm counts as not finite: below it, squares that
// underflow cannot hide anything from the norm of a gradient.
inline constexpr float kMaxSquaredNorm = 0x1p64F;

struct Clipping {
  float clip = 0;          // C
  float grid = 0;          // g: the largest power of two that is at most 2^-14 C
  float offset = 0;        // M
  std::int64_t room = 0;   // rows (each of at most C) between two moves to the integers
  double sensitivity = 0;  // Delta, in grid units, rounded up
  // (w + layers R^2 + 8) 2^-23 of the squared sum of its rows' norms: charged for the cross terms
  // of a unit, which may cancel. Each is a dot product of at most w terms; they are at most
  // R^2 / 2 in each layer, added one by one.
  float unit_slack = 0;
  float scale = 0;  // gradient = integer sum * scale: g over the expected batch size

  // Requires: resolved options of the method kClipped or kPrivate.
  static Clipping Of(const TrainOptions& options, const Architecture& architecture);
};

// s2 = ceil((sigma Delta)^2): noise of at least sigma times the sensitivity. Errors: more noise
// than DiscreteGaussian samples.
Result<std::uint64_t> NoiseVariance(double sigma, double sensitivity);

// The other way round: noise over sensitivity, rounded down.
double SigmaOf(std::uint64_t variance, double sensitivity);

// The Poisson sampling of private steps, in integers.
struct Sampling {
  bool everybody = false;       // q = 1
  std::uint64_t threshold = 0;  // in if h64 < threshold: floor(q 2^64)
  std::int64_t steps = 0;       // ceil(epochs / q)
  double rate = 0;              // q, rounded up

  static Sampling Of(const TrainOptions& options);
};

}  // namespace lucid
