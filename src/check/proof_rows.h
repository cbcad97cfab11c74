// Many linear functions of one layer's z and delta on their way down to the input together: what
// ProofForm does with one (proof_bounder.h has the notation and what is charged for rounding), for
// every instruction set. The checker's own code.
//
// Terms are added into kLanes sums, term k into sum k mod kLanes, and these are added at the end:
// the bits are the same for vectors of any width. No multiply-add is fused, so that a proof is
// accepted on all machines or on none. For what is charged the order of a sum does not matter, only
// the number of its terms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "check/proof_form.h"

namespace lucid {

// a . x >= at_least for every x in question.
struct ProofHalfSpace {
  // a times `sign`. `smallest` is the smallest a . x - at_least over the box, about.
  ProofHalfSpace(const ProofBox& x, std::span<const double> a, double sign, double at_least);
  std::vector<double> a, at_low, at_high;  // at_low: a times the input's lower end
  double at_least = 0, smallest = 0;
};

class ProofRows {
 public:
  // `terms` is n of proof_bounder.h.
  explicit ProofRows(std::int64_t terms) : terms_(terms) {}

  // Functions 0 .. count - 1 of so many units, all 0. `pair`: they have a part in delta, too.
  void Start(std::size_t count, std::size_t units, bool pair);
  std::span<double> z(std::size_t r) { return {z_.data() + r * stride_, units_}; }
  std::span<double> d(std::size_t r) { return {d_.data() + r * stride_, units_}; }
  std::vector<double> constant, size;  // of each function; S as in ProofForm

  // Every function by the layer's lines, of N alone or, of functions of pairs, of N and the member;
  // then it is one of the layer below. `first`: that is the input, whose delta is 0.
  void Substitute(const ProofLayer& layer, bool first);

  // Of functions of the input: the largest value of each over the box, its points and the half
  // spaces.
  const std::vector<double>& Largest(const ProofBox& x, std::span<const ProofHalfSpace> halves);

 private:
  struct BoxSums {
    double value = 0, size = 0;  // the largest c . x, and the largest sum of |c_j| |x_j|
  };
  BoxSums OverBox(std::size_t r, const ProofBox& x) const;
  double Charged(std::size_t r, const BoxSums& sums, double gamma) const;
  bool LeanOn(std::size_t r, const ProofHalfSpace& half, const ProofBox& x);

  const std::int64_t terms_;
  std::size_t count_ = 0, units_ = 0, stride_ = 0;
  bool pair_ = false;
  std::vector<double> z_, d_, next_z_, next_d_, largest_;
  std::vector<std::pair<double, std::size_t>> breaks_;
};

// Adds to low and high the range of matrix . x for x in `in`, and to `size` the sum of what the
// products can be at most in absolute value.
void AddRange(const ProofMatrix& matrix, const ProofRanges& in, std::span<double> low,
              std::span<double> high, std::span<double> size);

}  // namespace lucid
