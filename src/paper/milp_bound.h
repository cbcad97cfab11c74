// Algorithm 1 of the paper for one class, on any networks: what ComputeBoundsByMilp does for every
// class of a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "attack/attack.h"
#include "base/bytes.h"
#include "base/task_team.h"
#include "ensemble/members.h"
#include "lucid/paper/bound.h"
#include "native/engine.h"
#include "paper/encoding.h"
#include "paper/journal.h"

namespace lucid {

// Everything that stays the same over the classes and subsets of one search.
struct MilpProblem {
  const Members& members;
  const NetworkFacts& facts;  // of N
  const MilpBoundOptions& options;
  double member_error = 0;           // the constraint of a member is g <= member_error
  SubsetJournal* journal = nullptr;  // of this problem; may be null
  TaskTeam* team = nullptr;          // processes that share the work, or null
};

// Told the bounds and the number of MILPs when something changed.
using BoundReport = std::function<void(double lower, double upper, std::int64_t solved)>;

// Ensures: as ClassBound says, for the domain facts.bounds.input and all members of the problem;
// the better `attack` is, the less is left to do. Uses of the options: variant, tau, gap,
// subset_limit, tighten, seed, threads. `deadline` and `stop` give a looser bound, not an error.
// Requires: `attack` is an answer of Attack for this label, or empty. (The bound needs no more than
// attack.beta_lower <= beta.)
Result<ClassBound> BoundClassByMilp(const MilpProblem& problem, std::int32_t label,
                                    const AttackResult& attack,
                                    std::chrono::steady_clock::time_point deadline,
                                    std::stop_token stop, const BoundReport& report = {});

// What a helper does of such a search: the two functions of a TeamService.
class MilpHelper {
 public:
  // Whether tasks of this topic are of such a search.
  static bool Serves(std::string_view topic);

  // Keeps a reference.
  explicit MilpHelper(const Ensemble& ensemble);
  ~MilpHelper();
  MilpHelper(const MilpHelper&) = delete;
  MilpHelper& operator=(const MilpHelper&) = delete;

  Status Begin(std::string_view topic, std::stop_token nobody_waits);
  Status Answer(ByteCursor& in, int worker, std::string& out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lucid
