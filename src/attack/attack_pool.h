// Where the attack starts: points on the boundary of a class of N.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lucid/nn/network.h"

namespace lucid {

// Finds `count` points (row-major) at which N gives `label`, but only just. Each point comes from a
// bisection between an input that N gives `label` and one that it does not. A third of these inputs
// are corners of [0,1]^d, a third are uniform, a third are rows of `data`. If the search sees no
// input of another class, the points are inputs of low confidence instead. If it sees no input of
// the class, there are no points. Requires: count > 0.
std::vector<float> DrawBoundary(const Network& network, std::int32_t label,
                                std::span<const float> data, std::int64_t count,
                                std::uint64_t seed);

}  // namespace lucid
