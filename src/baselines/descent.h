// Gradient descent as the run was trained, with another gradient.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>

#include "lucid/base/result.h"
#include "lucid/nn/network.h"
#include "train/plan.h"

namespace lucid {

// Writes into `gradient` what step `step` goes down, at these weights.
using GradientOfStep = std::function<void(std::int64_t step, std::span<const float> weights,
                                          std::span<float> gradient)>;

// `steps` steps from the plan's initial weights by its rule (rate, weight decay, momentum, averaged
// weights; see TrainOptions). An epoch's averaged weights are those at its end, counted from the
// last step backwards. Errors: kInterrupted; weights that are no longer finite (`what` names the
// training).
Result<Network> Descend(const TrainPlan& plan, std::int64_t steps,
                        const GradientOfStep& gradient_of, std::stop_token stop, const char* what);

}  // namespace lucid
