#include "attack/attack_ascent.h"

#include <algorithm>
#include <cmath>

namespace lucid {
namespace {

// Restoration aims a hair inside, so that rounding does not leave it a hair outside.
constexpr double kInside = 1e-9;
constexpr int kFirstRestoration = 25;
constexpr int kStepRestoration = 4;
constexpr int kMaxSteps = 60;
constexpr double kLargestRadius = 0.5;
constexpr double kShrink = 0.4, kGrow = 2;

}  // namespace

void BoxKnapsack::Solve(std::span<const double> a, std::span<const double> b, double limit,
                        std::span<const double> low, std::span<const double> high,
                        std::span<double> s) {
  // Without the row every s_j goes to its better end. Going to the other end regains |b_j| width
  // of the row if a_j and b_j have one sign, and costs |a_j| width: cheapest first.
  double row = 0;
  items_.clear();
  for (std::size_t j = 0; j < a.size(); ++j) {
    const bool up = a[j] > 0 || (a[j] == 0 && b[j] < 0);
    s[j] = up ? high[j] : low[j];
    row += b[j] * s[j];
    const bool pays = up ? b[j] > 0 : b[j] < 0;
    if (pays && high[j] > low[j]) items_.push_back({a[j] / b[j], j});
  }
  if (row <= limit) return;
  std::ranges::sort(items_, [](const Item& x, const Item& y) {
    return x.ratio != y.ratio ? x.ratio < y.ratio : x.at < y.at;
  });
  for (const Item& item : items_) {
    const std::size_t j = item.at;
    const double end = b[j] > 0 ? low[j] : high[j];
    const double regained = b[j] * (s[j] - end);
    if (row - regained <= limit) {
      s[j] = std::clamp(s[j] - (row - limit) / b[j], low[j], high[j]);
      return;
    }
    s[j] = end;
    row -= regained;
  }
}

PairAscent::PairAscent(std::int64_t inputs, const Domain* domain)
    : fixed_(static_cast<std::size_t>(inputs), 0) {
  for (std::int64_t j = 0; domain != nullptr && j < inputs; ++j) fixed_[j] = !domain->IsFree(j);
  for (auto* vector : {&f_here_, &g_here_, &g_slope_, &low_, &high_, &step_, &trial_}) {
    vector->resize(static_cast<std::size_t>(inputs));
  }
}

std::optional<double> PairAscent::Restore(NetworkGradient& member, double target, int steps,
                                          std::vector<double>& x) {
  for (int i = 0;; ++i) {
    const double g = member.Evaluate(x);
    if (g <= target) return g;
    if (i == steps) return std::nullopt;
    member.Gradient(g_slope_);
    // Only coordinates that can move count.
    double length = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      const bool stuck = fixed_[j] != 0 || (g_slope_[j] > 0 ? x[j] <= 0 : x[j] >= 1);
      if (stuck) g_slope_[j] = 0;
      length += g_slope_[j] * g_slope_[j];
    }
    if (length == 0) return std::nullopt;
    const double scale = (g - target + kInside) / length;
    for (std::size_t j = 0; j < x.size(); ++j) {
      x[j] = std::clamp(x[j] - scale * g_slope_[j], 0.0, 1.0);
    }
  }
}

std::optional<double> PairAscent::Climb(NetworkGradient& network, NetworkGradient& member,
                                        const TrustBox& box, std::vector<double>& x) {
  std::optional<double> g = Restore(member, 0, kFirstRestoration, x);
  if (!g) return std::nullopt;
  double f = network.Evaluate(x), radius = box.first;
  network.Gradient(f_here_);
  member.Gradient(g_here_);
  for (int i = 0; i < kMaxSteps && radius >= box.smallest; ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) {
      low_[j] = fixed_[j] != 0 ? 0 : std::max(-radius, -x[j]);
      high_[j] = fixed_[j] != 0 ? 0 : std::min(radius, 1 - x[j]);
    }
    knapsack_.Solve(f_here_, g_here_, -*g, low_, high_, step_);
    for (std::size_t j = 0; j < x.size(); ++j) trial_[j] = std::clamp(x[j] + step_[j], 0.0, 1.0);
    const std::optional<double> trial_g = Restore(member, 0, kStepRestoration, trial_);
    const double trial_f = trial_g ? network.Evaluate(trial_) : f;
    if (trial_f <= f + kInside) {
      radius *= kShrink;
      continue;
    }
    std::swap(x, trial_);
    f = trial_f;
    g = trial_g;
    network.Gradient(f_here_);
    member.Gradient(g_here_);
    radius = std::min(kGrow * radius, kLargestRadius);
  }
  return f;
}

}  // namespace lucid
