#include "paper/tighten.h"

#include <algorithm>

#include "paper/lp.h"
#include "paper/safe_bound.h"

namespace lucid {
namespace {

using Clock = std::chrono::steady_clock;

// One encoding, asked for the range of one column after the other.
class RangeFinder {
 public:
  RangeFinder(Encoding& encoding, LpSolver& lp)
      : model_(encoding.model), lp_(lp), columns_(model_.bounds().begin(), model_.bounds().end()) {
    model_.SetCost(encoding.beta, 0);
    lp_.SetCost(encoding.beta, 0);
  }

  // Narrows `range`, what is known about the column; later questions profit from it.
  void Narrow(std::int32_t column, Interval& range) {
    range.upper = std::min(range.upper, Largest(column, 1));
    range.lower = std::max(range.lower, -Largest(column, -1));
    // Bounds of an empty set may cross; the search finds out that there is nothing.
    if (range.lower > range.upper) range.lower = range.upper;
    columns_[column] = range;
    lp_.SetBounds(column, range);
  }

 private:
  double Largest(std::int32_t column, double sign) {
    constexpr double kSeconds = 10;  // per LP: far more than any should need
    model_.SetCost(column, sign);
    lp_.SetCost(column, sign);
    const LpAdvice advice = lp_.Maximise(kSeconds);
    double largest = std::numeric_limits<double>::infinity();
    if (advice.kind == LpAdvice::Kind::kOptimal) {
      largest = SafeUpperBound(model_, columns_, advice.multipliers).value();
    }
    model_.SetCost(column, 0);
    lp_.SetCost(column, 0);
    return largest;
  }

  MilpModel& model_;
  LpSolver& lp_;
  std::vector<Interval> columns_;
};

bool IsOpen(const Layer& layer, Interval range) {
  return layer.relu && range.lower < 0 && range.upper > 0;
}

}  // namespace

Status TightenByLp(NetworkFacts& facts, const HyperNetwork& hyper, NeuronBounds& bounds,
                   std::int32_t label, const EncodingOptions& encoding_options,
                   const TightenOptions& options) {
  const auto layers = hyper.architecture().layers();
  for (int round = 0; round < options.rounds; ++round) {
    Encoding encoding = Encode(facts, hyper, bounds, label, encoding_options);
    LUCID_ASSIGN(const std::unique_ptr<LpSolver> lp, MakeHighsLp(encoding.model));
    RangeFinder finder(encoding, *lp);
    double before = 0, after = 0;
    for (std::size_t m = 0; m < layers.size(); ++m) {
      for (auto [sums, known] : {std::pair(&encoding.network_sums[m], &facts.bounds.pre[m]),
                                 std::pair(&encoding.member_sums[m], &bounds.pre[m])}) {
        for (std::size_t unit = 0; unit < known->size(); ++unit) {
          if (options.stop.stop_requested() || Clock::now() >= options.deadline) return Ok();
          Interval& range = (*known)[unit];
          if (!IsOpen(layers[m], range)) continue;
          before += range.upper - range.lower;
          finder.Narrow((*sums)[unit], range);
          after += range.upper - range.lower;
        }
      }
    }
    constexpr double kWorthwhile = 0.95;  // another round costs as much as this one
    if (after > kWorthwhile * before) break;
  }
  return Ok();
}

}  // namespace lucid
