#include "audit/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

namespace lucid {
namespace {

std::vector<double> Sorted(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return sorted;
}

std::int64_t CountAbove(std::span<const double> sorted, double threshold) {
  return sorted.end() - std::ranges::upper_bound(sorted, threshold);
}

// Every threshold that separates scores, and one below all.
std::vector<double> Thresholds(std::span<const double> in, std::span<const double> out) {
  std::set<double> values(in.begin(), in.end());
  values.insert(out.begin(), out.end());
  values.insert(-HUGE_VAL);
  return {values.begin(), values.end()};
}

double Share(std::int64_t count, std::span<const double> of) {
  return static_cast<double>(count) / static_cast<double>(of.size());
}

std::vector<double> EverySecond(std::span<const double> values, std::size_t first) {
  std::vector<double> half;
  for (std::size_t i = first; i < values.size(); i += 2) half.push_back(values[i]);
  std::ranges::sort(half);
  return half;
}

// The regularised incomplete beta function I_x(a, b), by its continued fraction in the form of
// Lentz (Numerical Recipes 6.4). Requires: 0 < x < 1; a and b at least 1.
double IncompleteBeta(double a, double b, double x) {
  // The fraction converges fast below the mean of the distribution only.
  if (x > (a + 1) / (a + b + 2)) return 1 - IncompleteBeta(b, a, 1 - x);
  constexpr double kTiny = 1e-300, kPrecision = 1e-15;
  constexpr int kMostSteps = 100'000;  // about the square root of a or b is needed
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m <= kMostSteps; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double change = 1;
    for (const double term : {even, odd}) {
      d = 1 / away_from_zero(1 + term * d);
      c = away_from_zero(1 + term / c);
      change = c * d;
      fraction *= change;
    }
    if (std::abs(change - 1) < kPrecision) break;
  }
  const double front =
      std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  return std::exp(front) * fraction / a;
}

// Where I_x(a, b), which grows with x, passes `value`: the neighbour below.
double InverseIncompleteBeta(double a, double b, double value) {
  double low = 0, high = 1;
  while (true) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return low;
    (IncompleteBeta(a, b, middle) < value ? low : high) = middle;
  }
}

// A share of trials.
struct Count {
  std::int64_t count, of;
};

// ln of the smallest ratio that two counts leave once delta is allowed for, or -inf:
// P <= e^epsilon Q + delta.
double LogRatio(Count high, Count low, double risk, double delta) {
  const double above = std::max(0.0, LowerProbability(high.count, high.of, risk) - delta);
  return std::log(above) - std::log(UpperProbability(low.count, low.of, risk));
}

double EpsilonAt(double threshold, std::span<const double> in, std::span<const double> out,
                 double risk, double delta) {
  const std::int64_t n = std::ssize(in), m = std::ssize(out);
  const std::int64_t tp = CountAbove(in, threshold), fp = CountAbove(out, threshold);
  const Count in_above{tp, n}, in_below{n - tp, n}, out_above{fp, m}, out_below{m - fp, m};
  const double each = risk / 8;  // four ratios of two bounds
  const auto ratio = [&](Count high, Count low) { return LogRatio(high, low, each, delta); };
  return std::max({ratio(in_above, out_above), ratio(out_below, in_below),
                   ratio(out_above, in_above), ratio(in_below, out_below), 0.0});
}

}  // namespace

double AreaUnderCurve(std::span<const double> in, std::span<const double> out) {
  const std::vector<double> sorted = Sorted(out);
  double wins = 0;  // ties count half
  for (const double score : in) {
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), score);
    wins += static_cast<double>(first - sorted.begin()) + 0.5 * static_cast<double>(last - first);
  }
  return wins / (static_cast<double>(in.size()) * static_cast<double>(out.size()));
}

double LargestAdvantage(std::span<const double> in, std::span<const double> out) {
  const std::vector<double> a = Sorted(in), b = Sorted(out);
  double largest = 0;
  for (const double threshold : Thresholds(in, out)) {
    const double tpr = Share(CountAbove(a, threshold), a);
    largest = std::max(largest, std::abs(tpr - Share(CountAbove(b, threshold), b)));
  }
  return largest;
}

double TruePositivesAt(double fpr, std::span<const double> in, std::span<const double> out) {
  const std::vector<double> a = Sorted(in), b = Sorted(out);
  double best = 0;
  for (const double threshold : Thresholds(in, out)) {
    if (Share(CountAbove(b, threshold), b) > fpr) continue;
    best = std::max(best, Share(CountAbove(a, threshold), a));
  }
  return best;
}

double AtLeast(std::int64_t successes, std::int64_t trials, double probability) {
  if (successes <= 0 || probability >= 1) return 1;
  if (successes > trials || probability <= 0) return 0;
  return IncompleteBeta(static_cast<double>(successes), static_cast<double>(trials - successes + 1),
                        probability);
}

double LowerProbability(std::int64_t successes, std::int64_t trials, double risk) {
  if (successes == 0) return 0;
  // P(at least `successes`) = I_p(successes, trials - successes + 1).
  return InverseIncompleteBeta(static_cast<double>(successes),
                               static_cast<double>(trials - successes + 1), risk);
}

double UpperProbability(std::int64_t successes, std::int64_t trials, double risk) {
  if (successes == trials) return 1;
  return 1 - LowerProbability(trials - successes, trials, risk);  // of the failures
}

double EpsilonLowerBound(std::span<const double> in, std::span<const double> out, double risk,
                         double delta) {
  const std::vector<double> in_chosen = EverySecond(in, 0), in_judged = EverySecond(in, 1);
  const std::vector<double> out_chosen = EverySecond(out, 0), out_judged = EverySecond(out, 1);
  if (in_judged.empty() || out_judged.empty()) return 0;
  double best = -1, best_threshold = -HUGE_VAL;
  for (const double threshold : Thresholds(in_chosen, out_chosen)) {
    const double epsilon = EpsilonAt(threshold, in_chosen, out_chosen, risk, delta);
    if (epsilon <= best) continue;
    best = epsilon;
    best_threshold = threshold;
  }
  return EpsilonAt(best_threshold, in_judged, out_judged, risk, delta);
}

double EvidenceAgainst(std::span<const double> in, std::span<const double> out, double most) {
  constexpr int kBets = 16;
  std::array<double, kBets> logs{};  // ln of what each bet has made
  double best = 1;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double win = in[i] > out[i] ? 1 : in[i] == out[i] ? 0.5 : 0;
    double mean = 0;
    for (int k = 0; k < kBets; ++k) {
      // A stake of 1 / most would lose everything at once.
      const double stake = (k + 0.5) / kBets / most;
      logs[static_cast<std::size_t>(k)] += std::log1p(stake * (win - most));
      mean += std::exp(std::min(logs[static_cast<std::size_t>(k)], 600.0)) / kBets;
    }
    best = std::max(best, mean);
  }
  return best;
}

double WelchT(std::span<const double> a, std::span<const double> b) {
  const auto moments = [](std::span<const double> values) {
    const auto n = static_cast<double>(values.size());
    double mean = 0, square = 0;
    for (const double v : values) mean += v / n;
    for (const double v : values) square += (v - mean) * (v - mean);
    return std::pair(mean, square / (n - 1) / n);
  };
  const auto [mean_a, error_a] = moments(a);
  const auto [mean_b, error_b] = moments(b);
  return (mean_a - mean_b) / std::sqrt(error_a + error_b);
}

double LargestAreaUnderPrivacy(double epsilon, double delta) {
  // The two lines meet at a; the second reaches 1 at 1 - delta.
  const double a = (1 - delta) / (1 + std::exp(epsilon));
  const double at = delta + std::exp(epsilon) * a;
  return a * (delta + at) / 2 + (1 - delta - a) * (at + 1) / 2 + delta;
}

}  // namespace lucid
