// Where the attack starts: points on the boundary of a class of N.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lucid/nn/network.h"

namespace lucid {

// `count` points (row-major) at which N has just label `label`: each by bisection between a point
// of the class and one outside, drawn from corners of [0,1]^d, uniformly, and from `data`, a third
// each. If N gives nothing but `label` (as far as the search sees): points of low confidence
// instead. Empty if N never gives `label`, as far as the search sees. Requires: count > 0.
std::vector<float> DrawBoundary(const Network& network, std::int32_t label,
                                std::span<const float> data, std::int64_t count,
                                std::uint64_t seed);

}  // namespace lucid
