// The constants that tune a region search, and the values that its steps hand to each other. Only
// the files of the region search use them: region_search.cc decides which region is looked at,
// region_cutter.cc where it is cut, region_work.cc bounds its pairs, region_tasks.cc cuts that work
// into tasks for any thread of any process, closer_search.cc gives some pairs a closer look, and
// region_book.cc keeps the regions, the account and the proof.
//
// Words of the search:
//   pair          a member, and a class other than the one in question.
//   fresh         a claim is fresh while the proof has no node for its region yet.
//   closer look   a bound by windows or moments, which are the upper rungs of bound_ladder.h. It
//                 takes as long as many bounds by lines.
//   hard          a pair is hard once it was bounded by lines as often as a closer look would cost,
//                 or, of more than two classes, a quarter as often. It then gets a closer look over
//                 the whole domain. If the result is close to the target, the pair leaves its
//                 regions and gets boxes of its own, which are looked at closely. If these boxes
//                 become many, the pair goes back to lines, which become exact when all phases are
//                 fixed.
//   level         the bound that windows are asked for. Windows end as soon as they have proved a
//                 bound at or below their level, and a level that is out of reach may take them a
//                 minute. Over the whole domain the first level is kFirstLevel times the lower
//                 bound. Each next level is halfway between the bound that was proved and the
//                 largest level that windows did not reach, until the two are as near as
//                 kNearLevels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "attack/attack_ascent.h"
#include "base/parallel.h"
#include "check/claim_checker.h"
#include "lucid/data/domain.h"
#include "native/proof_log.h"
#include "native/region_state.h"
#include "pair/bound_ladder.h"

namespace lucid::region_search {

// A bound takes so many steps of descent. With 5 or 40 the search proves less in the same time.
inline constexpr int kSteps = 20;
// Where boxes alone are cut, lambda does most, and a few steps are worth their time.
inline constexpr int kStepsInBoxes = 5;
// A round takes so many regions, with so many pairs in all. Both are fixed, so that the search does
// not depend on the number of threads.
inline constexpr std::size_t kRound = 32, kRoundPairs = 512;
// So many pairs of a region are taken further together, and one task bounds so many of them.
inline constexpr std::size_t kGroup = 8, kChunk = 16;
// A box with at most so many open neurons is cut at their phases and not at its inputs.
inline constexpr std::int32_t kFewOpen = 6;
// So many boxes are looked at closely in a round, and windows have so many looks at a time, each of
// which may take 190 MB.
inline constexpr std::size_t kCloserRound = 4, kLooks = 4;
// Of more than two classes a pair is hard after this share of the bounds by lines.
inline constexpr std::int64_t kSooner = 4;
inline constexpr double kFirstLevel = 1.1, kNearLevels = 1.03;
// Before each closer look the member is attacked alone, because an attack on all members spends few
// climbs on each. That takes a fraction of the look's time.
inline constexpr std::int64_t kPoolAlone = 900, kClimbsAlone = 2000;
inline constexpr std::size_t kAttacksOnWorst = 5;
inline constexpr std::size_t kAttackedFirst = 8;  // members, before a decision cuts regions
// After so many regions a pair is closed where only rounding keeps its bound above the target:
// smaller regions would not help it.
inline constexpr std::int64_t kRegionsBeforeRounding = 2000;
inline constexpr double kBelowTarget = 1e-6;  // a share of it
inline constexpr double kNarrowest = 1e-7;    // an input's interval that is not cut any more
inline constexpr TrustBox kFromRegion{0.1, 1e-3};
inline constexpr double kReportEvery = 0.2;  // seconds

struct Worker {
  Worker(const Network& network, std::int32_t label, const Domain* domain)
      : ladder(network, domain),
        gradient(network.architecture, network.parameters, label),
        ascent(network.architecture.inputs(), domain),
        parameters(network.parameters.size()) {}
  BoundLadder ladder;
  NetworkGradient gradient, member_gradient;
  PairAscent ascent;
  std::vector<float> parameters;
  Recycled<RegionFacts> domain;           // the whole one, once a task has asked for it
  std::unique_ptr<ClaimChecker> checker;  // while a proof is written
};

inline std::vector<std::unique_ptr<Worker>> MakeWorkers(const Network& network, std::int32_t label,
                                                        int threads,
                                                        const Domain* domain = nullptr) {
  std::vector<std::unique_ptr<Worker>> workers;
  workers.reserve(static_cast<std::size_t>(EffectiveThreads(threads)));
  for (int w = 0; w < EffectiveThreads(threads); ++w) {
    workers.push_back(std::make_unique<Worker>(network, label, domain));
  }
  return workers;
}

// What became of a pair in a region.
struct Outcome {
  RegionPair pair;
  bool alive = false;         // else it is closed: bounded by pair.bound, or its region is empty
  bool by_intervals = false;  // closed by interval arithmetic alone
  bool rounding = false;      // closed, although rounding keeps its bound above the target
  double own = 0;             // what the region itself gave; pair.bound may be from around it
  bool fresh = false;  // the pair's claim is of this region, whose place it does not know yet
};

struct Child {
  Region region;
  bool inhabited = false;
  Outcome worst;  // of the parent's worst pair, whose multipliers the others start from
  Multipliers multipliers;
  std::vector<Outcome> others;
};

// One way to cut a region in two.
struct Cut {
  ProofSplit how;  // all but its nodes
  Child children[2];

  // What is left to do: the sum of what the children are above the target.
  double Rest(double target) const {
    double rest = 0;
    for (const Child& child : children) {
      if (child.worst.alive) rest += child.worst.own - target;
    }
    return rest;
  }
};

struct Expansion {
  // A region's own band is narrower than its parent's: it may turn out to hold nothing, or nothing
  // of its worst pair.
  enum class Found { kInputs, kNone, kNoneOfTheWorst };
  Found found = Found::kInputs;
  std::optional<Cut> cut;     // none: there is nothing left to cut
  std::vector<double> point;  // an input where the worst pair leaks, perhaps
  double confidence = 0;
};

// A box of one pair that is looked at closely.
struct CloserBox {
  Box box;
  RegionPair pair;
  std::vector<float> multipliers;
  std::int32_t cut = -1;
  std::uint64_t place = 0;  // its node in the proof
  bool fresh = false;       // as in Outcome
  double level = 0;         // of windows, at least the target; 0: moments are asked for the target
  bool alive = true;
  std::vector<float> half_way;  // as in CloserBounder::Why
};

}  // namespace lucid::region_search
