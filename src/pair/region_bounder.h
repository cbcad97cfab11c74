// Upper bounds of how confidently N can give a class where a member gives another, over a region of
// inputs: the differential linear bounds of the native engine.
//
// Follows N's weighted sums z^ and the member's differences d^ = z^_member - z^ together:
//   z^ = W z + b,   d^ = W' delta + dW z + db,   z = relu(z^),   delta = relu(z^ + d^) - z.
// For any multiplier lambda >= 0 of the constraint g <= err, any class c' != c, and any numbers
// A_k, D_k for the hidden neurons k, with f <= N_c - N_c' and g = P_c - P_c'':
//   f <= f - lambda (g - err) <= constant + max_x (coefficients . x)
//        + sum_k max over (z^, d^) in polygon_k of (cz_k z + cd_k delta - A_k z^ - D_k d^),
// where cz, cd are what W^T A + dW^T D and W'^T D of the layer above (or the outputs) give: weak
// duality, A and D being the multipliers of the equations for z^ and d^. So multipliers decide how
// tight a bound is, never whether it holds. polygon_k is made of intervals of z^ and d^ and of the
// phases that the region fixes; each term is piecewise linear, hence largest at one of eleven
// points.
//
// Rounding: every sum here has at most n = 2 (units + inputs) + 64 terms. With gamma = gamma_n and
// s_k = sum_j |W_kj| |z_j| + |W'_kj| |delta_j| + |dW_kj| |z_j| + |b_k| + |db_k| (at or above |z^_k|
// and |d^_k|, and what the exact coefficients of neuron k's row add up to), computing coefficients,
// peaks and sums in plain double changes the bound by at most
//   2 gamma sum_k (|cz_k| + |cd_k| + |A_k| + |D_k|) s_k.
// Twice that is added, which covers the rounding of this sum and of s.
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
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "lucid/nn/network.h"
#include "numeric/rounding.h"
#include "pair/dense_kernels.h"
#include "pair/neuron_bounds.h"

namespace lucid {

// The sign of one weighted sum, of N or of the member.
struct PhaseSplit {
  std::int32_t layer = 0, unit = 0;
  bool member = false;  // else N
  bool active = false;  // >= 0, else <= 0
  bool operator==(const PhaseSplit&) const = default;
};

struct Region {
  Box box;
  std::vector<PhaseSplit> phases;
};

// A network as dense matrices of doubles; convolutions are written out.
struct DenseLayer {
  PaddedMatrix weights;  // [unit][input]
  PaddedArray bias;
};
std::vector<DenseLayer> DenseLayers(const Network& network);
// Writes one layer of a network into a matrix of the right size (whose other entries are zero).
void WriteDense(const Layer& shape, std::span<const float> parameters, DenseLayer& dense);
// out = from - what. Requires: all of one size.
void SubtractDense(const DenseLayer& from, const DenseLayer& what, DenseLayer& out);

// What is asked of a pair (N, member): N's class, and the class the member gives at least as much.
struct PairQuestion {
  std::int32_t label = 0;
  std::int32_t other = 0;  // c'': P_c - P_c'' <= member_error
  std::int32_t below = 0;  // c': f <= N_c - N_c'
  double member_error = 0;
};

// A bound's free choices: where a search starts from, and what it leaves for the next region.
struct Multipliers {
  double lambda = 1;
  std::vector<float> slopes;  // s, p, q of each hidden neuron: A = s cz + p cd, D = q cd; or empty
  std::vector<float> pushes;  // for each phase of the region, what its sum is pulled by
  float steepest = 0;         // the largest |d bound / d lambda| seen, the scale of lambda's steps
};

// Where a bound loses most, and how to split there.
struct SplitAdvice {
  // The hidden neuron that adds most to what the bound loses, among those whose phase is open in
  // both networks. `active` of a split means nothing here.
  std::optional<PhaseSplit> phase;
  // The neuron whose phase is fixed in one network and open in the other, if it loses more.
  std::optional<PhaseSplit> other_phase;
  std::int32_t input = -1;  // the input whose halving promises most; -1: the box is a point
  std::int32_t open = 0;    // neurons with a phase, of N or of the member, that is not known
};

// The confidences that matter: an input with N's label c leaks between these, or a bound is not
// worth asking for.
struct Band {
  std::int32_t label = 0;
  double least = 0;  // smaller f are good enough already
  double most = 0;   // proved: no input of the region that leaks has a larger f
};

// One per thread. Enter a region, then members, then ask.
class RegionBounder {
 public:
  explicit RegionBounder(const Network& network);
  // Intervals of N's sums. False: the region holds no input. Keeps a reference to `region`.
  // With a band, everything that is said of the region is said of its inputs with f in the band
  // only: the half spaces that this and the phases of the first layer leave of the box make all
  // intervals smaller.
  bool EnterRegion(const Region& region, const Band* band = nullptr);
  // Intervals of the member's differences. False: no input of the region has the member's phases.
  // Requires: EnterRegion was true. `differences`: what is known of the second hidden layer's, for
  // every input of the region, or null.
  bool EnterMember(std::span<const float> parameters,
                   const std::vector<Interval>* differences = nullptr);
  // What is known of the sums of N's second hidden layer, for every input of all regions that are
  // entered from now on (sum_ranges.h), or null. (A proof's checker does not know it.)
  void KnowSums(const std::vector<Interval>* sums) { known_sums_ = sums; }

  // After EnterMember: intervals of z^ and d^ of a hidden layer, for every input in question.
  const PairRanges& ranges(std::size_t layer) const { return hidden_[layer].ranges; }
  const Box& box() const { return region_->box; }
  // After EnterMember: false if sums may overflow; then no interval means anything.
  bool bounded() const { return bounded_; }

  // The same promise as Bound from interval arithmetic alone, which takes a tenth of the time.
  // Requires: EnterRegion was true. Afterwards, enter a member before asking for Bound.
  double IntervalBound(std::span<const float> parameters, const PairQuestion& question);

  // Requires: EnterMember was true. Ensures: no x of the region with f(x) > result has
  // P_c - P_c'' <= member_error. Starts from the multipliers or the default lines, whichever is
  // better, takes up to `steps` steps of descent until the bound is at or below `enough`, and
  // leaves the best multipliers there.
  double Bound(const PairQuestion& question, Multipliers& multipliers, int steps, double enough);

  // After Bound: the part of the bound that stands for rounding, of this evaluation and of the
  // member's own outputs. It says what is worth a try, and nothing about what holds.
  double Rounding(const PairQuestion& question, double lambda) const {
    return charge_ + lambda * question.member_error;
  }

  // What the layers above a hidden one leave to be bounded: for every input in question that leaks,
  //   f <= constant + sum_k z[k] z_k + delta[k] delta_k    of that layer's neurons.
  // Valid until the next call. Requires: EnterMember was true; lambda >= 0; pushes of the region's
  // first phases, as in Multipliers.
  struct Rest {
    double constant = 0;
    std::span<const double> z, delta;
  };
  Rest RestOf(std::size_t layer, const PairQuestion& question, double lambda,
              std::span<const float> pushes);
  // After RestOf: of the hidden layers from `from` on, the neuron that loses most at x by a phase
  // that is not known, if that is more than `least`; `active` is not meant.
  std::optional<PhaseSplit> OpenPhase(std::size_t from, std::span<const double> x, double least);
  // A line over the last hidden layer's sum_k z[k] z_k + delta[k] delta_k, for every input of the
  // region: at most constant + slopes . x. `flat`: from lines over differences that do not follow
  // N's sums, where a phase is not known. Valid until the next call. Requires: EnterMember was
  // true.
  struct Line {
    double constant = 0;
    std::span<const double> slopes;
  };
  Line LineOver(std::span<const double> z, std::span<const double> delta, bool flat);

  // After Bound: A then D of every hidden neuron, layer by layer, rounded to float32.
  std::vector<float> Dual() const;
  // The bound that these give, whatever they are: what a proof's checker computes.
  double BoundOfDual(const PairQuestion& question, double lambda, std::span<const float> dual);

  // After any bound here: the same with room for what a second program's rounding may differ by
  // (its charges are the same sums of absolute values, times at most a few times as many
  // roundings). At least 0.
  double ForChecker(double bound) const { return WithSlack(bound) + 8 * charge_; }
  static double WithSlack(double bound) { return Up(std::max(bound, 0.0) * (1 + 0x1p-30)); }

  // After Bound, with what it was given and left. `target`: what bounds are to come down to.
  SplitAdvice Advise(const PairQuestion& question, const Multipliers& multipliers,
                     double target = std::numeric_limits<double>::infinity());
  // After Advise: the input that is best for the relaxation, a mixture of two in general.
  std::span<const double> point() const {
    return {point_.data(), static_cast<std::size_t>(inputs_)};
  }

 private:
  struct Range {
    PaddedArray centre, radius, size;  // size: at or above the absolute value
    void Reset(std::int64_t n);
    void Set(std::int64_t k, double lower, double upper);
  };
  struct Hidden {
    std::int64_t units = 0;
    const DenseLayer* network = nullptr;
    PaddedArray network_size;  // sum_j |W_kj| |z_j| + |b_k|
    PaddedArray lower, upper;  // N's z^
    Range network_z;
    PairLines network_lines;                  // su, tu, sl only
    std::vector<std::int32_t> network_alive;  // units whose z can be above 0

    DenseLayer member, difference;  // W', W' - W
    PairRanges ranges;
    PaddedArray size;  // s_k
    Range z, delta;
    PairLines lines;
    std::vector<std::int32_t> alive;  // units with a line that is not flat: all that a row can use

    std::vector<std::int32_t> open;  // units with slopes of their own: no phase known, or split
    std::vector<char> split;         // units whose phase the region fixes

    PaddedArray cz, cd, big_a, big_d, s, p, q;  // of the last Evaluate
    PaddedArray own_s, own_p, own_q;            // slopes of the open units, when not the defaults
    PaddedArray push_a, push_d;
    PairPeaks peaks;
    double above = 0;  // the bound of everything but this layer's cz z + cd delta
    PaddedArray sum_at, diff_at, z_at, d_at, scratch, width;
  };
  enum class Choice { kDefaultLines, kFlatLines, kOwnSlopes, kGivenDual };

  // a . x >= at_least, for every x in question.
  struct HalfSpace {
    PaddedArray a, reach;  // reach: a times the radius of x
    double at_least = 0;
    double middle = 0;  // a . centre - at_least
  };
  void AddPhaseCuts(bool member);
  bool AddBandCuts(const Band& band);
  void NarrowByBand(Hidden& top);
  void AddCut(const double* a, double sign, double at_least);
  void StartRows(std::int64_t count, std::int64_t columns);  // all zero
  void MaximiseRow(const double* c, double& value, double& size);
  void MaximiseRows(std::int64_t count);
  void SubstituteDown(std::size_t m, bool member, std::int64_t count);
  bool EnterNetworkLayer(std::size_t m);
  void Load(std::span<const float> parameters);
  void MemberIntervals(std::size_t m);
  bool EnterMemberLayer(std::size_t m, const std::vector<Interval>* known);
  void FinishMemberLayer(Hidden& layer);
  static void SetMemberRanges(Hidden& layer, std::int64_t k);
  // Bounds of the sums of layer m (differences if `member`) for the units in rows_, by substituting
  // lines down to the input; intersected with what is there.
  void LinearRows(std::size_t m, bool member, PaddedArray& lower, PaddedArray& upper);
  static void ChooseOutputLines(double l, double u, std::int64_t k, PairLines& lines);
  static void ChooseDifferenceLines(Hidden& layer, std::int64_t k);
  static void SetIntercepts(Hidden& layer);

  void ChooseDual(Hidden& layer, Choice choice);
  double Evaluate(const PairQuestion& question, double lambda, Choice choice);
  double StartObjective(const PairQuestion& question, double lambda, double& size);
  void Substitute(Choice choice, double& bound, double& size);
  double Charged(double bound, double size);
  double Gradient(const PairQuestion& question);  // returns d bound / d lambda
  void Propagate(std::size_t m, const PaddedArray& z, const PaddedArray* delta);
  double SearchLambda(const PairQuestion& question, double value, double enough, double& lambda);
  double Descend(const PairQuestion& question, double value, int steps, double enough,
                 Multipliers& multipliers);
  void SetPushes(std::span<const float> pushes);
  void ReadSlopes(std::span<const float> slopes);
  std::vector<float> WriteSlopes() const;
  // A maximiser of the Lagrangian: half of what the relaxation's optimum is mixed from.
  struct Side {
    double slope = 0;       // d bound / d lambda there
    double difference = 0;  // f - g there, by the networks themselves
    std::vector<double> x, sums, differences, losses;
  };
  static bool NetworkOpen(const PairRanges& ranges, std::int64_t k);
  static bool MemberOpen(const PairRanges& ranges, std::int64_t k);
  double OutputDifference(const PairQuestion& question) const;
  Side SideAt(const PairQuestion& question, double lambda);
  void SetPoint();
  void RunAtPoint();
  void MixLosses(const Side& one, const Side& other);
  std::int32_t WorstInput();
  std::int32_t SeparatingInput(const PairQuestion& question, const Side& one, const Side& other);

  const Architecture architecture_;
  const std::vector<DenseLayer> dense_;
  std::int64_t inputs_ = 0, units_ = 0;
  double gamma_ = 0, rate_ = 0;
  double charge_ = 0;                           // for rounding, in the last bound
  std::vector<std::vector<std::int32_t>> all_;  // 0 .. units of each hidden layer
  std::vector<Hidden> hidden_;
  DenseLayer member_output_;
  const Region* region_ = nullptr;
  const std::vector<Interval>* known_sums_ = nullptr;
  Choice choice_ = Choice::kDefaultLines;           // of the last Evaluate
  bool network_bounded_ = false, bounded_ = false;  // no sum can overflow; else nothing is proved
  std::vector<HalfSpace> cuts_;                     // N's, then the member's
  std::size_t network_cuts_ = 0, cut_count_ = 0;    // of cuts_ in use
  bool banded_ = false;
  Band band_;  // if banded_
  std::vector<double> cut_row_;
  std::vector<std::pair<double, std::int32_t>> breaks_;
  Range x_;
  std::vector<std::int32_t> rows_;
  PaddedMatrix row_z_, row_d_, next_z_, next_d_;
  PaddedArray row_constant_, row_size_, row_value_;
  PaddedArray cx_, point_, blame_;
};

}  // namespace lucid
