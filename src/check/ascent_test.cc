#include "check/ascent.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "certificate/test_support.h"
#include "check/pool.h"

namespace lucid {
namespace {

// max { a.s : b.s <= t, low <= s <= high } = min over m >= 0 of m t + sum max (a - m b) s, and the
// minimum of this piecewise linear function is at m = 0 or at some a / b.
double DualValue(const std::vector<double>& a, const std::vector<double>& b, double t,
                 const std::vector<double>& low, const std::vector<double>& high) {
  std::vector<double> multipliers = {0};
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (a[k] / b[k] > 0) multipliers.push_back(a[k] / b[k]);
  }
  double best = kInfinity;
  for (const double m : multipliers) {
    double value = m * t;
    for (std::size_t k = 0; k < a.size(); ++k) {
      const double c = a[k] - m * b[k];
      value += std::max(c * low[k], c * high[k]);
    }
    best = std::min(best, value);
  }
  return best;
}

TEST(Knapsack, EqualsItsDual) {
  Stream stream(7, "knapsack");
  for (int i = 0; i < 500; ++i) {
    const std::size_t n = 1 + stream.Below(8);
    std::vector<double> a(n), b(n), low(n), high(n);
    double least = 0;
    for (std::size_t k = 0; k < n; ++k) {
      a[k] = stream.Normal();
      b[k] = stream.Normal();
      low[k] = -stream.Uniform();
      high[k] = stream.Uniform();
      least += std::min(b[k] * low[k], b[k] * high[k]);
    }
    const double t = stream.Uniform(least, 1);
    const std::vector<double> s = SolveKnapsack(a, b, t, low, high);
    double gain = 0, cost = 0;
    for (std::size_t k = 0; k < n; ++k) {
      EXPECT_GE(s[k], low[k] - 1e-12);
      EXPECT_LE(s[k], high[k] + 1e-12);
      gain += a[k] * s[k];
      cost += b[k] * s[k];
    }
    EXPECT_LE(cost, t + 1e-9);
    EXPECT_NEAR(gain, DualValue(a, b, t, low, high), 1e-9) << "case " << i;

    const std::vector<double> none = SolveKnapsack(a, b, least - 1, low, high);
    double smallest = 0;
    for (std::size_t k = 0; k < n; ++k) smallest += b[k] * none[k];
    EXPECT_NEAR(smallest, least, 1e-9);
  }
}

TEST(Slope, IsTheDerivativeAndTheEvaluatorsMargin) {
  for (const char* architecture :
       {"4 > dense 9 > dense 7 > 3", "9 > conv 3 width 3 stride 2 > dense 4 > 3"}) {
    const Network network = RandomNetwork(architecture, 3);
    SlopeNetwork slopes(network.architecture);
    std::ranges::copy(network.parameters, slopes.parameters().begin());
    const Evaluator evaluator(network);
    Stream stream(1, "slope test");
    for (int i = 0; i < 20; ++i) {
      std::vector<float> x(static_cast<std::size_t>(network.architecture.inputs()));
      for (float& value : x) value = static_cast<float>(stream.Uniform());
      const Decision decision = evaluator.Decide(x);
      Slope slope;
      slopes.MarginAndGradient(x, decision.label, slope);
      EXPECT_NEAR(slope.value, decision.confidence, 1e-12);
      for (std::size_t k = 0; k < x.size(); ++k) {
        std::vector<float> near = x;
        near[k] += 0x1p-16F;
        const double change = slopes.Margin(near, decision.label) - slope.value;
        // A ReLU or another rival may switch in between; that is rare and small.
        EXPECT_NEAR(change / (near[k] - x[k]), slope.gradient[k], 1e-2);
      }
    }
  }
}

TEST(Pool, BoundaryPointsLieOnTheBoundaryAndThreadsDoNotShow) {
  const Network network = RandomNetwork("3 > dense 8 > 3", 4);
  const auto pool = MakePool(network, 9, 200, 1, {});
  const auto again = MakePool(network, 9, 200, 3, {});
  ASSERT_TRUE(pool.ok() && again.ok());
  const Evaluator evaluator(network);
  int boundary = 0;
  for (std::size_t i = 0; i < pool->size(); ++i) {
    const PoolPoint& point = (*pool)[i];
    EXPECT_EQ(point.x, (*again)[i].x);
    EXPECT_EQ(point.other, (*again)[i].other);
    const Decision decision = evaluator.Decide(point.x);
    EXPECT_EQ(decision.label, point.label);
    if (point.label == point.other) continue;
    ++boundary;
    EXPECT_LT(decision.confidence, 1e-5);
  }
  EXPECT_GT(boundary, 100);
}

TEST(Pool, ScoresEqualThoseOfEvaluators) {
  const ImportedRun run = RandomRun("3 > dense 8 > 3", 4, 7, 0.1);
  const Ensemble ensemble = run.Open();
  const auto pool = MakePool(ensemble.network(), 2, 37, 1, {});
  const auto best = ScorePool(ensemble, *pool, 1000, 1000, 2, {}, {});
  ASSERT_TRUE(best.ok());
  std::size_t expected = 0;
  for (const PoolPoint& point : *pool) expected += point.label == point.other ? 7 : 14;
  std::size_t count = 0;
  for (std::size_t c = 0; c < best->size(); ++c) {
    const std::vector<Candidate>& list = (*best)[c];
    count += list.size();
    for (std::size_t i = 0; i < list.size(); ++i) {
      EXPECT_GE(list[i == 0 ? 0 : i - 1].score, list[i].score);
      const PoolPoint& point = (*pool)[list[i].point];
      const auto margin = [&](const Network& network) {
        SlopeNetwork slopes(network.architecture);
        std::ranges::copy(network.parameters, slopes.parameters().begin());
        return slopes.Margin(point.x, static_cast<std::int32_t>(c));
      };
      const double f = margin(ensemble.network()), g = margin(ensemble.Member(list[i].member));
      const bool boundary = point.label != point.other;
      EXPECT_NEAR(list[i].score, boundary ? f - g : std::min(f, f - g), 1e-5);
    }
  }
  EXPECT_EQ(count, expected);
}

}  // namespace
}  // namespace lucid
