// Ranges of the weighted sums of the second hidden layer over a box of inputs: z^ of N, and the
// differences d^ of a member, in the notation of region_bounder.h.
//
// One linear relaxation of the first layer makes them about twice as wide as they are, whatever its
// multipliers, and every bound above pays for that. Here each end of a range is a branch and bound
// of its own: best first over the phases of N's neurons in the first layer, the box as it is. A
// node's bound is the weak duality of region_bounder.h for one layer,
//   constant + max_x (coefficients . x) + sum_k max over polygon_k of (cz z + cd delta - A z^ - D
//   d^),
// with the same charge for rounding, so that multipliers decide how tight a range is and never
// whether it holds. A phase that a node fixes is a smaller polygon; its A may then be any number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lucid/nn/network.h"
#include "pair/dense_network.h"
#include "pair/neuron_bounds.h"

namespace lucid {

// One per thread.
class SumRanger {
 public:
  // Requires: at least two hidden layers.
  SumRanger(const Network& network, const Box& box);
  std::int64_t units() const { return second_.network.weights.rows; }

  // Every x of the box has N's sum there. `nodes`: how many the two searches may look at together.
  Interval NetworkSum(std::int64_t unit, std::int64_t nodes);

  void Enter(std::span<const float> parameters);
  // Requires: Enter. Every x of the box has the member's difference there.
  Interval MemberDifference(std::int64_t unit, std::int64_t nodes);

 private:
  struct Weights {
    DenseLayer network, member, difference;
  };
  struct Node {
    double bound = 0;
    std::vector<float> a, d;          // where its children's multipliers start
    std::vector<std::int8_t> phases;  // of N's neurons: 1 active, -1 not, 0 either
    std::int32_t branch = -1;         // the neuron that loses most; -1: none does
    bool operator<(const Node& other) const { return bound < other.bound; }
  };
  // cz . z + cd . delta + constant of the first layer is to be maximised.
  struct Objective {
    PaddedArray cz, cd;
    double constant = 0, size = 0;  // size: of what the constant was added up from
    bool pair = false;              // else cd and all differences are 0
  };
  void RangeOfSums(const DenseLayer& dense, PaddedArray& lower, PaddedArray& upper,
                   PaddedArray& size) const;
  Interval Both(std::int64_t unit, bool pair, std::int64_t nodes);
  double Maximise(std::int64_t nodes);
  void EnterPhases(const std::vector<std::int8_t>& phases);
  void StartMultipliers();
  void Bound(Node& node, int steps, double rate);
  double Evaluate();
  double RunAtPoint();

  const Architecture architecture_;
  std::int64_t inputs_ = 0, units_ = 0;  // of the first layer
  double gamma_ = 0;
  Weights first_, second_;
  std::vector<std::int32_t> all_;
  PaddedArray centre_, radius_, x_size_;
  PairRanges whole_, ranges_;             // of the first layer: in the box, and in the node
  PaddedArray network_size_, pair_size_;  // s_k of region_bounder.h, without and with the member
  Objective objective_;
  PairPeaks peaks_;
  PaddedArray a_, d_, cx_, x_, sum_at_, diff_at_;
  PaddedArray best_a_, best_d_, loss_, step_a_, step_d_;
  double lower_ = 0;  // the largest value that any input was seen to give
};

}  // namespace lucid
