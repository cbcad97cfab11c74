// The bound that a closing's multipliers give, recomputed. The checker's own code: loops in double
// (over vectors in proof_rows.cc), with the rounding charged a priori on the outside. docs/proof.md
// has the mathematics.
//
// For (N, member) and a region, with dW = W' - W, db = b' - b and delta = 0 at the input:
//   z^ = W z + b,   d^ = W' delta + dW z + db,   z = relu(z^),   delta = relu(z^ + d^) - z.
// Both kinds of bounds below carry a linear function of one layer's z and delta down to the input,
// and hold at every input of the region:
//   rows   (sums of a layer)  <= constant + cz . z + cd . delta, by lines over z and delta;
//   duals  f - lambda (g - e) <= constant + cz . z + cd . delta, by the multipliers A, D.
//
// Rounding. Let s_k be at or above |z^_k|, |d^_k| (hence z_k, |delta_k|) and
//   sum_j |W_kj| z_j + |dW_kj| z_j + |W'_kj| |delta_j| + |b_k| + |db_k|
// over the region, n = 4 (units of the widest layer) + layers + 64 and gamma = gamma_n. One layer,
// for computed (hence exactly known) cz, cd at its top:
// 1. A line's A = (cz + cd r) s + cd p and D = cd q, slopes at most 1 in size, are rounded at most
//    four times: taking the computed ones changes A z^ + D d^ by less than 16 u (|cz| + |cd|) s_k.
//    (Multipliers of a file are exact.) Peaks are rounded outward by PeakUp.
// 2. The next coefficients, sums of at most n products (dW itself is rounded once), are off by at
//    most gamma sum_i |A_i| |W_ij| + |D_i| |dW_ij|, and |D_i| |W'_ij|. Times z_j and |delta_j| and
//    summed over j, that is at most gamma (|A_i| + |D_i|) s_i.
// 3. The constant is summed layer by layer, at most 4 products for each neuron, and then over the
//    layers; it is off by at most gamma times the sum of their absolute values, in which A b + D db
//    and 2. together are at most (|A| + |D|) s, and a peak is at most 2 (|cz| + |cd| + |A| + |D|)
//    s.
// 4. A mixture's row, sum_j w_j (W_c - W_j) / 256 with whole numbers w_j, takes a difference and a
//    product for each class, and their sum: it is off by at most gamma times the sum of
//    w_j (|W_c| + |W_j|) / 256, because n is above four times the number of classes. So that sum
//    counts in S, times s_k, where |W_c - W_c'| of a single class would.
// No order of a sum needs more.
// So the whole is off by less than 3.5 gamma S, S = the sum of (|cz| + |cd| + |A| + |D|) s over all
// neurons, of the input's terms |c_j| |x_j|, and of what else the constant is made of (16 u is less
// than gamma / 4). S is itself rounded, by a factor of at least 1 - 2 gamma: 4 gamma S is charged.
// Underflow makes a coefficient wrong by 2^-1074 a time, which counts times the z or delta it
// belongs to. Sums above 2^500 are not bounded at all, so all of it is less than the 2^-500 that is
// added (fewer than 2^60 operations). Overflow makes S infinite, and with it the bound.
//
// Bands. A closing may speak of inputs with least <= f <= most only. These lie in half spaces
// a . x >= h: with the lines' bound N_c - N_o <= u . x + t over the region, t from above, every
// class o != c has u . x >= least - t; of two classes, where f = N_c - N_o itself, -f <= v . x + s
// gives v . x >= -most - s. Phases of the first layer are half spaces, too, with its weights as
// they are. For any mu >= 0, c . x <= (c + mu a) . x - mu h there: rows are maximised over the box
// with one such mu for every half space in turn, as good a one as is found. The new coefficients
// are sums of 1 + (number of half spaces) products; 8 roundings for each of them are added to n,
// and |mu| (|a| . |x| + |h|) to S. All of a half space's numbers are exactly known ones.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "check/proof_facts.h"
#include "check/proof_form.h"
#include "check/proof_lines.h"
#include "check/proof_region.h"
#include "lucid/nn/network.h"
#include "numeric/interval.h"

namespace lucid {

// One per thread. Enter a region, then members, then ask.
class ProofBounder {
 public:
  // Regions are parts of the domain, and what is said of them is said of the domain's inputs there
  // (null: of [0,1]^d). The domain is not kept.
  explicit ProofBounder(const Network& network, const Domain* domain = nullptr);

  // Intervals of N's sums. False: the region holds no input, proved. The region is copied. With a
  // band, everything that is said of the region is said of its inputs with f in the band only, f
  // being N's confidence in class band->label.
  using Band = ProofFacts::Band;
  bool EnterRegion(const ProofRegion& region, const std::optional<Band>& band = std::nullopt,
                   Ties ties = Ties::kRule);
  // Intervals of the member's differences; by interval arithmetic alone if `quick`. False: no input
  // of the region has the member's phases, proved. Requires: EnterRegion was true, parameters of
  // N's architecture.
  bool EnterMember(std::span<const float> parameters, bool quick = false);
  // The member of the last EnterMember in the region of the last EnterRegion.
  bool EnterMemberAgain(bool quick = false);
  // Ensures: no x of the region with f(x) > result has P_label - P_other <= member_error. +inf
  // where numbers get too large. Requires: EnterMember was true, lambda >= 0; label and other are
  // different classes; dual holds A then D of every unit, layer by layer, all finite.
  // With weights, one for every class, N is measured against their mixture instead of `below`: they
  // are those of a claim that the checker has looked at (ProblemOfWeights).
  struct Question {
    std::int32_t label = 0, other = 0, below = 0;
    double member_error = 0;
    std::span<const std::uint8_t> weights = {};
  };
  double Bound(const Question& question, double lambda, std::span<const float> dual);
  // The same with A and D of the lines that the rules choose; requires: EnterMember was not quick.
  double BoundByLines(const Question& question, double lambda);
  // The same with A = D = 0 and lambda = 1: what intervals give.
  double BoundByIntervals(const Question& question);

  // Parts of such bounds, for windows (proof_windows.h). At every x that leaks,
  //   f <= constant + sum_k z[k] z_k + delta[k] delta_k    of a hidden layer's units
  // by the lines that the rules choose in the layers above it. `pushes` are added to the A (and,
  // of a member's phase, to the D) of the units that the region's first phases fix. The constant
  // is +inf where numbers get too large. Valid until the next call. Requires: as BoundByLines; not
  // more pushes than phases.
  struct Rest {
    double constant = 0;
    std::span<const double> z, delta;
  };
  Rest RestOf(std::size_t layer, const Question& question, double lambda,
              std::span<const float> pushes);
  // At every x of the region, of the last hidden layer's units,
  //   sum_k z[k] z_k + delta[k] delta_k <= constant + slopes . x
  // by the lines that the rules choose, or, if `flat`, where no phase is known by lines over
  // differences alone. The rest as RestOf. Requires: EnterMember was true, and not quick.
  struct Line {
    double constant = 0;
    std::span<const double> slopes;
  };
  Line LineOver(std::span<const double> z, std::span<const double> delta, bool flat);

  // After EnterMember: what is possible in a hidden layer, and the box.
  const std::vector<SumPolygon>& polygons(std::size_t layer) const {
    return facts_.hidden()[layer].polygons;
  }
  Interval Input(std::size_t j) const { return {facts_.x().low[j], facts_.x().high[j]}; }
  // False: numbers are too large, and no interval means anything.
  bool usable() const { return facts_.usable(); }

  // What was found, for tests: of N's sums after EnterRegion, of differences after EnterMember.
  Interval Sum(std::size_t layer, std::size_t unit) const;
  Interval Difference(std::size_t layer, std::size_t unit) const;

 private:
  // Where a bound's A and D come from.
  enum class Source { kGiven, kLines, kFlatLines, kZero };
  struct Slopes {
    double a = 0, d = 0;
  };
  Slopes SlopesByRule(const ProofLayer& layer, std::size_t k, bool flat) const;
  void StartBound(const Question& question, double lambda);
  // From the last hidden layer down to the input, or to the layer `to`.
  void Descend(Source source, std::span<const float> dual, std::size_t to = 0);

  ProofFacts facts_;
  ProofForm form_;             // of the bound in hand
  std::vector<float> pushes_;  // the same
};

}  // namespace lucid
