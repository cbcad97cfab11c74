// Upper bounds of how confidently N can give a class where a member gives another, over a region of
// inputs: the differential linear bounds of the native engine.
//
// N is the network that is asked, W and b are its weights and biases. The member P has weights
// W' = W + dW and biases b + db. c is a class, f is N's confidence in it: output c minus the
// largest other output, so that f <= N_c - N_c' for any class c' != c. An input leaks to the class
// c'' if g = P_c - P_c'' <= err. A bound of the pair is a number such that no input with a larger f
// leaks.
//
// A bound is found in steps, each a function of the one before: what is known of N in the region,
// and of the member there (pair_facts.h); the bound as a function of its multipliers
// (dual_bound.h); good multipliers (multiplier_search.h); and where to cut the region
// (split_advice.h).
//
// N's weighted sums z^ and the member's differences d^ = z^_member - z^ are followed together:
//   z^ = W z + b,   d^ = W' delta + dW z + db,   z = relu(z^),   delta = relu(z^ + d^) - z.
// For any multiplier lambda >= 0 of the constraint g <= err and any numbers A_k, D_k for the hidden
// neurons k:
//   f <= f - lambda (g - err) <= constant + max_x (coefficients . x)
//        + sum_k max over (z^, d^) in polygon_k of (cz_k z + cd_k delta - A_k z^ - D_k d^),
// where cz, cd are what W^T A + dW^T D and W'^T D of the layer above (or the outputs) give: weak
// duality, A and D being the multipliers of the equations for z^ and d^. So multipliers decide how
// tight a bound is, never whether it holds. polygon_k is made of intervals of z^ and d^ and of the
// phases that the region fixes; each term is piecewise linear, hence largest at one of eleven
// points.
//
// Rounding: every sum has at most n = 2 (units + inputs) + 64 terms. With gamma = gamma_n and
// s_k = sum_j |W_kj| |z_j| + |W'_kj| |delta_j| + |dW_kj| |z_j| + |b_k| + |db_k| (at or above |z^_k|
// and |d^_k|, and what the exact coefficients of neuron k's row add up to), computing coefficients,
// peaks and sums in plain double changes the bound by at most
//   2 gamma S,   S = sum_k (|cz_k| + |cd_k| + |A_k| + |D_k|) s_k.
// Twice that is added, which covers the rounding of this sum and of s.
//
// More than two classes. f is the least of all N_c - N_j, hence at most any mixture of them,
// sum_j w_j (N_c - N_j) with weights w_j >= 0 that add up to 1. Where two classes are level in N, a
// mixture of the two is far below each of them, because no input has both differences large. So
// N_c' above may be sum_j w_j N_j. Weights are whole multiples of 1 / kWholeWeight, so that they
// add up to 1 exactly. A weight times a float is exact in double, and W_c - sum_j w_j W_j takes one
// rounding for each class, of numbers that are at most |W_c| + sum_j w_j |W_j|. There are fewer
// classes than n, so the row is off by at most gamma times that. It is added to S, times s_k, where
// |W_c - W_c'| of a single class would be.
//
// The intervals of the neurons come from rows of lines, whose slopes are at most 1: of cz_k z +
// cd_k delta they leave |A_k| <= |cz_k| + 2 |cd_k| and |D_k| <= |cd_k|. So with the computed
//   size = sum_k (|cz_k| + |cd_k|) s_k
// the four terms above add up to at most 4 size, the error is at most 8 gamma size, and twice that,
// 16 gamma size, is added. Without a member (cd = 0, D = 0) it is 2 size, so that the same charge
// is more than enough. Cuts by a band are such rows, too. Interval arithmetic takes one product and
// sum per term: gamma s_k bounds its error, and 2 gamma s_k is added for the same reason.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lucid/nn/network.h"
#include "numeric/rounding.h"
#include "pair/multiplier_search.h"
#include "pair/pair_facts.h"
#include "pair/recycled.h"
#include "pair/split_advice.h"

namespace lucid {

// The bounds of N's pairs. What is known of a region (RegionFacts), and of a member there
// (PairFacts), are values: a bound of a pair cannot be asked for before both were found, and it
// does not depend on what else was asked. This class owns the storage that all of them use again
// and again. One per thread; facts must not outlive it, nor a member's facts its region's.
class RegionBounder {
 public:
  // Regions are parts of the domain (null: of [0,1]^d, or of whatever their boxes are).
  explicit RegionBounder(const Network& network, const Domain* domain = nullptr);
  RegionBounder(const RegionBounder&) = delete;
  RegionBounder& operator=(const RegionBounder&) = delete;

  // What is known of N over the region. None: the region holds no input (in the band).
  Recycled<RegionFacts> Enter(const Region& region, const Band* band = nullptr);
  // What is known of N and a member there. None: no input of the region has the member's phases.
  Recycled<PairFacts> Enter(const RegionFacts& region, std::span<const float> parameters);

  // A region and a pair in it, entered at once; the pair needs the region to stay.
  struct EnteredPair {
    Recycled<RegionFacts> region;
    Recycled<PairFacts> pair;
    explicit operator bool() const { return static_cast<bool>(pair); }
    const PairFacts& operator*() const { return *pair; }
  };
  EnteredPair EnterPair(const Region& region, std::span<const float> parameters,
                        const Band* band = nullptr);

  // The same promise as Bound from interval arithmetic alone, which takes a tenth of the time.
  ChargedBound IntervalBound(const RegionFacts& region, std::span<const float> parameters,
                             const PairQuestion& question);

  // Ensures: no x of the region with f(x) > result has P_c - P_c'' <= member_error. Starts from the
  // multipliers or the default lines, whichever is better, takes up to `steps` steps of descent
  // until the bound is at or below `enough`, and leaves the best multipliers there. `dual`, if not
  // null: A then D of every hidden neuron, layer by layer, rounded to float32.
  ChargedBound Bound(const PairFacts& pair, const PairQuestion& question, Multipliers& multipliers,
                     int steps, double enough, std::vector<float>* dual = nullptr);
  // The bound that these A and D give, whatever they are: what a proof's checker computes.
  ChargedBound BoundOfDual(const PairFacts& pair, const PairQuestion& question, double lambda,
                           std::span<const float> dual);

  // What the layers above a hidden one leave to be bounded: for every input in question that leaks,
  //   f <= constant + sum_k z[k] z_k + delta[k] delta_k    of that layer's neurons.
  // Valid until the next call. Requires: lambda >= 0; pushes of the region's first phases, as in
  // Multipliers.
  struct Rest {
    double constant = 0;
    double charge = 0;  // for rounding, in the constant
    std::span<const double> z, delta;
  };
  Rest RestOf(const PairFacts& pair, std::size_t layer, const PairQuestion& question, double lambda,
              std::span<const float> pushes);
  // A line over the last hidden layer's sum_k z[k] z_k + delta[k] delta_k, for every input of the
  // region: at most constant + slopes . x. Valid until the next call.
  struct Line {
    double constant = 0;
    double charge = 0;  // for rounding, in the constant
    std::span<const double> slopes;
  };
  Line LineOver(const PairFacts& pair, std::span<const double> z, std::span<const double> delta,
                OpenSlopes lines);

  // Where to cut (split_advice.h).
  SplitAdvice Advise(const PairFacts& pair, const PairQuestion& question,
                     const Multipliers& multipliers, double target = kInfinity) {
    return AdviseSplit(pair, question, multipliers, target, work_);
  }
  std::optional<PhaseSplit> OpenPhase(const PairFacts& pair, const PairQuestion& question,
                                      const Multipliers& multipliers, std::size_t from,
                                      std::span<const double> x, double least) {
    return FindOpenPhase(pair, question, multipliers, from, x, least, work_);
  }

 private:
  const DenseNetwork network_;
  const InputPoints::Groups groups_;
  FactFinder finder_;
  DualWork work_;
  const DualPoint no_pushes_;
  Recycler<RegionFacts> regions_;
  Recycler<PairFacts> pairs_;
};

}  // namespace lucid
