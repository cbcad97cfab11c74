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

// The run's options for a training of this table that neither clips nor adds noise. A run of format
// 1 does not say how many rows it expects: as many as there are.
Result<TrainOptions> PlainOptions(const TrainOptions& options, const Architecture& architecture,
                                  const Table& table);

// The plan's steps from its initial weights by its rule (rate, weight decay, momentum, averaged
// weights; see TrainOptions). Errors: kInterrupted; weights that are no longer finite (`what` names
// the training).
Result<Network> Descend(const TrainPlan& plan, const GradientOfStep& gradient_of,
                        std::stop_token stop, const char* what);

}  // namespace lucid
