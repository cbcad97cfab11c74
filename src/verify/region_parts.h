// What a region search is tuned by, and what its steps hand to each other. Of region_search.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "bounds/closer_bounder.h"
#include "bounds/sum_ranges.h"
#include "lucid/data/domain.h"
#include "verify/attack_ascent.h"
#include "verify/region_state.h"

namespace lucid::region_search {

inline constexpr int kSteps =
    20;  // of descent, where phases are cut; 5 and 40 prove less in the same time
inline constexpr std::size_t kRound = 32;  // regions in hand at a time: fixed, so that the search
inline constexpr std::size_t kRoundPairs = 512;  // does not depend on the number of threads
inline constexpr std::size_t kGroup = 8;   // pairs of a region that are taken further together
inline constexpr std::size_t kChunk = 16;  // pairs of a region that one task bounds
inline constexpr std::int32_t kFewOpen =
    6;  // open neurons of a box that are settled by their phases
// Narrower ranges of the second hidden layer's sums cost some seconds for N. For a member they cost
// about as much as the bounds that were asked of it by then, and are taken again, with more nodes,
// when it was asked for so many times more.
inline constexpr std::int64_t kNodesForSums = 3000, kNodesForDifferences = 200;  // a unit, of 2x50
inline constexpr std::int64_t kUsualWork =
    50 * 50 * 23;  // units of both layers and inputs, of those
inline constexpr std::int64_t kAgain = 8;
// A closer look takes as long as many bounds by lines: a pair that was bounded as often gets one
// over the whole domain. Where that is close to the target, the pair leaves its regions for boxes
// of its own, looked at closely. With many of them it goes back to lines, which phases make exact
// in the end.
inline constexpr std::size_t kCloserRound = 4;  // of these boxes in hand at a time
inline constexpr std::size_t kLooks = 4;        // of windows at a time, each of up to 190 MB
// Over the whole domain windows are asked for some times the lower bound first, then for less and
// less, until a bound and what they were asked for in vain are as near as this. A target that is
// out of reach may take them a minute.
inline constexpr double kFirstLevel = 1.1, kNearLevels = 1.03;
// Of an attack on the member alone before each of these looks, which takes a fraction of its time:
// among all members few climbs are its own.
inline constexpr std::int64_t kPoolAlone = 900, kClimbsAlone = 2000;
inline constexpr std::size_t kAttacksOnWorst = 5;
inline constexpr double kNarrowest = 1e-7;  // an input's interval that is not cut any more
inline constexpr TrustBox kFromRegion{0.1, 1e-3};
inline constexpr double kReportEvery = 0.2;  // seconds

struct Worker {
  Worker(const Network& network, std::int32_t label, const Domain* domain)
      : bounder(network),
        gradient(network.architecture, network.parameters, label),
        ascent(network.architecture.inputs(), domain),
        parameters(network.parameters.size()) {}
  RegionBounder bounder;
  NetworkGradient gradient, member_gradient;
  PairAscent ascent;
  std::vector<float> parameters;
  std::unique_ptr<SumRanger> ranger;  // these two where they are needed
  std::unique_ptr<CloserBounder> closer;
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
  bool alive = false;  // else it is closed: bounded by pair.bound, or its region is empty
  double own = 0;      // what the region itself gave; pair.bound may be from around it
  std::optional<ProofClosing> closing;  // of a closed pair, if a proof is written
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
  ProofNode how;  // split, layer, unit, at
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
  double level = 0;  // what windows are asked for, at least the target; 0: moments are, for that
  bool alive = true;
};

}  // namespace lucid::region_search
