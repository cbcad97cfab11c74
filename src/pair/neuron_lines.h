// Lines over and under one neuron's output z = relu(z^) and its member's difference delta, chosen
// by the ranges of the neuron's sums (dense_kernels.h has both structs).
#pragma once

#include <cstdint>

#include "pair/dense_kernels.h"

namespace lucid {

// su, tu and sl of neuron k, whose z^ is in [l, u].
void ChooseOutputLines(double l, double u, std::int64_t k, PairLines& lines);

// The slopes over and under delta of neuron k; its intercepts follow from them by SetIntercepts, so
// a bad choice costs tightness and nothing else. `split`: the region fixes a phase of the neuron.
// Requires: ChooseOutputLines.
void ChooseDifferenceLines(const PairRanges& ranges, bool split, std::int64_t k, PairLines& lines);

// The smallest ut and the largest lt that the chosen slopes allow, for every neuron.
class InterceptFinder {
 public:
  void Set(const PairRanges& ranges, PairLines& lines);

 private:
  PaddedArray cz_, cd_, a_, d_;
  PairPeaks peaks_;
};

// Whether a row that is substituted by the lines of neuron k can depend on it at all.
bool HasSlope(const PairLines& lines, std::int64_t k);

}  // namespace lucid
