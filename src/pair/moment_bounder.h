// The bounds of region_bounder.h, from moments instead of lines: some thousand times as much work,
// and with many inputs several times tighter.
//
// Lines relax every neuron by itself. Here the products of all quantities are followed, too. With
// v = (1, x, z, delta), z and delta of every neuron whose phases are not known, every input of the
// region satisfies, in the notation of region_bounder.h and with z^, d^ linear in v,
//   (v_j - lo_j)(up_j - v_j) >= 0        of every x, z, delta and z - z^,
//   z - z^ >= 0,   z (z - z^) = 0,       z = relu(z^)
//   (z + delta)(z + delta - z^ - d^) - z (z - z^) = 0,        z + delta = relu(z^ + d^)
//   z (delta - d^) >= 0,   delta (z - z^) >= 0,               delta >= d^ where N is active, else 0
//   delta (d^ - delta) >= 0,                                  delta lies between 0 and d^
//   (f - least)(most - f) >= 0           of N's confidence, which has to be in the band.
// The last one is what lines cannot say: f is nearly constant, so that inputs far on both sides of
// N's boundary cannot be mixed. For any multipliers y >= 0 (of equations: any y) of these
// q_i(v) >= 0, every input with f in the band that leaks has
//   f <= f - g + err <= max over the ranges of v of (f - g + err + sum_i y_i q_i(v)),
// a quadratic. Where its matrix is negative semidefinite, which a Cholesky factor shows, the
// maximum is that of a concave function. So again multipliers decide how tight a bound is and never
// whether it holds. They come from an interior-point method for the semidefinite program (the
// moment relaxation of first order) that they are the dual of.
//
// Rounding is charged a priori, see Prove in the .cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lucid/nn/network.h"
#include "pair/pair_facts.h"

namespace lucid {

// One per thread.
class MomentBounder {
 public:
  // Whether such networks can be bounded here: their relaxations have not too many constraints.
  static bool Fits(const Architecture& architecture);
  static constexpr std::int64_t kMostConstraints = 4000;

  // Requires: Fits.
  explicit MomentBounder(const Network& network);
  ~MomentBounder();

  // Requires: `pair` is of the member with these parameters, with this band or none. Ensures: no
  // input of its region with f >= band.least and N_c - N_c'' <= band.most has
  // f > result and P_c - P_c'' <= member_error. (question.below is not used.) Starts from
  // `multipliers` if they are of a region around this one, leaves the best there, ends when the
  // bound is at or below `enough`, when the optimum is near, or when expired() says so.
  // `half_way`, if not null: multipliers that another pair of the member had half-way, over the
  // same box, or none. A start from them takes half as many steps. They become those of this pair.
  double Bound(const PairFacts& pair, std::span<const float> parameters,
               const PairQuestion& question, const Band& band, double enough,
               std::vector<float>& multipliers, const std::function<bool()>& expired = {},
               std::vector<float>* half_way = nullptr);

  // After Bound: the input whose interval adds most to the bound; -1: none has a length.
  std::int32_t WidestInput() const;

 private:
  struct Relaxation;
  const std::unique_ptr<Relaxation> relaxation_;
};

}  // namespace lucid
