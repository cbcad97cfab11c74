// The bound of a pair over a region as a function of its multipliers (weak duality, see
// region_bounder.h), its gradient, and what each neuron adds to it. All of these are functions of
// PairFacts; what they fill is the last argument, so that storage is used again.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "pair/dense_kernels.h"
#include "pair/pair_facts.h"
#include "pair/region.h"

namespace lucid {

// An upper bound, and the part of it that stands for rounding.
struct ChargedBound {
  double value = 0;
  double charge = 0;

  // The part of the bound that rounding accounts for, that of the member's own outputs included. A
  // search decides by it what is worth a try; no bound rests on it.
  double Rounding(const PairQuestion& question, double lambda) const {
    return charge + lambda * question.member_error;
  }
  // The bound with room for what a second program's rounding may differ by (its charges are the
  // same sums of absolute values, times at most a few times as many roundings). At least 0.
  double ForChecker() const { return WithSlack(value) + 8 * charge; }
  static double WithSlack(double bound);
};
// How N's confidence in a class is measured: N_c less one other output of N, or a mixture of them.
class Measure {
 public:
  Measure(const DenseLayer& outputs, const PairQuestion& question);

  // A number, and what its rounding is proportional to: of a mixture the absolute values that it is
  // made of, because they may cancel.
  struct Sized {
    double value = 0, size = 0;
  };
  Sized Weight(std::int64_t k) const;  // of the last hidden layer's unit
  Sized Bias() const;

 private:
  const DenseLayer& outputs_;
  const std::int32_t label_, below_;
  std::vector<std::pair<std::int32_t, double>> mixed_;  // classes and weights; empty: below_ alone
};

// The bound that a sum of numbers gives whose absolute values add up to `size`.
ChargedBound Charge(const PairFacts& pair, double bound, double size);

// Where the dual function is evaluated: A = s cz + p cd + push_a, D = q cd + push_d of every
// neuron.
struct DualPoint {
  explicit DualPoint(const DenseNetwork& network);

  struct Layer {
    PaddedArray s, p, q;         // of neurons whose lines are not the default ones
    PaddedArray push_a, push_d;  // of neurons whose phase the region fixes
  };
  // How strongly the sum of each phase of the region (or of the first ones) is pulled.
  void SetPushes(const Region& region, std::span<const float> pushes);
  // s, p, q of each neuron.
  void SetSlopes(std::span<const float> slopes);
  std::vector<float> Slopes() const;

  std::vector<Layer> layers;
};

// The slopes of neurons that are open (PairFacts::Layer::open); all others have the default lines.
enum class OpenSlopes {
  kDefault,  // the lines of PairFacts, too
  kFlat,     // lines over differences that do not follow N's sums
  kOfPoint,  // those of the DualPoint
};

// An evaluation of the dual function.
struct DualTerms {
  explicit DualTerms(const DenseNetwork& network);

  struct Layer {
    PaddedArray cz, cd;  // coefficients of z and delta
    PaddedArray big_a, big_d;
    PaddedArray s, p, q;  // A = s cz + p cd, D = q cd, but for pushes
    PairPeaks peaks;
    double above = 0;  // the bound of everything but this layer's cz z + cd delta
  };
  std::vector<Layer> layers;
  PaddedArray cx;  // coefficients of the inputs
};

// Ensures: no input in question with f > result has P_c - P_c'' <= member_error, for any
// lambda >= 0 and any point.
ChargedBound EvaluateDual(const PairFacts& pair, const PairQuestion& question, double lambda,
                          const DualPoint& point, OpenSlopes slopes, DualTerms& terms);
// The same with the A and D that `terms` holds, whatever they are.
ChargedBound EvaluateGivenDual(const PairFacts& pair, const PairQuestion& question, double lambda,
                               DualTerms& terms);
// A line over the last hidden layer's cz z + cd delta, which `terms` holds, for every input in
// question: at most result + cx . x.
ChargedBound EvaluateLine(const PairFacts& pair, const DualPoint& point, OpenSlopes slopes,
                          DualTerms& terms);

// The derivatives of a bound by its multipliers.
struct DualGradient {
  explicit DualGradient(const DenseNetwork& network);

  struct Layer {
    PaddedArray by_a, by_d;
    PaddedArray z, delta;  // what the chain rule hands to the next layer
  };
  double by_lambda = 0;
  // N_c - N_j of every class j where the relaxation is largest, of a question that may be mixed:
  // the derivatives by weights.
  std::vector<double> by_class;
  PaddedArray x;  // the input where the bound's linear function is largest
  std::vector<Layer> layers;
};
void FindGradient(const PairFacts& pair, const PairQuestion& question, const DualTerms& terms,
                  DualGradient& gradient);

// N and the member at one input.
struct PairValues {
  explicit PairValues(const DenseNetwork& network);

  struct Layer {
    PaddedArray sum, difference;  // z^, d^
    PaddedArray z, delta;
    PaddedArray loss;  // a neuron's peak minus its term here: what the bound loses by it
  };
  std::vector<Layer> layers;
};
// Where the bound's linear function is largest, all losses add up to the bound minus f - lambda g.
void FindValues(const PairFacts& pair, const DualTerms& terms, const PaddedArray& x,
                PairValues& values);

}  // namespace lucid
