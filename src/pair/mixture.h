// Mixtures of classes that N's confidence is measured against: which one is best for what is known,
// and as whole numbers. All of this is advice; a bound holds for any mixture.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pair/region.h"

namespace lucid {

// The question becomes one about the mixture with the weights that are closest to these, which need
// not add up to 1. Requires: finite weights, none below 0, 0 for the question's own class.
void MixClasses(std::span<const double> weights, PairQuestion& question);
// The weights that the question has, which add up to 1.
std::vector<double> MixtureOf(const PairQuestion& question, std::int64_t classes);

// What bounds at some mixtures and multipliers lambda say about others. A bound is convex in both
// (as long as lines stay the same ones), and each point where the relaxation was largest gives a
// plane below it: sum_j w_j (N_c - N_j) + lambda (err - g) of that point.
class MixtureModel {
 public:
  explicit MixtureModel(std::int32_t label) : label_(label) {}
  // A point with N_c - N_j of every class j, and err - g there.
  void Add(std::span<const double> by_class, double by_lambda);
  struct Advice {
    std::vector<double> weights;
    double lambda = 0;
    double value = 0;  // what the planes say of it
  };
  // Where the largest of the planes is smallest, with 0 <= lambda <= most. Requires: a point.
  Advice Best(double most) const;

 private:
  std::int32_t label_;
  std::vector<std::vector<double>> by_class_;
  std::vector<double> by_lambda_;
};

}  // namespace lucid
