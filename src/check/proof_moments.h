// The bound that a closing's multipliers of products give, recomputed. The checker's own code.
// docs/proof.md has the mathematics.
//
// With v = (1, x, z, delta), z and delta of every hidden neuron whose phases are not known, every
// input of the region satisfies, z^ and d^ being linear in v,
//   (v_j - lo_j)(up_j - v_j) >= 0         of every x, z, delta and z - z^,
//   z - z^ >= 0,   z (z - z^) = 0,        z = relu(z^)
//   (z + delta)(z + delta - z^ - d^) - z (z - z^) = 0,        z + delta = relu(z^ + d^)
//   z (delta - d^) >= 0,   delta (z - z^) >= 0,               delta >= d^ where N is active, else 0
//   delta (d^ - delta) >= 0,                                  delta lies between 0 and d^
//   (h - least)(most - h) >= 0            of h = N_c - N_c'', if there is a `most`.
// With two classes h is f, and the band of a claim says this. With more, h is at least f, hence at
// least `least`, and the caller knows a `most` of h where the pair leaks (ClaimChecker has one by
// lines).
// For any multipliers y of these q_i, not negative where q_i is an inequality, an input that leaks
// has f <= f - g + e + sum_i y_i q_i(v) = -(1, v) S (1, v), S = (s, -r'; -r, Q), and with any p
//   -s + 2 r.v - v.Qv = -s + 2 r.p - p.Qp + 2 (r - Qp).(v - p) - (v - p).Q(v - p).
//
// Rounding. Entries of S are sums of products. A coefficient of z^ or d^ comes from at most
// 2 (units of all hidden layers + inputs) + 8 layers roundings in a row, a product of two such
// functions from twice as many, and an entry of S from `terms` sums of these: fewer than N in all.
// M is what the same sums give with absolute values, at or above |S|; it is rounded, too. With
// gamma = gamma_2N, exact entries differ from computed ones by less than gamma M, m_i at or above
// |v_i| and |p_i|, m_0 = 1, and R = m.Mm:
// 1. Taking the computed S changes the value at v by less than gamma R.
// 2. -s + 2 r.p - p.Qp is computed with an error of less than 2 gamma R.
// 3. r - Qp is off by less than gamma (|r_i| + sum_j |Q_ij| m_j), times 2 |v_i - p_i| <= 4 m_i and
//    summed up: less than 4 gamma R.
// 4. A Cholesky factor of the computed Q that runs to its end is the exact factor of Q + E with
//    |E_ij| <= gamma sqrt(Q_ii Q_jj) (Demmel 1989; Rump, BIT 46, 2006), so -(v - p).Q(v - p) is at
//    most gamma (sum_i sqrt(Q_ii) |v_i - p_i|)^2.
// 16 gamma R covers the first three and the rounding of these sums, 2 gamma (...)^2 the fourth. The
// linear part, at most 2 sum_i |r - Qp|_i |v_i - p_i|, is charged with 2.5 for its own rounding.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "check/proof_bounder.h"
#include "lucid/nn/network.h"

namespace lucid {

// One per thread.
class ProofMoments {
 public:
  explicit ProofMoments(const Network& network);
  ~ProofMoments();
  ProofMoments(ProofMoments&&) noexcept;

  // Ensures: no x that `ranges` speaks of has f(x) > result and leaks. +inf where the matrix is not
  // positive definite, or numbers are too large. Requires: `ranges` has entered the region with
  // this band's least, if any, and the member (`parameters`), not quickly; N_label - N_other is at
  // most band->most wherever the pair leaks; a multiplier of every input, of the nine kinds of
  // every hidden unit and of the band, all finite. (question.below is not used.)
  double Bound(const ProofBounder& ranges, const ProofBounder::Question& question,
               const std::optional<ProofBounder::Band>& band, std::span<const float> parameters,
               std::span<const float> multipliers);

 private:
  struct Form;
  std::unique_ptr<Form> form_;
};

}  // namespace lucid
