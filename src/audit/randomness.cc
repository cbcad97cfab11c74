#include "audit/randomness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "audit/statistics.h"

namespace lucid {
namespace {

constexpr std::size_t kCells = 32;

// The least likely of many things.
class Worst {
 public:
  Worst(double level, std::int64_t tests) : each_(level / static_cast<double>(tests)) {
    verdict_.tests = tests;
  }

  // A count of independent trials, each of them a success with this probability.
  void Count(std::int64_t count, std::int64_t trials, double probability, std::string_view what,
             std::int64_t which) {
    const double tail = std::min(AtLeast(count, trials, probability),
                                 AtLeast(trials - count, trials, 1 - probability));
    Tail(2 * tail, fmt::format("{} {}: {} of {} at a probability of {:.4g}", what, which, count,
                               trials, probability));
  }
  void Tail(double probability, std::string words) {
    if (probability >= least_) return;
    least_ = probability;
    verdict_.worst = std::move(words);
    verdict_.holds = probability >= each_;
  }

  RandomnessVerdict Take() { return std::move(verdict_); }

 private:
  double each_, least_ = 2;
  RandomnessVerdict verdict_;
};

double NormalUpTo(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

}  // namespace

CoinTest::CoinTest(std::int64_t units, double rate)
    : units_(units),
      rate_(rate),
      of_unit_(static_cast<std::size_t>(units)),
      of_pair_(static_cast<std::size_t>(units / 2)),
      now_(static_cast<std::size_t>(units)) {}

void CoinTest::Add(std::span<const std::int32_t> units_in) {
  before_ = std::exchange(now_, std::vector<char>(now_.size()));
  std::int64_t both = 0;
  for (const std::int32_t unit : units_in) {
    const auto at = static_cast<std::size_t>(unit);
    now_[at] = 1;
    ++of_unit_[at];
    both += before_[at];
  }
  for (std::size_t k = 0; k < of_pair_.size(); ++k) of_pair_[k] += now_[2 * k] & now_[2 * k + 1];
  if (!in_step_.empty()) in_both_.push_back(both);
  in_step_.push_back(std::ssize(units_in));
}

RandomnessVerdict CoinTest::Judge(double level) const {
  const std::int64_t steps = std::ssize(in_step_);
  Worst worst(level, steps + std::ssize(in_both_) + units_ + std::ssize(of_pair_));
  for (std::int64_t s = 0; s < steps; ++s) {
    worst.Count(in_step_[static_cast<std::size_t>(s)], units_, rate_, "units in step", s);
  }
  for (std::int64_t s = 0; s < std::ssize(in_both_); ++s) {
    worst.Count(in_both_[static_cast<std::size_t>(s)], units_, rate_ * rate_,
                "units in a step and in step", s + 1);
  }
  for (std::int64_t u = 0; u < units_; ++u) {
    worst.Count(of_unit_[static_cast<std::size_t>(u)], steps, rate_, "steps of unit", u);
  }
  for (std::int64_t k = 0; k < std::ssize(of_pair_); ++k) {
    worst.Count(of_pair_[static_cast<std::size_t>(k)], steps, rate_ * rate_,
                "steps of a pair of units,", k);
  }
  return worst.Take();
}

NoiseTest::NoiseTest(double s2) : deviation_(std::sqrt(s2)), cells_(kCells) {
  // Where the cells end: found by halving, because only the other direction has a formula.
  for (std::size_t k = 1; k < kCells; ++k) {
    const double share = static_cast<double>(k) / static_cast<double>(kCells);
    double low = -10, high = 10;
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (NormalUpTo(middle) < share ? low : high) = middle;
    }
    edges_.push_back(std::floor(high * deviation_));
  }
}

void NoiseTest::Add(std::span<const std::int32_t> noise_of_step) {
  for (const std::int32_t x : noise_of_step) {
    const auto cell = std::ranges::lower_bound(edges_, static_cast<double>(x)) - edges_.begin();
    ++cells_[static_cast<std::size_t>(cell)];
    squares_ += std::pow(static_cast<double>(x) / deviation_, 2);
  }
  count_ += std::ssize(noise_of_step);
  if (++steps_ % 2 == 0) {
    for (std::size_t i = 0; i < noise_of_step.size(); ++i) {
      products_ += static_cast<double>(before_[i]) / deviation_ *
                   (static_cast<double>(noise_of_step[i]) / deviation_);
    }
    pairs_ += std::ssize(noise_of_step);
  } else {
    before_.assign(noise_of_step.begin(), noise_of_step.end());
  }
}

RandomnessVerdict NoiseTest::Judge(double level) const {
  Worst worst(level, static_cast<std::int64_t>(kCells) + 2);
  for (std::size_t k = 0; k < kCells; ++k) {
    // Between two integers: half a step beyond the last one of the cell.
    const double from = k == 0 ? 0 : NormalUpTo((edges_[k - 1] + 0.5) / deviation_);
    const double to = k + 1 == kCells ? 1 : NormalUpTo((edges_[k] + 0.5) / deviation_);
    worst.Count(cells_[k], count_, to - from, "noise in cell", static_cast<std::int64_t>(k));
  }
  // Laurent and Massart 2000: with t = -ln(risk), a chi-square of n degrees lies within
  // 2 sqrt(n t) + 2 t of n. A sum of products is half the difference of two of them.
  const auto risk_of = [](double distance, double n, double last) {
    const double root = (std::sqrt(n + last * distance) - std::sqrt(n)) / last;
    return std::exp(-root * root);
  };
  const auto n = static_cast<double>(count_), m = static_cast<double>(pairs_);
  worst.Tail(2 * risk_of(std::abs(squares_ - n), n, 2),
             fmt::format("variance: {:.4f} times what it should be", squares_ / n));
  if (pairs_ > 0) {
    worst.Tail(4 * risk_of(std::abs(products_), m, 1),
               fmt::format("correlation of steps: {:.4f}", products_ / m));
  }
  return worst.Take();
}

}  // namespace lucid
