// The closer looks of a region search: which pairs get one, what windows are asked for, and the
// boxes that such pairs have of their own. region_parts.h explains these words.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "lucid/nn/network.h"
#include "native/region_book.h"
#include "native/region_parts.h"
#include "native/region_work.h"
#include "native/worker_team.h"

namespace lucid::region_search {

// It serves one class, and is not thread-safe.
class CloserSearch {
 public:
  // What it needs of the search around it.
  struct Calls {
    // Attacks the members of these pairs alone: a higher target is sooner reached. False: out of
    // time.
    std::function<Result<bool>(const std::vector<RegionPair>&)> attack;
    std::function<double()> beta_lower;
    std::function<void()> report;
  };
  // Keeps references.
  CloserSearch(const Network& network, std::int64_t members, const RegionSearchOptions& options,
               const RegionWork& work, const WorkerTeam& team, RegionBook& book, Calls calls);

  // Is told that a pair was bounded by lines once more. When that has happened often enough, the
  // pair is to get a closer look.
  void Count(const RegionPair& pair);
  // Bounds the hard pairs over the whole domain, by windows or moments. False: out of time.
  Result<bool> LookAtHardPairs();
  // The boxes of largest bound that are looked at closely are cut in two. Those of a saved search
  // are bounded anew. False: out of time, and they wait again. Requires: such a box is in front.
  Result<bool> Round();

  // The largest bound of boxes that are out of the book for a while.
  double in_hand() const { return in_hand_; }

 private:
  bool ManyClasses() const { return network_.architecture.classes() > 2; }
  bool UsesWindows() const { return WindowBounder::Fits(network_.architecture); }
  Result<bool> Bound(std::vector<CloserBox>& boxes) const;
  Result<bool> LookAt(std::span<const RegionPair> pairs);
  Result<bool> LookInto(const std::vector<RegionNode>& nodes);
  // Before a look at a pair, its largest bound in all regions that wait is what is known of it over
  // the whole domain. These bounds are written into the proof, because the pair may leave the
  // regions now.
  void Support(CloserBox& look);
  void Push(CloserBox bound);

  // What to ask windows for next, of a pair over the whole domain; 0: cutting it does more.
  double Level(const RegionNode& node);
  void CountLevel(const CloserBox& box);
  double& Unreached(const RegionPair& pair);
  std::size_t NumberOf(const RegionPair& pair) const;

  const Network& network_;
  const std::size_t width_;
  const RegionWork& work_;
  const WorkerTeam& team_;
  RegionBook& book_;
  const Calls calls_;
  const std::int64_t after_;         // so many bounds by lines a pair is hard; 0: never
  std::vector<std::int64_t> asked_;  // how often each pair was bounded by lines
  std::set<std::int32_t> attacked_;  // members, each alone
  // Multipliers of moments that the last pair had half-way, over the whole domain. Of more than two
  // classes: there are as many times more pairs to look at.
  std::vector<float> half_way_;
  std::vector<std::int32_t> boxes_;     // of every member, of its own
  std::vector<double> unreached_;       // the largest level of every pair that windows missed
  std::vector<RegionPair> to_look_at_;  // pairs that are to be looked at closely
  double in_hand_ = 0;
};

}  // namespace lucid::region_search
