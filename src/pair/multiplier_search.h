// The search for multipliers that make the bound of a pair small.
#pragma once

#include <vector>

#include "pair/dual_bound.h"

namespace lucid {

// A bound's free choices: where a search starts from, and what it leaves for the next region.
struct Multipliers {
  double lambda = 1;
  std::vector<float> slopes;  // as in DualPoint; empty: the default lines
  std::vector<float> pushes;  // as in DualPoint
  float steepest = 0;         // the largest |d bound / d lambda| seen, the scale of lambda's steps
  // What N is measured against, where the question leaves that open: as in PairQuestion. Below is
  // -1 if it is what the question says.
  std::int32_t below = -1;
  std::vector<std::uint8_t> weights;

  // The question that these are of.
  PairQuestion Applied(PairQuestion question) const {
    if (!question.mix || below < 0) return question;
    question.below = below;
    question.weights = weights;
    return question;
  }

  OpenSlopes Slopes() const { return slopes.empty() ? OpenSlopes::kDefault : OpenSlopes::kOfPoint; }
};

// Storage for evaluations, which is used again and again. One per thread.
struct DualWork {
  explicit DualWork(const DenseNetwork& network)
      : point(network), terms(network), gradient(network), values(network) {}
  // `point` becomes where the multipliers are.
  void MoveTo(const Region& region, const Multipliers& multipliers) {
    point.SetPushes(region, multipliers.pushes);
    if (!multipliers.slopes.empty()) point.SetSlopes(multipliers.slopes);
  }

  DualPoint point;
  DualTerms terms;
  DualGradient gradient;
  PairValues values;
};

// Starts from the multipliers or the default lines, whichever is better, takes up to `steps` steps
// of descent until the bound is at or below `enough`, and leaves the best multipliers there. The
// bound is that of EvaluateDual with these, and work.terms is its evaluation.
ChargedBound SearchMultipliers(const PairFacts& pair, const PairQuestion& question,
                               Multipliers& multipliers, int steps, double enough, DualWork& work);

}  // namespace lucid
