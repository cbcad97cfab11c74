#include "native/spatial_search.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "attack/network_gradient.h"
#include "base/parallel.h"
#include "base/work_clock.h"
#include "check/claim_checker.h"
#include "native/engine.h"
#include "native/guard_proof.h"
#include "native/region_search.h"
#include "numeric/rounding.h"
#include "pair/region_bounder.h"

namespace lucid {
namespace {

constexpr double kNarrowest = 1e-7;  // an interval of an input this narrow is not cut any more
// So many boxes are cut at a time. The number is fixed, so that the result does not depend on the
// number of threads.
constexpr std::size_t kRound = 16;
constexpr int kSteps = 5;  // of descent, with many inputs
// Pairs of a box are bounded until all but this share of its guides are above their bounds. The
// rest, the hardest to help, waits for smaller boxes.
constexpr double kHardest = 0.3;

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

class SpatialSearch {
 public:
  SpatialSearch(const Network& network, const Members& members, const Domain& domain,
                const SpatialQuestion& question, const SpatialSearchOptions& options)
      : network_(network),
        members_(members),
        domain_(domain),
        question_(question),
        options_(options),
        steps_(network.architecture.inputs() > kFewInputs ? kSteps : 0) {
    for (int w = 0; w < EffectiveThreads(options.threads); ++w) {
      workers_.push_back(std::make_unique<Worker>(network));
    }
  }

  BoxProof Run(std::span<const float> rows) {
    const WorkClock clock(EffectiveThreads(options_.threads));
    leaves_.push_back(Root(rows));
    Keep(leaves_[0]);
    const auto all = static_cast<std::int64_t>(leaves_[0].guides.size());
    while (clock.Seconds() < options_.seconds && !options_.stop.stop_requested()) {
      const std::vector<std::size_t> chosen = Choose();
      if (chosen.empty() || !CutAll(chosen)) break;
      if (options_.report) options_.report(all, Waiting());
    }
    return Emit();
  }

 private:
  struct Worker {
    explicit Worker(const Network& network)
        : bounder(network), parameters(network.parameters.size()) {}
    RegionBounder bounder;
    std::vector<float> parameters;
    NetworkGradient member;
    std::vector<double> point;
  };
  std::int64_t Waiting() const {
    std::int64_t waiting = 0;
    for (const Leaf& leaf : leaves_) waiting += std::ssize(leaf.guides);
    return waiting;
  }

  Leaf Root(std::span<const float> rows) {
    Leaf root;
    root.region.box = UnitBox(network_.architecture.inputs());
    ShrinkBox(domain_, root.region.box);
    root.guides = GuidesOf(rows);
    for (std::int32_t member = 0; member < members_.count(); ++member) {
      for (std::int32_t other = 0; other < network_.architecture.classes(); ++other) {
        if (other == question_.label) continue;
        root.pairs.push_back({member, other, question_.beta_upper, 1, nullptr});
      }
    }
    for (const ProofClosing& claim : question_.claims) {
      const std::int32_t other = claim.other - (claim.other > question_.label ? 1 : 0);
      Pair& pair = root.pairs[claim.member * (network_.architecture.classes() - 1) + other];
      Tighten(claim, pair);
    }
    Settle(root);
    return root;
  }

  // Rows that a scalar guard would noise.
  std::vector<Guide> GuidesOf(std::span<const float> rows) const {
    const Evaluator evaluator(network_);
    const auto inputs = static_cast<std::size_t>(network_.architecture.inputs());
    std::vector<Guide> guides;
    for (std::size_t at = 0; at + inputs <= rows.size(); at += inputs) {
      const auto x = rows.subspan(at, inputs);
      const Decision decision = evaluator.Decide(x);
      const double confidence = NextDown(decision.confidence - evaluator.ConfidenceErrorBound());
      if (decision.label != question_.label || !(confidence <= question_.beta_upper)) continue;
      if (domain_.Contains(x).ok()) guides.push_back({x, confidence});
    }
    return guides;
  }

  // The boxes with most guides waiting, by number.
  std::vector<std::size_t> Choose() const {
    std::vector<std::size_t> chosen;
    if (std::ssize(leaves_) >= options_.leaves) return chosen;
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (!leaves_[i].settled) chosen.push_back(i);
    }
    const auto room = static_cast<std::size_t>(options_.leaves - std::ssize(leaves_));
    const std::size_t count = std::min({chosen.size(), kRound, room});
    std::ranges::partial_sort(chosen, chosen.begin() + static_cast<std::ptrdiff_t>(count),
                              [&](std::size_t a, std::size_t b) {
                                const auto of_a = leaves_[a].guides.size(),
                                           of_b = leaves_[b].guides.size();
                                return of_a != of_b ? of_a > of_b : a < b;
                              });
    chosen.resize(count);
    return chosen;
  }

  // False: stopped; the boxes stay as they are.
  bool CutAll(const std::vector<std::size_t>& chosen) {
    std::vector<std::optional<Cut>> cuts(chosen.size());
    std::vector<Leaf> children(2 * chosen.size());
    const auto each = [&](std::size_t count, const auto& body) {
      return ParallelFor(static_cast<std::int64_t>(count), options_.threads, options_.stop,
                         [&](std::int64_t i, int w) {
                           body(static_cast<std::size_t>(i), *workers_[w]);
                           return Ok();
                         })
          .ok();
    };
    if (!each(chosen.size(), [&](std::size_t i, Worker& worker) {
          cuts[i] = ChooseCut(leaves_[chosen[i]], worker);
        })) {
      return false;
    }
    std::vector<std::uint64_t> first_child;
    std::uint64_t nodes = 2 * splits_.size() + 1;
    for (const std::optional<Cut>& cut : cuts) {
      first_child.push_back(nodes);
      if (cut) nodes += 2;
    }
    if (!each(children.size(), [&](std::size_t i, Worker& worker) {
          if (!cuts[i / 2]) return;
          children[i] = ChildOf(leaves_[chosen[i / 2]], *cuts[i / 2], i % 2,
                                first_child[i / 2] + i % 2, worker);
        })) {
      return false;
    }
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      Leaf& leaf = leaves_[chosen[i]];
      leaf.settled = true;
      if (!cuts[i]) continue;
      ProofSplit split;
      split.node = leaf.node;
      split.unit = cuts[i]->feature;
      split.at = cuts[i]->at;
      split.first_child = first_child[i];
      splits_.push_back(split);
      Keep(children[2 * i]);
      Keep(children[2 * i + 1]);
      leaf = std::move(children[2 * i]);
      leaves_.push_back(std::move(children[2 * i + 1]));
    }
    return true;
  }
  void Keep(Leaf& leaf) {
    std::ranges::move(leaf.dropped, std::back_inserter(claims_));
    leaf.dropped = {};
  }

  // What can be claimed of the pair in the region. It leaves the pair its best lambda.
  ProofClosing ClaimOf(const RegionFacts& region, Pair& pair, double enough, Worker& worker) const {
    ProofClosing none;  // says that there is no input
    none.member = pair.member;
    none.other = pair.other;
    members_.CopyParameters(pair.member, worker.parameters);
    const auto facts = worker.bounder.Enter(region, worker.parameters);
    if (!facts) return none;
    Multipliers multipliers;
    multipliers.lambda = pair.lambda;
    std::vector<float> dual;
    ChargedBound bound =
        worker.bounder.Bound(*facts, QuestionOf(pair), multipliers, steps_, enough, &dual);
    pair.lambda = multipliers.lambda;
    return ClaimByLines(worker.bounder, *facts, pair.member, QuestionOf(pair), multipliers,
                        std::move(dual), question_.flat, bound);
  }
  static void Tighten(ProofClosing claim, Pair& pair) {
    const double value = std::max(ValueOf(claim), 0.0);
    if (!(value < pair.bound)) return;
    pair.bound = value;
    pair.why = std::make_shared<const ProofClosing>(std::move(claim));
  }
  PairQuestion QuestionOf(const Pair& pair) const {
    return {question_.label, pair.other, pair.other, question_.member_error};
  }

  std::optional<Cut> ChooseCut(const Leaf& leaf, Worker& worker) const {
    return GuidesFillDomain(domain_) ? HalfOfWidest(leaf) : CutForWorst(leaf, worker);
  }

  // Boxes that shrink in every direction end where N and all members are nearly linear, so that
  // their bounds are nearly exact. Large boxes say nothing about a good cut before that.
  std::optional<Cut> HalfOfWidest(const Leaf& leaf) const {
    const auto widest = std::ranges::max_element(
        leaf.region.box, {}, [](const Interval& side) { return side.upper - side.lower; });
    if (widest->upper - widest->lower <= kNarrowest) return std::nullopt;
    const auto input = static_cast<std::int32_t>(widest - leaf.region.box.begin());
    return Cut{input, domain_.CutOf(input, widest->lower, widest->upper)};
  }

  // Cuts the input that the bound of the worst pair is loosest about, in the middle or beside the
  // guides, whichever leaves less of that bound above them.
  std::optional<Cut> CutForWorst(const Leaf& leaf, Worker& worker) const {
    const Pair worst = *std::ranges::max_element(leaf.pairs, {}, &Pair::bound);
    const std::int32_t input = InputToCut(leaf, worst, worker);
    if (input < 0) return std::nullopt;
    const Interval side = leaf.region.box[input];
    if (side.upper - side.lower <= kNarrowest) return std::nullopt;
    std::vector<Cut> cuts{{input, domain_.CutOf(input, side.lower, side.upper)}};
    if (const auto beside = BesideGuides(leaf, input)) cuts.push_back(*beside);
    std::optional<Cut> best;
    double least = kInfinity;
    for (const Cut& cut : cuts) {
      const double left = LeftAbove(leaf, cut, worst, worker);
      if (left < least) least = left, best = cut;
    }
    return best;
  }

  // -1: there is nothing to cut.
  std::int32_t InputToCut(const Leaf& leaf, const Pair& worst, Worker& worker) const {
    members_.CopyParameters(worst.member, worker.parameters);
    const auto facts = worker.bounder.EnterPair(leaf.region, worker.parameters);
    if (!facts) return -1;
    Multipliers multipliers;
    multipliers.lambda = worst.lambda;
    worker.bounder.Bound(*facts, QuestionOf(worst), multipliers, 0, 0);
    return worker.bounder.Advise(*facts, QuestionOf(worst), multipliers).input;
  }

  // Halfway between all guides and the farther end of the box.
  std::optional<Cut> BesideGuides(const Leaf& leaf, std::int32_t feature) const {
    double low = kInfinity, high = -kInfinity;
    for (const Guide& guide : leaf.guides) {
      low = std::min<double>(low, guide.x[feature]);
      high = std::max<double>(high, guide.x[feature]);
    }
    const Interval side = leaf.region.box[feature];
    const double at = low - side.lower > side.upper - high
                          ? domain_.CutOf(feature, side.lower, low)
                          : domain_.CutOf(feature, high, side.upper);
    if (!(at > side.lower && at < side.upper)) return std::nullopt;
    return Cut{feature, at};
  }

  static bool IsFirst(const Guide& guide, const Cut& cut) { return guide.x[cut.feature] <= cut.at; }

  // How many guides the pair still is above, weighed by how far.
  double LeftAbove(const Leaf& leaf, const Cut& cut, Pair pair, Worker& worker) const {
    double left = 0;
    for (const std::size_t side : {0U, 1U}) {
      Region region = leaf.region;
      if (!Halve(region.box, cut, side)) continue;
      const auto facts = worker.bounder.Enter(region);
      if (!facts) continue;
      Pair trial = pair;
      const double bound =
          std::min(std::max(ValueOf(ClaimOf(*facts, trial, 0, worker)), 0.0), pair.bound);
      for (const Guide& guide : leaf.guides) {
        if (IsFirst(guide, cut) == (side == 0)) left += std::max(bound - guide.confidence, 0.0);
      }
    }
    return left;
  }

  bool Halve(Box& box, const Cut& cut, std::size_t side) const {
    (side == 0 ? box[cut.feature].upper : box[cut.feature].lower) = cut.at;
    return ShrinkBox(domain_, box);
  }

  Leaf ChildOf(const Leaf& leaf, const Cut& cut, std::size_t side, std::uint64_t node,
               Worker& worker) const {
    Leaf child;
    child.node = node;
    child.region = leaf.region;
    child.settled = true;
    const auto facts = Halve(child.region.box, cut, side) ? worker.bounder.Enter(child.region)
                                                          : Recycled<RegionFacts>();
    if (!facts) {
      // Without inputs the bound is 0.
      ProofClosing none;
      none.node = node;
      none.member = ProofClosing::kEveryPair;
      child.dropped.push_back(std::make_shared<const ProofClosing>(none));
      return child;
    }
    child.rest = leaf.rest;
    child.pairs = leaf.pairs;
    for (const Guide& guide : leaf.guides) {
      if (IsFirst(guide, cut) == (side == 0)) child.guides.push_back(guide);
    }
    if (!child.guides.empty()) {
      BoundPairsFor(child, child.guides, *facts, worker);
    } else if (!GuidesFillDomain(domain_)) {
      // No guide lies here, but an input of a client may. The parent's guides stand in for it.
      std::vector<Guide> parents = leaf.guides;
      BoundPairsFor(child, parents, *facts, worker);
    }
    Settle(child);
    return child;
  }

  // Bounds pairs until they are low enough for the guides, and drops guides that a member gives
  // another class. The pair with the highest bound comes first: as soon as one stays above all
  // guides, the box helps none of them, whatever is known of the other pairs. These keep their
  // parent's bounds and wait for a smaller box, where bounds are tighter and take less time.
  void BoundPairsFor(Leaf& leaf, std::vector<Guide>& guides, const RegionFacts& facts,
                     Worker& worker) const {
    std::vector<Pair>& pairs = leaf.pairs;
    const double enough = Enough(guides);
    const double most = std::ranges::max_element(guides, {}, &Guide::confidence)->confidence;
    std::ranges::stable_sort(pairs, std::ranges::greater(), &Pair::bound);
    for (Pair& pair : pairs) {
      if (pair.bound <= enough) break;
      ProofClosing claim = ClaimOf(facts, pair, enough, worker);
      claim.node = leaf.node;
      Tighten(std::move(claim), pair);
      if (pair.bound >= most) return DropLeaking({&pair, 1}, guides, worker);
    }
    DropLeaking(pairs, guides, worker);
    for (Guide& guide : guides) guide.agreed = true;
  }

  // Drops the guides that one of these members gives another class: no bound can help them.
  void DropLeaking(std::span<const Pair> pairs, std::vector<Guide>& guides, Worker& worker) const {
    for (const Pair& pair : pairs) {
      bool assigned = false;
      std::erase_if(guides, [&](const Guide& guide) {
        if (guide.agreed || guide.confidence > pair.bound) return false;
        if (!std::exchange(assigned, true)) {
          members_.CopyParameters(pair.member, worker.parameters);
          worker.member.Assign(network_.architecture, worker.parameters, question_.label);
        }
        worker.point.assign(guide.x.begin(), guide.x.end());
        return worker.member.Evaluate(worker.point) <= question_.member_error;
      });
    }
  }

  // A bound at this number or below it helps all guides but the share kHardest of them.
  static double Enough(const std::vector<Guide>& guides) {
    std::vector<double> confidences;
    for (const Guide& guide : guides) confidences.push_back(guide.confidence);
    const auto at = confidences.begin() +
                    static_cast<std::ptrdiff_t>(kHardest * static_cast<double>(confidences.size()));
    std::ranges::nth_element(confidences, at);
    return *at;
  }

  // Drops guides above the bound, and pairs that are below all guides.
  static void Settle(Leaf& leaf) {
    const double bound = leaf.Bound();
    std::erase_if(leaf.guides, [&](const Guide& guide) { return guide.confidence > bound; });
    leaf.settled = leaf.guides.empty() || leaf.pairs.empty();
    if (leaf.settled) {
      leaf.rest = bound;
      for (Pair& pair : leaf.pairs) leaf.dropped.push_back(std::move(pair.why));
      leaf.pairs = {};
      return;
    }
    const double least = std::ranges::min_element(leaf.guides, {}, &Guide::confidence)->confidence;
    std::erase_if(leaf.pairs, [&](Pair& pair) {
      if (pair.bound >= least) return false;
      leaf.rest = std::max(leaf.rest, pair.bound);
      leaf.dropped.push_back(std::move(pair.why));
      return true;
    });
  }

  // Claims that some box needs, each once.
  BoxProof Emit() {
    for (Leaf& leaf : leaves_) {
      for (Pair& pair : leaf.pairs) claims_.push_back(std::move(pair.why));
    }
    std::ranges::sort(claims_);
    claims_.erase(std::unique(claims_.begin(), claims_.end()), claims_.end());
    BoxProof proof{std::move(splits_), {}};
    for (const auto& claim : claims_) {
      if (claim) proof.claims.push_back(*claim);
    }
    return proof;
  }

  const Network& network_;
  const Members& members_;
  const Domain& domain_;
  const SpatialQuestion& question_;
  const SpatialSearchOptions& options_;
  const int steps_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Leaf> leaves_;
  std::vector<ProofSplit> splits_;
  std::vector<std::shared_ptr<const ProofClosing>> claims_;
};

}  // namespace

BoxProof SearchSpatialBounds(const Network& network, const Members& members, const Domain& domain,
                             const SpatialQuestion& question, std::span<const float> guides,
                             const SpatialSearchOptions& options) {
  return SpatialSearch(network, members, domain, question, options).Run(guides);
}

}  // namespace lucid
