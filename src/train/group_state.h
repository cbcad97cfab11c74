// The memory of one group in training; plain data that the kernels work on.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "train/plan.h"

namespace lucid {

struct LayerState {
  Layer shape;
  std::vector<std::int32_t> offsets;  // TapOffset(k), used by convolutions
};

// Rows that go through the network together. More rows share each read of a weight, but have fewer
// neurons that are zero in all of them.
inline constexpr std::int64_t kStrip = 8;

// `left_out` has a unit of the plan per lane (kNoRow for none); surplus lanes repeat the first.
// `inputs` has what each lane does to its inputs before the first layer, or nothing. `out` is
// [lane][parameter]. Returns false when stopped.
using TrainGroupFunction = bool (*)(const TrainPlan& plan, std::span<const LayerState> layers,
                                    std::span<const std::int64_t> left_out,
                                    std::span<const Standardisation> inputs, std::span<float> out,
                                    const std::stop_token& stop);

// The integer sums of a clipped step at these weights, without noise; `out` is [lane][parameter].
using SumGroupFunction = void (*)(const TrainPlan& plan, std::span<const LayerState> layers,
                                  std::span<const std::int64_t> left_out,
                                  std::span<const Standardisation> inputs,
                                  std::span<const float> weights, std::int64_t step,
                                  std::span<std::int32_t> out);

}  // namespace lucid
