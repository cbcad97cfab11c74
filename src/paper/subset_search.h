// Algorithm 1 of the paper: a branch and bound over sets of members.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/task_team.h"
#include "ensemble/members.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "paper/branch_and_bound.h"

namespace lucid {

// What is known about one subset after its MILP.
struct SubsetBound {
  double bound = 0;      // at or above beta_{c,S}
  bool complete = true;  // solved, or given up at its own limit: not worth another try
  bool timed_out = false;
  std::int64_t nodes = 0, unproved = 0;
  // The best leak that was met on the way; at or below beta_{c,S}.
  double lower = -std::numeric_limits<double>::infinity();
  std::optional<Witness> witness;
};

struct SubsetSearchOptions {
  // Splits subsets until a single member has the largest bound (the paper's BaB). Otherwise the
  // subsets of `start` are bounded and no more.
  bool branch = true;
  double enough = 0;  // subsets at or below this need not be split
  int threads = 1;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::stop_token stop;
  // Processes that share the work, or null. Questions and answers of `topic` are those of
  // SubsetTask.
  TaskTeam* team = nullptr;
  std::string topic;
};

struct SubsetSearchSummary {
  enum class End { kSolved, kDeadline, kStopped };
  End end = End::kSolved;
  double bound = 0;  // at or above beta_{c,S} of the whole
  // Of a search that ended by itself, the numbers below are those of one thread, whoever else
  // solved something that turned out not to matter.
  std::int64_t solved = 0, splits = 0, timed_out = 0, nodes = 0, unproved = 0;
  std::int64_t largest_open = 0;  // members of the subset that holds the bound up
  double lower = -std::numeric_limits<double>::infinity();  // of the best leak of all subsets
  std::optional<Witness> witness;
};

struct SubsetSearchHooks {
  // The bound of one subset. Called from several threads. A function of the subset alone, apart
  // from time. May call `improve` with bounds that are proved on the way.
  using Improve = std::function<void(double bound)>;
  std::function<Result<SubsetBound>(const Subset&, const Improve& improve)> solve;
  std::function<Result<std::vector<Subset>>(const Subset&)> split;
  // Something changed: the anytime bound, and how many subsets are solved. One call at a time.
  std::function<void(double bound, std::int64_t solved)> report;

  // Of a search with a team. `known`: the bound of a subset, if it is known without solving it.
  // `found`: another process solved it; its errors end the search. `seconds`: that are left for all.
  std::function<std::optional<SubsetBound>(const Subset&)> known;
  std::function<Status(const Subset&, const SubsetBound&)> found;
  std::function<double()> seconds;
};

// What another process is asked to do: bound a subset, or split it.
struct SubsetTask {
  bool split = false;
  double seconds = 0;  // that are left for all
  Subset subset;

  void Ask(std::string& out) const;
  // False: that is no question about these members.
  bool Read(ByteCursor& in, std::int64_t members);
  // The answers. Nothing: that is none. Parts are those of `subset`, all of it.
  static void Answer(const SubsetBound& bound, std::string& out);
  static void Answer(const std::vector<Subset>& parts, std::string& out);
  static std::optional<SubsetBound> TakeBound(ByteCursor& in);
  std::optional<std::vector<Subset>> TakeParts(ByteCursor& in) const;
};

// Requires: non-empty subsets; `ceiling` is at or above beta of all of them (what is known before
// any MILP). Ensures: summary.bound is the largest bound of a family of subsets that covers all of
// `start`; equal for any number of threads as long as solve() is not cut short.
Result<SubsetSearchSummary> SearchSubsets(std::vector<Subset> start, double ceiling,
                                          const SubsetSearchOptions& options,
                                          const SubsetSearchHooks& hooks);

}  // namespace lucid
