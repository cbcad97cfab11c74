// Branch and bound over the binary columns of a model. Every bound it reports is proved: a node
// counts only through the safe bound of its LP (safe_bound.h), never through what the LP solver
// says.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <stop_token>
#include <vector>

#include "lucid/base/result.h"
#include "numeric/rounding.h"
#include "paper/lp.h"
#include "paper/model.h"

namespace lucid {

struct MilpOptions {
  double gap = 0;  // relative: stops when bound <= incumbent (1 + gap) + absolute_gap
  double absolute_gap = 1e-6;
  // Stops as soon as no value above this is possible.
  double enough = -std::numeric_limits<double>::infinity();
  // The value of a feasible point that is known already.
  double incumbent = -std::numeric_limits<double>::infinity();
  std::int64_t max_nodes = std::numeric_limits<std::int64_t>::max();
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::stop_token stop;
  // Told the proved bound and the number of nodes about once a second. Optional.
  std::function<void(double bound, std::int64_t nodes)> report;
  // Bounds at or below this are good enough, given a feasible value.
  double GoodEnough(double value) const {
    return std::isfinite(value) ? value + std::abs(value) * gap + absolute_gap
                                : -std::numeric_limits<double>::infinity();
  }
  // Makes a feasible point out of an LP's point and returns its value (-inf: none). Optional.
  std::function<double(std::span<const double> point)> repair;
};

struct MilpResult {
  enum class End {
    kSolved,    // nothing left to decide: within the gap (unless leaves are unproved), at or below
                // `enough`, or infeasible
    kDeadline,  // the time was up
    kNodes,     // max_nodes
    kStopped,   // the stop token
  };
  End end = End::kSolved;
  UpperBound bound = UpperBound::None();  // of the optimum; -inf: infeasible
  // The best value seen, from `repair` or an integral LP point: an estimate, decides only when to
  // stop.
  double incumbent = -std::numeric_limits<double>::infinity();
  std::int64_t nodes = 0, iterations = 0;
  std::int64_t unproved = 0;  // leaves that keep their parent's bound because the LP gave no proof
};

// Best-first, branching by pseudo-costs. Deterministic but for deadline and stop.
// Requires: `lp` was made of `model` for this call: it ends with the bounds of some node.
MilpResult Maximise(const MilpModel& model, LpSolver& lp, const MilpOptions& options);

}  // namespace lucid
