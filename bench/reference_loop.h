// Training as a textbook writes it: one network, one row at a time, in double. Slow, and
// independent of the kernels that it checks.
#pragma once

#include <cstdint>
#include <vector>

#include "train/plan.h"

namespace lucid {

// The parameters after all epochs of `plan` without row `left_out` (-1: none).
// Requires: constant rate, no momentum, no averaging.
std::vector<double> TrainByReference(const TrainPlan& plan, std::int64_t left_out);

}  // namespace lucid
