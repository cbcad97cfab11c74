// The bound that a closing's multipliers give, recomputed. The checker's own code: plain loops in
// double, with the rounding charged a priori on the outside. docs/proof.md has the mathematics.
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
// So the whole is off by less than 3.5 gamma S, S = the sum of (|cz| + |cd| + |A| + |D|) s over all
// neurons, of the input's terms |c_j| |x_j|, and of what else the constant is made of (16 u is less
// than gamma / 4). S is itself rounded, by a factor of at least 1 - 2 gamma: 4 gamma S is charged.
// Underflow costs 2^-1074 a time, and sums above 2^60 are not bounded at all: less than the 2^-960
// that Up adds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "certificate/proof_lines.h"
#include "certificate/proof_region.h"
#include "lucid/nn/network.h"
#include "numeric/interval.h"

namespace lucid {

// One per thread. Enter a region, then members, then ask.
class ProofBounder {
 public:
  explicit ProofBounder(const Network& network);

  // Intervals of N's sums. False: the region holds no input, proved. The region is copied.
  bool EnterRegion(const ProofRegion& region, Ties ties = Ties::kRule);
  // Intervals of the member's differences. False: no input of the region has the member's phases,
  // proved. Requires: EnterRegion was true, parameters of N's architecture.
  bool EnterMember(std::span<const float> parameters);
  // Ensures: no x of the region with f(x) > result has P_label - P_other <= member_error. +inf
  // where numbers get too large. Requires: EnterMember was true, lambda >= 0; label and other are
  // different classes; dual holds A then D of every unit, layer by layer, all finite.
  double Bound(std::int32_t label, std::int32_t other, std::int32_t below, double member_error,
               double lambda, std::span<const float> dual);

  // What was found, for tests: of N's sums after EnterRegion, of differences after EnterMember.
  Interval Sum(std::size_t layer, std::size_t unit) const;
  Interval Difference(std::size_t layer, std::size_t unit) const;

 private:
  struct Matrix {
    std::size_t rows = 0, columns = 0;
    std::vector<double> weights, bias;  // row by row
    Matrix(std::size_t r, std::size_t c) : rows(r), columns(c), weights(r * c), bias(r) {}
    const double* row(std::size_t r) const { return weights.data() + r * columns; }
    void Read(const Layer& shape, std::span<const float> parameters);
  };
  struct Ranges {
    std::vector<double> low, high;
    explicit Ranges(std::size_t n) : low(n), high(n) {}
    double Size(std::size_t k) const;
  };
  struct Hidden {
    Hidden(std::size_t units, std::size_t inputs);
    Matrix network, member, difference;
    std::vector<char> split;  // the region fixes a phase of this unit
    // Of N alone.
    Ranges sum, output;
    std::vector<double> scale;  // s_k without the member
    std::vector<OutputLines> output_lines;
    // Of N and the member.
    std::vector<SumPolygon> polygons;
    Ranges pair_output, delta;
    std::vector<double> pair_scale;
    std::vector<NeuronLines> lines;
  };

  bool EnterNetworkLayer(std::size_t m);
  bool EnterMemberLayer(std::size_t m);
  void FinishMemberLayer(Hidden& layer);
  static void StartAt(const std::vector<double>& bias, std::vector<double>& low,
                      std::vector<double>& high, std::vector<double>& scale);
  // Adds to low and high the range of matrix . x for x in `in`, and to scale its size.
  static void AddRange(const Matrix& matrix, const Ranges& in, std::vector<double>& low,
                       std::vector<double>& high, std::vector<double>& scale);
  // False: the numbers are too large to go on; overflow_ is set.
  bool WidenForRounding(std::vector<double>& low, std::vector<double>& high,
                        const std::vector<double>& scale);
  // An upper bound of factor times (the sum of N, or the member's difference) of a unit of layer m.
  double RowBound(std::size_t m, std::size_t unit, double factor, bool member);
  void SubstituteLines(const Hidden& layer, bool member);
  // z^ and d^ of unit k, times a and d, as what they are made of.
  void Unfold(const Hidden& layer, std::size_t k, double a, double d);
  void StartNextLayer(std::size_t columns);
  double FinishAtInput();

  const Architecture architecture_;
  double gamma_ = 0;
  std::vector<Hidden> hidden_;
  Matrix output_, member_output_;
  ProofRegion region_;
  Ties ties_ = Ties::kRule;
  Ranges x_;
  // The linear function on its way down: of the layer in hand, and what the next one gets.
  std::vector<double> cz_, cd_, next_z_, next_d_;
  double constant_ = 0, above_ = 0;  // of this layer, of those above
  double size_ = 0;                  // S
  bool overflow_ = false;            // since EnterRegion: every bound is +inf
};

}  // namespace lucid
