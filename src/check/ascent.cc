#include "check/ascent.h"

#include <algorithm>
#include <cmath>

namespace lucid {
namespace {

constexpr int kSteps = 60;        // linear programs
constexpr int kRestorations = 8;  // Newton steps back to g <= 0
constexpr double kFirstRadius = 0.1, kLargestRadius = 0.5, kSmallestRadius = 1e-6;

void Move(std::vector<float>& x, std::span<const double> step) {
  for (std::size_t k = 0; k < x.size(); ++k) {
    x[k] = static_cast<float>(std::clamp(x[k] + step[k], 0.0, 1.0));
  }
}

// Rounding x to float32 may move g by so much: aim as far below 0.
double RoundingSlack(std::span<const double> gradient) {
  double sum = 0;
  for (const double g : gradient) sum += std::abs(g);
  return 0x1p-23 * sum;
}

// Moves x to where the member's margin is <= 0, by Newton steps along the coordinates that are free
// to move. Ensures of `g`: the value and gradient at the x it leaves. False if it does not get
// there.
bool Restore(SlopeNetwork& member, std::int32_t label, std::span<const char> fixed,
             std::vector<float>& x, Slope& g) {
  for (int i = 0;; ++i) {
    member.MarginAndGradient(x, label, g);
    if (g.value <= 0) return true;
    if (i == kRestorations) return false;
    double square = 0;
    std::vector<double> step(x.size(), 0.0);
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double slope = g.gradient[k];
      if (fixed[k] != 0 || (slope > 0 && x[k] <= 0) || (slope < 0 && x[k] >= 1)) continue;
      step[k] = slope;
      square += slope * slope;
    }
    if (square == 0) return false;
    const double scale = -(g.value + RoundingSlack(g.gradient)) / square;
    for (double& value : step) value *= scale;
    Move(x, step);
  }
}

}  // namespace

std::vector<double> SolveKnapsack(std::span<const double> a, std::span<const double> b, double t,
                                  std::span<const double> low, std::span<const double> high) {
  std::vector<double> s(a.size());
  std::vector<std::size_t> paid;  // coordinates where gaining in a costs in b
  double cost = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const bool up = a[k] > 0 || (a[k] == 0 && b[k] < 0);
    s[k] = up ? high[k] : low[k];
    cost += b[k] * s[k];
    if (a[k] * b[k] > 0) paid.push_back(k);
  }
  // Give back where the least of a is lost for each unit of b.
  std::ranges::sort(paid, [&](std::size_t i, std::size_t j) {
    const double left = a[i] / b[i], right = a[j] / b[j];
    return left != right ? left < right : i < j;
  });
  for (const std::size_t k : paid) {
    if (cost <= t) break;
    const double end = a[k] > 0 ? low[k] : high[k];
    const double most = b[k] * (s[k] - end);
    const double share = most > 0 ? std::min(1.0, (cost - t) / most) : 0;
    s[k] += share * (end - s[k]);
    cost -= share * most;
  }
  return s;
}

std::optional<Climb> Ascend(SlopeNetwork& network, SlopeNetwork& member, std::int32_t label,
                            const Domain& domain, std::vector<float> start) {
  Slope f, g, next_g;
  std::vector<float> x = std::move(start);
  std::vector<char> fixed(x.size());
  for (std::size_t k = 0; k < x.size(); ++k)
    fixed[k] = !domain.IsFree(static_cast<std::int64_t>(k));
  if (!Restore(member, label, fixed, x, g)) return std::nullopt;
  network.MarginAndGradient(x, label, f);
  std::vector<double> low(x.size()), high(x.size());
  double radius = kFirstRadius;
  for (int i = 0; i < kSteps && radius >= kSmallestRadius; ++i) {
    for (std::size_t k = 0; k < x.size(); ++k) {
      low[k] = fixed[k] != 0 ? 0 : -std::min<double>(radius, x[k]);
      high[k] = fixed[k] != 0 ? 0 : std::min<double>(radius, 1 - x[k]);
    }
    const double room = -g.value - RoundingSlack(g.gradient);
    const std::vector<double> step = SolveKnapsack(f.gradient, g.gradient, room, low, high);
    std::vector<float> y = x;
    Move(y, step);
    const bool better =
        Restore(member, label, fixed, y, next_g) && network.Margin(y, label) > f.value;
    radius = better ? std::min(2 * radius, kLargestRadius) : radius / 4;
    if (!better) continue;
    x = std::move(y);
    std::swap(g, next_g);
    network.MarginAndGradient(x, label, f);
  }
  if (!(f.value > 0)) return std::nullopt;
  return Climb{std::move(x), f.value};
}

}  // namespace lucid
