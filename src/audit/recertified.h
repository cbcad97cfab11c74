// The exact guard's region if the service were certified anew without a row.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// An input to ask the service without the row of `member`. x must live as long as it is used.
struct PointWithout {
  std::int64_t member = 0;
  std::span<const float> x;
};

// For each point, whether that service would noise it: whether some network without this row and
// another one gives a label that N_-i does not give. Those networks are not trained: the logits of
// the one without i and j are taken to be N_-i + N_-j - N, which is right to first order in what a
// row does to a network. An estimate, for information. O(members * points). Errors: a parameter
// that is not finite; kInterrupted.
Result<std::vector<bool>> NoisedWithoutRow(const Ensemble& ensemble,
                                           std::span<const PointWithout> points,
                                           const ProgressCallback& progress = {},
                                           const std::stop_token& stop = {});

}  // namespace lucid
