// Where the bound of a pair over a region loses most, and how to cut the region there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pair/multiplier_search.h"

namespace lucid {

struct SplitAdvice {
  // The hidden neuron that adds most to what the bound loses, of those that the region fixes no
  // phase of. `active` of a split means nothing here.
  std::optional<PhaseSplit> phase;
  // The neuron of which the region fixes one phase and the other is open, if it loses more.
  std::optional<PhaseSplit> other_phase;
  std::int32_t input = -1;  // the input whose halving promises most; -1: the box is a point
  std::int32_t open = 0;    // neurons with a phase, of N or of the member, that is not known
  // The input that is best for the relaxation, a mixture of two in general.
  std::vector<double> point;
};

// Where to cut to improve the bound that these multipliers give. `target` is what bounds are to
// come down to.
SplitAdvice AdviseSplit(const PairFacts& pair, const PairQuestion& question,
                        const Multipliers& multipliers, double target, DualWork& work);

// Among the hidden layers from `from` on, the neuron whose unknown phase loses most at x, if that
// is more than `least`; `active` is not set. It is about the bound that lambda, the pushes and the
// default lines give.
std::optional<PhaseSplit> FindOpenPhase(const PairFacts& pair, const PairQuestion& question,
                                        const Multipliers& multipliers, std::size_t from,
                                        std::span<const double> x, double least, DualWork& work);

}  // namespace lucid
