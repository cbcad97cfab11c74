// The native engine's search for one class: best first over regions of inputs, each with the
// members that are still alive there.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <limits>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "attack/witness.h"
#include "ensemble/members.h"
#include "lucid/base/result.h"
#include "lucid/certificate/proof.h"
#include "lucid/data/domain.h"
#include "native/account.h"
#include "pair/region_bounder.h"

namespace lucid {

class TaskTeam;  // base/task_team.h

// With at most so many inputs only boxes are cut, because deep networks have more phases than
// inputs. A box with few open neurons left is cut at their phases instead, which settles it. With
// more inputs both kinds of cuts are tried for the worst pair of a region, and the one that leaves
// less to do is taken.
inline constexpr std::int64_t kFewInputs = 10;

// A bound to decide about: the search ends when no bound is above `target`, which never moves, or
// when a witness is above `refuted_above`. (The first is smaller by what recording a bound adds.)
struct RegionDecision {
  double target = 0, refuted_above = 0;
};

// What the tasks of one list took.
struct TaskTimes {
  std::string kind;
  struct Task {
    double seconds = 0;  // of the processor: another program's share does not count
    std::size_t asked = 0, answered = 0;  // bytes
  };
  std::vector<Task> tasks;
};

// Of all threads of this process.
inline double ProcessorSeconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

struct RegionSearchOptions {
  double gap = 0.01;                            // relative: ends when upper - lower <= gap upper
  double absolute_gap = 0;                      // or when upper - lower is at most this
  std::optional<RegionDecision> decide;         // instead of both
  int threads = 0;                              // 0: all cores; the answer does not depend on it
  std::int64_t memory = std::int64_t{1} << 30;  // bytes for regions that wait
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::stop_token stop;
  // Asked wherever the clock is looked at, by any thread: whether the time is up, whatever the
  // clock says. Optional.
  std::function<bool()> out_of_time;
  // Called between rounds. Optional.
  std::function<void(double lower, double upper, std::int64_t regions, std::int64_t members)>
      report;
  // Called between rounds with the whole state, when `save_every` seconds have passed. Optional.
  std::function<Status(const std::string& state)> save;
  double save_every = 30;
  ProofWriter* proof = nullptr;  // optional
  // Bounds come with their claims although no proof is written here: in a process that helps one
  // that writes it.
  bool with_claims = false;
  std::size_t width = 1;  // NativeBoundOptions::width
  // Told of every list of tasks: their kind, and for each the seconds it took and the bytes of its
  // question and answer. Optional; not in a team.
  std::function<void(const TaskTimes& times)> work_log;
  // Processes that share the work; null: none. The search is the same, to the bit.
  TaskTeam* team = nullptr;
  // The hidden layer is the engine's own (ensemble/engine_networks.h). A proof is of the network
  // without it, whose bounds need no multipliers but lambda.
  bool flat = false;
  // Where phases are cut: a member is looked at closely (closer_bounder.h) after so many bounds by
  // lines. None: after as many as take about as long as a closer look.
  std::optional<std::int64_t> closer_after;
  // An attack on one member alone climbs so many times at most.
  std::int64_t most_climbs = std::numeric_limits<std::int64_t>::max();
  bool improve_witnesses = true;   // where bounds are largest; false: the target stays what it was
  const Domain* domain = nullptr;  // of the inputs in question; null: [0,1]^d
};

struct RegionSearchSummary {
  Verdict verdict;
  std::string left;  // to go on with, EncodeRegionState; empty: the search is finished
  std::int64_t regions = 0, bounds = 0;
  std::int64_t pairs = 0;  // member and other class
  std::int64_t pruned_by_screen = 0, pruned_at_root = 0;
  std::int64_t dropped = 0;  // regions given up for want of memory; their bounds are in `upper`
};

// Ensures: every x of the domain with N's label `label` and f(x) > verdict.upper() has g_i(x) >
// member_error for every member i, whatever ended it. `witnesses` is improved on the way. `state`
// continues an earlier search of the same class, networks and options ("" starts anew); another
// one's, or a damaged one, is an error.
Result<RegionSearchSummary> SearchRegions(const Network& network, const Members& members,
                                          std::int32_t label, double member_error,
                                          const RegionSearchOptions& options,
                                          WitnessKeeper& witnesses, const std::string& state);

// Some members, by their numbers.
struct MemberRange {
  std::int64_t from = 0, to = 0;  // from the first to the one before `to`
};

// Of every member of the range and every other class, in this order: a claim about the whole of
// [0,1]^d, by its linear bounds. Values may be +inf. `flat`: as above. `done` is told how many
// members are done. kInterrupted when stopped.
Result<std::vector<ProofClosing>> BoundEachMember(
    const Network& network, const Members& members, MemberRange range, std::int32_t label,
    double member_error, int threads, bool flat = false,
    const std::function<void(std::int64_t)>& done = {}, std::stop_token stop = {});
inline Result<std::vector<ProofClosing>> BoundEachMember(
    const Network& network, const Members& members, std::int32_t label, double member_error,
    int threads, bool flat = false, const std::function<void(std::int64_t)>& done = {},
    std::stop_token stop = {}) {
  return BoundEachMember(network, members, {0, members.count()}, label, member_error, threads, flat,
                         done, std::move(stop));
}
// U[i]: no x of [0,1]^d with f(x) > U[i] has g_i(x) <= member_error, if the claims are true. At
// least 0; +inf for a member that some claim is missing of. Requires: at most one claim of a pair.
std::vector<double> UpperOfMembers(std::span<const ProofClosing> claims, std::int64_t members,
                                   std::int64_t classes);

}  // namespace lucid
