// The true iDP-DB of tiny networks, by brute force over activation patterns.
#pragma once

#include <cstdint>
#include <span>

#include "lucid/nn/network.h"
#include "pair/test_support.h"

namespace lucid {

struct TrueLeak {
  Exact beta = 0;            // f(x); 0 if nothing leaks
  Point x;                   // empty if nothing leaks
  std::int64_t member = -1;  // whose g(x) <= allowance
};

// max { f(x) : x in [0,1]^d, f(x) >= 0, g_i(x) <= allowance for some member i }.
//
// The box is cut along every neuron's boundary into the cells where neither N nor the member
// changes its pattern, and these along the ties of classes and along g = allowance: f is linear on
// each cell and lies under the constraint or not as a whole, so the largest f is at a vertex. Every
// vertex that would beat the best is rounded to double and evaluated directly: it counts only if
// its f and g themselves satisfy the constraints, whatever went wrong before. So the result is at
// or below the truth (up to ExactConfidence's rounding, which is below 1e-28 with grid parameters,
// a double x in [0,1]^d, values below 2^10 and at most three layers of at most six products); it
// falls short by rounding only.
//
// `slack` is how far g may exceed the allowance at such a rounded vertex.
// Requires: at most 3 inputs.
TrueLeak BruteForceBeta(const Network& network, std::span<const Network> members,
                        std::int32_t label, double allowance, double slack);

}  // namespace lucid
