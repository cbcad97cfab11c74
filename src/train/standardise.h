// Inputs of mean 0 and about one deviation, for presets that clip.
//
// The gradient of a row by the first layer is large where its inputs are large. Where all rows have
// an input in common, that part fills the clipped norm and says nothing about the row; where an
// input varies little, it is not heard. So T may standardise: it trains on (x - center) * factor,
// and folds both into the first layer when it is done. The network that T gives reads x as before.
//
// Center and factor come from the moments of D: a count, a sum and a sum of squares for every
// input, in integers. They are sums over units like the sums of a step, so a private training adds
// noise to them once, before its first step, and its accountant knows of it. A member has the
// moments of D without its unit, with the same noise.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/data/dataset.h"
#include "lucid/nn/architecture.h"
#include "lucid/train/options.h"
#include "random/wiped_vector.h"

namespace lucid {

// What becomes of each input: (x - center) * factor.
struct Standardisation {
  std::vector<float> centers, factors;
};

// A count, a sum per input, a sum of squares per input.
inline std::int64_t NumberOfMoments(std::int64_t inputs) { return 2 * inputs + 1; }

// What leaving out a unit changes of the moments at most, in the 2-norm; rounded up. A row adds
// kGrid to the count. Its inputs and their squares are scaled to a norm of at most
// kGrid sqrt(inputs).
double MomentSensitivity(const TrainOptions& options, const Architecture& architecture);

// Fills in options.moments_variance, where inputs are standardised. Errors: more noise than this
// program adds.
Status ResolveMoments(TrainOptions& options, const Architecture& architecture);

// The noise of the moments over their sensitivity, rounded down; 0 where inputs are as they are.
double MomentsSigma(const TrainOptions& options, const Architecture& architecture);

// The moments of a table in units of 1 / kGrid, and what follows from them.
class InputMoments {
 public:
  static constexpr std::int64_t kGrid = 1024;

  // `noise` has NumberOfMoments(inputs) numbers, or none. `unit_of`: of each row. The spans and the
  // table must outlive this. Requires: resolved options.
  InputMoments(const Architecture& architecture, const Table& table,
               std::span<const std::int32_t> unit_of, const TrainOptions& options,
               WipedVector<std::int64_t> noise);

  // Without the rows of a unit (-1: of all rows).
  Standardisation Without(std::int64_t unit) const;

  // What the rows of a unit add to the moments, before noise.
  std::vector<std::int64_t> OfUnit(std::int64_t unit) const;

 private:
  void AddRow(std::int64_t row, std::span<std::int64_t> sums) const;

  const Table& table_;
  std::span<const std::int32_t> unit_of_;
  double expected_rows_ = 0;
  bool pooled_ = false;             // the first layer is a convolution: its taps meet all inputs
  WipedVector<std::int64_t> sums_;  // with noise
};

// The network on standardised inputs becomes the same network on the inputs themselves.
void FoldInputs(const Architecture& architecture, const Standardisation& inputs,
                std::span<float> parameters);

}  // namespace lucid
