// Neuron bounds by linear programming.
#pragma once

#include <chrono>
#include <stop_token>

#include "lucid/base/result.h"
#include "paper/encoding.h"

namespace lucid {

struct TightenOptions {
  int rounds = 3;  // tighter bounds make tighter relaxations, which make tighter bounds
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::stop_token stop;
};

// Narrows the bounds of N (`facts.bounds`) and of the hyper-network: the largest and the smallest
// weighted sum of every neuron of unknown phase over the LP relaxation of the whole encoding.
// Ensures: they hold for every x and network that Encode speaks of with the same label and options
// (that is: where N is confident and the network disagrees), which is all that Encode asks for.
// Every new bound is a safe dual bound; what a solver does not finish stays as it was.
Status TightenByLp(NetworkFacts& facts, const HyperNetwork& hyper, NeuronBounds& bounds,
                   std::int32_t label, const EncodingOptions& encoding,
                   const TightenOptions& options);

}  // namespace lucid
