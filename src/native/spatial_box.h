// One box of a search for spatial bounds, what is done with it, and the messages by which another
// process does it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attack/network_gradient.h"
#include "base/bytes.h"
#include "ensemble/members.h"
#include "lucid/certificate/proof.h"
#include "lucid/data/domain.h"
#include "lucid/nn/network.h"
#include "native/spatial_search.h"
#include "pair/region_bounder.h"

namespace lucid::spatial {

// An input that should be answered as it is: N gives it the class. Members are asked about it when
// few of them are left that may give it another one.
struct Guide {
  std::span<const float> x;
  double confidence = 0;  // at or below f(x)
  bool agreed = false;    // every member gives it the class, too
};

// A member that may give another class as much, and a bound of f where it does.
struct Pair {
  std::int32_t member = 0, other = 0;
  double bound = 0;
  double lambda = 1;
  std::shared_ptr<const ProofClosing> why;  // null: the bound is beta_upper
};

// A box that waits to be cut.
struct Leaf {
  std::uint64_t node = 0;  // of the tree
  Region region;
  std::vector<Pair> pairs;  // those that bound it from above some guide
  double rest = 0;          // the largest bound of all the others
  // Why the bounds hold of pairs that were dropped here. Those that were dropped around this box
  // are known there.
  std::vector<std::shared_ptr<const ProofClosing>> dropped;
  std::vector<Guide> guides;  // not above the bound yet
  bool settled = false;       // nothing left to cut

  double Bound() const {
    double bound = rest;
    for (const Pair& pair : pairs) bound = std::max(bound, pair.bound);
    return bound;
  }
};

struct Cut {
  std::int32_t feature = -1;
  double at = 0;
};

// A half of a box, before its pairs are bounded.
struct Half {
  Leaf leaf;
  bool inhabited = true;  // the domain has inputs there
  // No guide lies here, but an input of a client may. The guides of the box around it stand in.
  bool stand_ins = false;
};

// A thread's own.
struct BoxWorker {
  BoxWorker(const Network& network, const Domain* domain)
      : bounder(network, domain), parameters(network.parameters.size()) {}
  RegionBounder bounder;
  std::vector<float> parameters;
  NetworkGradient member;
  std::vector<double> point;
};

// What is done with one box. It is a function of the box and of what is known here, so that any
// thread of any process may do it.
class BoxWork {
 public:
  // Keeps references.
  BoxWork(const Network& network, const Members& members, const Domain& domain,
          const SpatialQuestion& question);

  // Boxes that shrink in every direction end where N and all members are nearly linear, so that
  // their bounds are nearly exact. Large boxes say nothing about a good cut before that.
  std::optional<Cut> HalfOfWidest(const Leaf& leaf) const;
  // Cuts the input that the bound of the worst pair is loosest about, in the middle or beside the
  // guides, whichever leaves less of that bound above them.
  std::optional<Cut> CutForWorst(const Leaf& leaf, const Pair& worst, BoxWorker& worker) const;

  // Which guides and pairs the half begins with.
  Half HalfOf(const Leaf& leaf, const Cut& cut, std::size_t side, std::uint64_t node) const;
  // Bounds its pairs as far as the guides need them.
  void Bound(Half& half, BoxWorker& worker) const;
  // Without inputs the bound is 0.
  static void Close(Half& half);

  // Drops guides above the bound, and pairs that are below all guides.
  static void Settle(Leaf& leaf);
  // Takes over what is claimed of the pair, if it is tighter.
  static void Tighten(ProofClosing claim, Pair& pair);

  // The questions about a box, and the answers to them. A false answer: it is none.
  void AskCut(const Leaf& leaf, const Pair& worst, std::string& out) const;
  static bool TakeCut(ByteCursor& in, const Leaf& leaf, std::optional<Cut>& cut);
  void AskHalf(const Half& half, std::string& out) const;
  static bool TakeHalf(ByteCursor& in, Half& half);
  // A helper's part: reads a question and writes the answer. False: that was no question.
  bool AnswerCut(ByteCursor& in, BoxWorker& worker, std::string& out) const;
  bool AnswerHalf(ByteCursor& in, BoxWorker& worker, std::string& out) const;

 private:
  // What can be claimed of the pair in the region. It leaves the pair its best lambda.
  ProofClosing ClaimOf(const RegionFacts& region, Pair& pair, double enough,
                       BoxWorker& worker) const;
  PairQuestion QuestionOf(const Pair& pair) const;
  // -1: there is nothing to cut.
  std::int32_t InputToCut(const Leaf& leaf, const Pair& worst, BoxWorker& worker) const;
  // Halfway between all guides and the farther end of the box.
  std::optional<Cut> BesideGuides(const Leaf& leaf, std::int32_t feature) const;
  static bool IsFirst(const Guide& guide, const Cut& cut);
  // How many guides the pair still is above, weighed by how far.
  double LeftAbove(const Leaf& leaf, const Cut& cut, const Pair& pair, BoxWorker& worker) const;
  bool Halve(Box& box, const Cut& cut, std::size_t side) const;
  // Bounds pairs until they are low enough for the guides, and drops guides that a member gives
  // another class. The pair with the highest bound comes first: as soon as one stays above all
  // guides, the box helps none of them, whatever is known of the other pairs. These keep their
  // parent's bounds and wait for a smaller box, where bounds are tighter and take less time.
  void BoundPairsFor(Leaf& leaf, std::vector<Guide>& guides, const RegionFacts& facts,
                     BoxWorker& worker) const;
  // Drops the guides that one of these members gives another class: no bound can help them.
  void DropLeaking(std::span<const Pair> pairs, std::vector<Guide>& guides,
                   BoxWorker& worker) const;
  // A bound at this number or below it helps all guides but the share kHardest of them.
  static double Enough(const std::vector<Guide>& guides);

  const Network& network_;
  const Members& members_;
  const Domain& domain_;
  const SpatialQuestion& question_;
  const int steps_;
  const std::size_t inputs_;
};

}  // namespace lucid::spatial
