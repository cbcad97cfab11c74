#include "paper/branch_and_bound.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <queue>

#include "numeric/rounding.h"
#include "paper/safe_bound.h"

namespace lucid {
namespace {

using Clock = std::chrono::steady_clock;

// A binary within this of 0 or 1 counts as integral. Only decides where to branch: the bound of a
// node that is not branched any more is its safe LP bound, whatever the binaries are.
constexpr double kIntegral = 1e-6;
constexpr double kTrialSeconds = 10;  // of a strong-branching LP, which has few iterations anyway

// One decision of the tree; a node is the chain of decisions up to the root.
struct Node {
  double bound;                          // proved for everything below
  std::int32_t parent;                   // -1: the root
  std::int32_t column;                   // decided here (root: -1)
  std::int32_t value;                    // 0 or 1
  double fraction;                       // of the column in the parent's LP
  std::shared_ptr<const LpBasis> basis;  // of the parent's LP
};

// What a decision on a column has gained so far, per unit of fraction taken away.
class PseudoCosts {
 public:
  explicit PseudoCosts(std::size_t columns) : gains_(2 * columns) {}

  void Learn(std::int32_t column, int value, double gain) {
    Gain& own = gains_[2 * column + value];
    own.sum += gain;
    own.count += 1;
    all_.sum += gain;
    all_.count += 1;
  }
  double Score(std::int32_t column, double fraction) const {
    constexpr double kLittle = 1e-9;  // a product rule needs factors above zero
    const double down = Of(2 * column) * fraction, up = Of(2 * column + 1) * (1 - fraction);
    return std::max(down, kLittle) * std::max(up, kLittle);
  }
  bool Known(std::int32_t column) const {
    return gains_[2 * column].count > 0 && gains_[2 * column + 1].count > 0;
  }

 private:
  struct Gain {
    double sum = 0;
    std::int64_t count = 0;
  };
  double Of(std::size_t index) const {
    const Gain& own = gains_[index];
    if (own.count > 0) return own.sum / static_cast<double>(own.count);
    return all_.count > 0 ? all_.sum / static_cast<double>(all_.count) : 1;
  }
  std::vector<Gain> gains_;
  Gain all_;
};

class Search {
 public:
  Search(const MilpModel& model, LpSolver& lp, const MilpOptions& options)
      : model_(model),
        lp_(lp),
        options_(options),
        bounds_(model.bounds().begin(), model.bounds().end()),
        costs_(static_cast<std::size_t>(model.columns())) {}

  MilpResult Run() {
    Feasible(options_.incumbent);
    // Before any LP: what the column bounds alone allow.
    const std::vector<double> none(static_cast<std::size_t>(model_.rows()), 0);
    Push({SafeUpperBound(model_, bounds_, none).value(), -1, -1, 0, 0, nullptr});
    while (!open_.empty()) {
      const std::int32_t top = open_.top().node;
      if (tree_[top].bound <= Cutoff()) break;  // the largest of all that is open
      if (const auto end = OutOfTime()) return Finish(*end);
      open_.pop();
      Process(top);
      Report();
    }
    return Finish(MilpResult::End::kSolved);
  }

 private:
  struct Open {
    double bound;
    std::int32_t node;
    // Largest bound first, then the youngest: a dive keeps the basis warm.
    bool operator<(const Open& other) const {
      return bound != other.bound ? bound < other.bound : node < other.node;
    }
  };

  double Cutoff() const {
    return std::max(options_.GoodEnough(result_.incumbent), options_.enough);
  }

  std::optional<MilpResult::End> OutOfTime() const {
    if (options_.stop.stop_requested()) return MilpResult::End::kStopped;
    if (result_.nodes >= options_.max_nodes) return MilpResult::End::kNodes;
    if (Clock::now() >= options_.deadline) return MilpResult::End::kDeadline;
    return std::nullopt;
  }

  double ProvedBound() const {
    return open_.empty() ? closed_ : std::max(closed_, open_.top().bound);
  }

  void Report() {
    if (!options_.report || Clock::now() < next_report_) return;
    next_report_ = Clock::now() + std::chrono::seconds(1);
    options_.report(ProvedBound(), result_.nodes);
  }

  MilpResult Finish(MilpResult::End end) {
    result_.bound = UpperBound::Proved(ProvedBound());
    result_.end = end;
    return result_;
  }

  void Push(const Node& node) {
    tree_.push_back(node);
    open_.push({node.bound, static_cast<std::int32_t>(tree_.size() - 1)});
  }

  // Brings the LP's column bounds from the last node's decisions to this node's.
  void Apply(std::int32_t node) {
    std::vector<std::pair<std::int32_t, double>> wanted;
    for (std::int32_t n = node; tree_[n].parent >= 0; n = tree_[n].parent) {
      wanted.emplace_back(tree_[n].column, tree_[n].value);
    }
    std::ranges::sort(wanted);
    const auto decided = [&](std::int32_t column) {
      return std::ranges::binary_search(wanted, column, {},
                                        &std::pair<std::int32_t, double>::first);
    };
    for (const std::int32_t column : decided_) {
      if (!decided(column)) Set(column, {0, 1});
    }
    decided_.clear();
    for (const auto& [column, value] : wanted) {
      Set(column, {value, value});
      decided_.push_back(column);
    }
  }

  void Set(std::int32_t column, Interval bounds) {
    if (bounds_[column] == bounds) return;
    bounds_[column] = bounds;
    lp_.SetBounds(column, bounds);
  }

  // Advice that is not of the promised shape counts as a failure: nothing below needs to look
  // again.
  LpAdvice Ask(double seconds, std::int32_t iterations) {
    LpAdvice advice = lp_.Maximise(seconds, iterations);
    result_.iterations += advice.iterations;
    if (std::ssize(advice.multipliers) != model_.rows()) advice.multipliers.clear();
    const bool whole =
        std::ssize(advice.point) == model_.columns() &&
        std::ranges::all_of(advice.point, [](double value) { return std::isfinite(value); });
    if ((advice.kind == LpAdvice::Kind::kOptimal && !whole) ||
        (advice.kind == LpAdvice::Kind::kInfeasible && advice.multipliers.empty())) {
      advice.kind = LpAdvice::Kind::kFailed;
    }
    return advice;
  }

  void Process(std::int32_t node) {
    Apply(node);
    ++result_.nodes;
    const double seconds = std::chrono::duration<double>(options_.deadline - Clock::now()).count();
    if (tree_[node].basis != nullptr && tree_[node].basis != last_)
      lp_.StartFrom(*tree_[node].basis);
    tree_[node].basis.reset();
    last_.reset();
    const LpAdvice advice = Ask(std::clamp(seconds, 0.1, 1e6), LpSolver::kManyIterations);
    if (advice.kind == LpAdvice::Kind::kInfeasible &&
        ProvesInfeasible(model_, bounds_, advice.multipliers)) {
      return;
    }
    const double before = tree_[node].bound;
    double bound = before;
    if (advice.kind != LpAdvice::Kind::kInfeasible && !advice.multipliers.empty()) {
      bound = std::min(bound, SafeUpperBound(model_, bounds_, advice.multipliers).value());
    }
    tree_[node].bound = bound;
    if (advice.kind == LpAdvice::Kind::kOptimal) {
      Learn(node, before - bound);
      if (options_.repair) {
        Feasible(options_.repair(advice.point));
      }
    }
    if (bound <= Cutoff()) return Close(bound);
    Branch(node, advice);
  }

  // A value that is no number is no value.
  void Feasible(double value) {
    if (std::isfinite(value)) result_.incumbent = std::max(result_.incumbent, value);
  }

  void Close(double bound) { closed_ = std::max(closed_, bound); }

  void Learn(std::int32_t node, double gain) {
    const Node& decision = tree_[node];
    if (decision.column < 0 || !std::isfinite(gain)) return;
    const double taken = decision.value == 0 ? decision.fraction : 1 - decision.fraction;
    costs_.Learn(decision.column, decision.value, std::max(gain, 0.0) / std::max(taken, kIntegral));
  }

  struct Candidate {
    double score;
    std::int32_t column;
    double fraction;
  };

  // The undecided binaries, best first.
  std::vector<Candidate> Candidates(const LpAdvice& advice) const {
    std::vector<Candidate> candidates;
    for (const std::int32_t j : model_.binaries()) {
      if (bounds_[j].lower == bounds_[j].upper) continue;
      const bool solved = advice.kind == LpAdvice::Kind::kOptimal;
      const double value = solved ? std::clamp(advice.point[j], 0.0, 1.0) : 0.5;
      if (std::min(value, 1 - value) < kIntegral) continue;
      candidates.push_back({costs_.Score(j, value), j, value});
    }
    std::ranges::stable_sort(candidates, std::greater<>(), &Candidate::score);
    return candidates;
  }

  // Strong branching: tries both sides of the most promising columns that were never tried, with a
  // few simplex iterations each, and scores all again with what was learnt.
  void TryOut(std::vector<Candidate>& candidates, double bound) {
    constexpr std::size_t kLookAt = 8;
    constexpr std::int32_t kIterations = 40;
    bool learnt = false;
    for (std::size_t at = 0; at < std::min(kLookAt, candidates.size()); ++at) {
      const auto [score, column, fraction] = candidates[at];
      if (costs_.Known(column)) continue;
      if (OutOfTime()) break;
      for (const int value : {0, 1}) {
        Set(column, Interval::Point(value));
        lp_.StartFrom(*last_);
        const LpAdvice advice = Ask(kTrialSeconds, kIterations);
        double gain = bound;  // infeasible: nothing is better
        if (advice.kind != LpAdvice::Kind::kInfeasible) {
          gain = advice.multipliers.empty()
                     ? 0
                     : bound - SafeUpperBound(model_, bounds_, advice.multipliers).value();
        }
        const double taken = value == 0 ? fraction : 1 - fraction;
        costs_.Learn(column, value, std::max(gain, 0.0) / taken);
      }
      Set(column, {0, 1});
      learnt = true;
    }
    if (!learnt) return;
    lp_.StartFrom(*last_);
    for (Candidate& candidate : candidates) {
      candidate.score = costs_.Score(candidate.column, candidate.fraction);
    }
    std::ranges::stable_sort(candidates, std::greater<>(), &Candidate::score);
  }

  void Branch(std::int32_t node, const LpAdvice& advice) {
    const double bound = tree_[node].bound;
    std::vector<Candidate> candidates = Candidates(advice);
    if (candidates.empty()) return Leaf(bound, advice);
    last_ = std::make_shared<const LpBasis>(lp_.Basis());
    const bool last_node = result_.nodes >= options_.max_nodes;
    if (advice.kind == LpAdvice::Kind::kOptimal && !last_node) TryOut(candidates, bound);
    const auto [score, column, fraction] = candidates.front();
    // The side the LP leans to is pushed last: of equal bounds the youngest is looked at first.
    const std::int32_t first = fraction > 0.5 ? 0 : 1;
    for (const std::int32_t value : {first, 1 - first}) {
      Push({bound, node, column, value, fraction, last_});
    }
  }

  // Nothing to decide: the LP's optimum is the node's optimum, or no LP could be solved.
  void Leaf(double bound, const LpAdvice& advice) {
    if (advice.kind == LpAdvice::Kind::kOptimal) {
      double value = 0;
      for (std::int32_t j = 0; j < model_.columns(); ++j) {
        value += model_.cost()[j] * advice.point[j];
      }
      Feasible(value);
    } else {
      ++result_.unproved;
    }
    Close(bound);
  }

  const MilpModel& model_;
  LpSolver& lp_;
  const MilpOptions& options_;
  std::vector<Interval> bounds_;  // of the node in the LP
  std::vector<std::int32_t> decided_;
  std::vector<Node> tree_;
  std::shared_ptr<const LpBasis> last_;  // the LP solver stands there
  std::priority_queue<Open> open_;
  PseudoCosts costs_;
  Clock::time_point next_report_ = Clock::now() + std::chrono::seconds(1);
  double closed_ = -kInfinity;  // the largest bound of any leaf that was put aside
  MilpResult result_;
};

}  // namespace

MilpResult Maximise(const MilpModel& model, LpSolver& lp, const MilpOptions& options) {
  return Search(model, lp, options).Run();
}

}  // namespace lucid
