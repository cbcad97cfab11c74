// What one thread does with one region: it bounds the region's pairs. region_cutter.h decides where
// the region is cut, region_search.cc which region is looked at, and when.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "native/region_parts.h"
#include "native/region_search.h"

namespace lucid::region_search {

// It serves one class. Its functions may run on several threads, each with a worker of its own;
// `target` and what is known are set between such runs.
class RegionWork {
 public:
  // Keeps references.
  RegionWork(const Network& network, const Members& members, std::int32_t label,
             double member_error, const RegionSearchOptions& options);

  double target = 0;  // bounds at or below it are good enough
  // A pair is closed, too, if only rounding keeps its bound above the target.
  bool close_by_rounding = false;

  const Box& root() const { return root_; }  // holds the domain
  // Whether inputs below the target are left out, and those above the region's bound, where nothing
  // leaks. (Without hidden layers lambda alone is exact, and a checker has no layer that a band
  // could narrow.)
  bool UsesBands() const { return !options_.flat; }
  // Whether regions are cut at phases, too, from the start: there are too many inputs to cut.
  bool CutsPhases() const { return cut_phases_; }
  bool WritesProof() const { return options_.proof != nullptr || options_.with_claims; }
  bool Expired() const;
  PairQuestion Question(const RegionPair& pair) const {
    return {label_, pair.other, pair.other, member_error_, {}, network_.architecture.classes() > 2};
  }
  // How many steps of descent a bound in the region gets. Phases need multipliers of their own,
  // which only descent finds.
  int Steps(const Region& region) const;

  // What is known of N over the region. Only inputs above the target matter, and none above the
  // region's bound leaks; null: there is no such input.
  Recycled<RegionFacts> Enter(const Region& region, double bound, Worker& worker) const;
  // What is known of N and the member over the region. Leaves the member's parameters with the
  // worker.
  Recycled<PairFacts> Enter(const RegionFacts& region, std::int32_t member, Worker& worker) const;

  Outcome BoundPair(const RegionPair& pair, Multipliers& multipliers, int steps,
                    const RegionFacts& region, Worker& worker) const;
  // A bound by lines. Leaves the multipliers, the question with what N is measured against, and for
  // a proof A and D.
  ChargedBound BoundBest(const PairFacts& pair, int steps, Worker& worker, PairQuestion& question,
                         Multipliers& multipliers, std::vector<float>* dual) const;
  // A claim about the pair. Where the band rests on a bound of the pair, the claim does, too.
  static std::shared_ptr<PairProof> Claim(const RegionPair& pair, ProofClosing::Kind kind,
                                          const std::optional<ProofBand>& band);
  // What the checker's own code finds of a claim about `region`; -inf: no input. Leaves the
  // member's parameters in the worker.
  double CheckersBound(const Region& region, const ProofClosing& closing, Worker& worker) const;
  // The band of confidence that the inputs in question have, in a region with this bound.
  std::optional<ProofBand> BandOf(double bound) const {
    if (!UsesBands()) return std::nullopt;
    return ProofBand{target, std::max(bound, target)};
  }
  // Bounds the pair by interval arithmetic over the whole domain.
  void BoundQuickly(Outcome& outcome, const RegionFacts& domain, Worker& worker) const;
  // Bounds a pair in a box of its own, as tightly as can be until expired() says so, which is asked
  // often.
  void BoundCloser(CloserBox& bound, Worker& worker, const std::function<bool()>& expired) const;

  // Shrinks the box to the inputs of the domain that it holds. False: it holds none.
  bool Shrink(Box& box) const;
  double CutOf(std::int32_t input, const Interval& side) const;

 private:
  // Makes a fresh claim about the region true, or takes it back. `before`: the pair as it was.
  void Confirm(const Region& region, const RegionPair& before, Outcome& outcome,
               Worker& worker) const;
  // Why a bound of BoundBest holds, and what the bound is with room for a checker's rounding.
  std::shared_ptr<PairProof> WhyOf(const RegionPair& pair, const PairFacts& facts,
                                   const PairQuestion& question, const Multipliers& multipliers,
                                   std::vector<float> dual, Worker& worker,
                                   ChargedBound& bound) const;
  const Network& network_;
  const Members& members_;
  const std::int32_t label_;
  const double member_error_;
  const RegionSearchOptions& options_;
  const bool cut_phases_;
  Box root_;
};

}  // namespace lucid::region_search
