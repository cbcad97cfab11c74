#include "paper/branch_and_bound.h"

#include <gtest/gtest.h>

#include <bit>

#include "paper/milp_test_support.h"

namespace lucid {
namespace {

using namespace milp_test;
using End = MilpResult::End;
using Kind = LpAdvice::Kind;

class BranchAndBound : public testing::Test {
 protected:
  void SetUp() override {
    if (!HaveHighs()) GTEST_SKIP() << "built without HiGHS";
  }
};

template <typename T>
MilpOptions With(T MilpOptions::*field, std::type_identity_t<T> value, MilpOptions options = {}) {
  options.*field = std::move(value);
  return options;
}

MilpResult Solve(const MilpModel& model, const MilpOptions& options = {}) {
  return Maximise(model, *HighsOrNull(model), options);
}

// ---- against brute force
// -------------------------------------------------------------------------

void ExpectAgrees(const MilpModel& model, const MilpOptions& options) {
  const auto optimum = ExactOptimum(model);
  const MilpResult result = Solve(model, options);
  const double bound = result.bound.value();
  ASSERT_EQ(result.end, End::kSolved);
  if (!optimum) {
    ASSERT_EQ(bound, -kInfinity);
    return;
  }
  const double value = optimum->value();
  ASSERT_TRUE(optimum->AtMost(bound)) << "the bound " << bound << " cuts off " << value;
  ASSERT_LE(bound, value + options.gap * std::abs(value) + 1e-5);
  ASSERT_LE(result.incumbent, value + 1e-6);
  ASSERT_EQ(result.unproved, 0);
}

TEST_F(BranchAndBound, EqualsBruteForceOnFeasibleModels) {
  for (const std::uint64_t seed : Seeds(400)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Planted planted = RandomModel(random, random.Int(0, 7), 2, random.Int(0, 8));
    ExpectAgrees(planted.model, With(&MilpOptions::gap, random.Chance(0.3) ? 0.1 : 0));
    if (HasFatalFailure()) return;
  }
}

TEST_F(BranchAndBound, EqualsBruteForceOnModelsThatMayBeInfeasible) {
  int infeasible = 0;
  for (const std::uint64_t seed : Seeds(400)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const MilpModel model =
        RandomModel(random, random.Int(1, 7), 2, random.Int(2, 6), /*planted=*/false).model;
    if (model.nonzeros() == 0) continue;
    infeasible += ExactOptimum(model) ? 0 : 1;
    ExpectAgrees(model, {});
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(infeasible, 40);  // else this tests nothing
  EXPECT_LE(infeasible, 360);
}

// The best LP over all assignments of the binaries, as HiGHS sees it.
double BestOfAllLps(const MilpModel& model) {
  const auto lp = HighsOrNull(model);
  double best = -kInfinity;
  for (std::uint32_t bits = 0; bits < 1U << model.binaries().size(); ++bits) {
    for (std::size_t k = 0; k < model.binaries().size(); ++k) {
      lp->SetBounds(model.binaries()[k], Interval::Point(bits >> k & 1));
    }
    const LpAdvice advice = lp->Maximise(10);
    if (advice.kind != Kind::kOptimal) continue;
    double value = 0;
    for (std::size_t j = 0; j < advice.point.size(); ++j)
      value += model.cost()[j] * advice.point[j];
    best = std::max(best, value);
  }
  return best;
}

TEST_F(BranchAndBound, EqualsTheBestOfAllLpsWithManyContinuousColumns) {
  for (const std::uint64_t seed : Seeds(80)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Planted planted = RandomModel(random, 6, random.Int(3, 9), random.Int(4, 10));
    const double best = BestOfAllLps(planted.model);
    const MilpResult result = Solve(planted.model);
    ASSERT_EQ(result.end, End::kSolved);
    ASSERT_TRUE(planted.Below(result.bound.value()));
    // 1e-6: HiGHS's LPs may violate a row by 1e-8 and overshoot; ours may not undershoot the truth,
    // which the planted point and the exact brute force above check without a tolerance.
    ASSERT_GE(result.bound.value(), best - 1e-6);
    ASSERT_LE(result.bound.value(), best + 1e-5);
  }
}

// ---- a planted point is never cut off
// ------------------------------------------------------------

TEST_F(BranchAndBound, NoNodeLimitCutsOffTheOptimum) {
  for (const std::uint64_t seed : Seeds(40)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const bool knapsacks = seed % 4 == 0;
    const Planted planted = knapsacks ? Knapsacks(random, 20, 4) : RandomModel(random, 9, 2, 9);
    const auto optimum = knapsacks ? std::nullopt : ExactOptimum(planted.model);
    double before = kInfinity;
    for (int nodes = 0; nodes <= 20; ++nodes) {
      const MilpResult result = Solve(planted.model, With(&MilpOptions::max_nodes, nodes));
      ASSERT_TRUE(planted.Below(result.bound.value())) << nodes << " nodes";
      ASSERT_TRUE(!optimum || optimum->AtMost(result.bound.value())) << nodes << " nodes";
      ASSERT_LE(result.nodes, nodes);
      ASSERT_TRUE(result.end == End::kSolved || result.nodes == nodes);
      // The same search, one node further.
      ASSERT_LE(result.bound.value(), before) << nodes << " nodes";
      before = result.bound.value();
      if (result.end == End::kSolved) break;
    }
  }
}

TEST_F(BranchAndBound, ADeadlineThatHasPassedLeavesAValidBound) {
  Random random(1);
  const Planted planted = Knapsacks(random, 20, 4);
  const MilpResult result =
      Solve(planted.model,
            With(&MilpOptions::deadline, std::chrono::steady_clock::now() - std::chrono::hours(1)));
  EXPECT_EQ(result.end, End::kDeadline);
  EXPECT_EQ(result.nodes, 0);
  EXPECT_TRUE(planted.Below(result.bound.value()));
}

TEST_F(BranchAndBound, ARequestedStopLeavesAValidBound) {
  Random random(1);
  const Planted planted = Knapsacks(random, 20, 4);
  std::stop_source source;
  source.request_stop();
  const MilpResult result = Solve(planted.model, With(&MilpOptions::stop, source.get_token()));
  EXPECT_EQ(result.end, End::kStopped);
  EXPECT_EQ(result.nodes, 0);
  EXPECT_TRUE(planted.Below(result.bound.value()));
}

TEST_F(BranchAndBound, AStopInTheMiddleLeavesAValidBound) {
  Random random(2);
  const Planted planted = Knapsacks(random, 30, 4);
  std::stop_source source;
  int calls = 0;
  const auto repair = [&](std::span<const double>) {
    if (++calls == 7) source.request_stop();
    return -kInfinity;
  };
  MilpOptions options = With(&MilpOptions::stop, source.get_token());
  options.repair = repair;
  const MilpResult result = Solve(planted.model, options);
  EXPECT_EQ(result.end, End::kStopped);
  EXPECT_GE(result.nodes, 7);
  EXPECT_TRUE(planted.Below(result.bound.value()));
}

TEST(BranchAndBoundWithoutLp, KeepsTheBoundOfTheColumns) {
  for (const std::uint64_t seed : Seeds(50)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Planted planted = RandomModel(random, 5, 3, 5);
    const auto lp = MakeNullLp();
    for (const std::int64_t nodes : {0, 1, 2, 7, 20}) {
      const MilpResult result = Maximise(planted.model, *lp, With(&MilpOptions::max_nodes, nodes));
      ASSERT_TRUE(planted.Below(result.bound.value()));
      ASSERT_TRUE(std::isfinite(result.bound.value()));
    }
    const MilpResult all = Maximise(planted.model, *lp, {});
    ASSERT_EQ(all.nodes, 63);
    ASSERT_EQ(all.unproved, 32);
    ASSERT_TRUE(planted.Below(all.bound.value()));
  }
}

// ---- an LP solver that lies
// ----------------------------------------------------------------------

class HostileLp final : public LpSolver {
 public:
  HostileLp(const MilpModel& model, Random& random)
      : model_(model), random_(random), inner_(HighsOrNull(model)) {}

  void SetBounds(std::int32_t column, Interval bounds) override {
    if (!random_.Chance(0.05)) inner_->SetBounds(column, bounds);
  }
  void SetCost(std::int32_t column, double cost) override { inner_->SetCost(column, cost); }
  LpAdvice Maximise(double seconds, std::int32_t iterations) override {
    LpAdvice advice = inner_->Maximise(seconds, iterations);
    switch (random_.Int(0, 9)) {
      case 0:
        return {};
      case 1:
        advice.kind = Kind::kInfeasible;
        break;  // with multipliers that prove nothing
      case 2:
        advice = Garbage(Kind::kInfeasible);
        break;
      case 3:
        advice = Garbage(Kind::kOptimal);
        break;
      case 4:
        advice = Garbage(Kind::kFailed);
        break;
      case 5:
        advice.multipliers = Garbage(Kind::kFailed).multipliers;
        break;
      case 6:
        advice.point = Garbage(Kind::kFailed).point;
        break;
      case 7:  // integral, and far from feasible
        advice.kind = Kind::kOptimal;
        advice.point.assign(static_cast<std::size_t>(model_.columns()), random_.Int(0, 1));
        break;
      default:
        break;  // the truth
    }
    if (random_.Chance(0.05)) advice.multipliers.resize(random_.Int(0, 3));
    if (random_.Chance(0.05)) advice.point.resize(random_.Int(0, 3));
    return advice;
  }
  LpBasis Basis() const override { return inner_->Basis(); }
  void StartFrom(const LpBasis& basis) override {
    if (!random_.Chance(0.2)) inner_->StartFrom(basis);
  }

 private:
  double Number() {
    const double values[] = {std::nan(""), kInfinity, -kInfinity, 1e300, -1e300, 0, 1, 0.5};
    return random_.Chance(0.7) ? random_.Uniform(-3, 3) : values[random_.Int(0, 7)];
  }
  LpAdvice Garbage(Kind kind) {
    LpAdvice advice{.kind = kind, .point = {}, .multipliers = {}};
    for (std::int32_t j = 0; j < model_.columns(); ++j) advice.point.push_back(Number());
    for (std::int32_t i = 0; i < model_.rows(); ++i) advice.multipliers.push_back(Number());
    return advice;
  }

  const MilpModel& model_;
  Random& random_;
  std::unique_ptr<LpSolver> inner_;
};

TEST_F(BranchAndBound, AnLpSolverThatLiesCannotCutOffTheOptimum) {
  for (const std::uint64_t seed : Seeds(300)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Planted planted = seed % 3 == 0
                                ? Knapsacks(random, 12, 3)
                                : RandomModel(random, random.Int(1, 8), 2, random.Int(1, 8));
    const auto optimum = seed % 3 == 0 ? std::nullopt : ExactOptimum(planted.model);
    HostileLp lp(planted.model, random);
    MilpOptions options = With(&MilpOptions::max_nodes, 400);
    const auto repair = [&](std::span<const double> point) {
      EXPECT_EQ(point.size(), planted.point.size());
      return random.Chance(0.1) ? std::nan("") : planted.Value();
    };
    if (random.Chance(0.5)) options.repair = repair;
    const MilpResult result = Maximise(planted.model, lp, options);
    ASSERT_TRUE(planted.Below(result.bound.value())) << result.bound.value();
    ASSERT_TRUE(!optimum || optimum->AtMost(result.bound.value())) << result.bound.value();
  }
}

TEST_F(BranchAndBound, AnLpSolverThatLiesCannotRaiseTheBound) {
  for (const std::uint64_t seed : Seeds(30)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Planted planted = RandomModel(random, 8, 3, 8);
    double before = kInfinity;
    for (int nodes = 0; nodes <= 12; ++nodes) {
      Random lies(seed);  // the same ones each time: the same search, one node further
      HostileLp lp(planted.model, lies);
      const MilpResult result = Maximise(planted.model, lp, With(&MilpOptions::max_nodes, nodes));
      ASSERT_LE(result.bound.value(), before) << nodes << " nodes";
      before = result.bound.value();
    }
  }
}

TEST_F(BranchAndBound, ARepairThatLiesOnlyEndsTheSearchEarly) {
  Random random(3);
  const Planted planted = Knapsacks(random, 20, 4);
  for (const double lie : {1e6, kInfinity, -kInfinity, std::nan("")}) {
    MilpOptions options = With(&MilpOptions::max_nodes, 50);
    options.repair = [&](std::span<const double>) { return lie; };
    const MilpResult result = Solve(planted.model, options);
    EXPECT_TRUE(planted.Below(result.bound.value())) << lie;
  }
}

// ---- options, repeatability, reports
// -------------------------------------------------------------

TEST_F(BranchAndBound, EnoughStopsAsSoonAsNothingAboveItIsPossible) {
  for (const std::uint64_t seed : Seeds(10)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Planted planted = Knapsacks(random, 15, 3);
    const MilpResult full = Solve(planted.model);
    ASSERT_EQ(full.end, End::kSolved);
    const double optimum = std::round(full.incumbent);  // integers
    for (const double above : {0.5, 5.0, 25.0, 100.0}) {
      const MilpResult result = Solve(planted.model, With(&MilpOptions::enough, optimum + above));
      ASSERT_EQ(result.end, End::kSolved);
      ASSERT_GE(result.bound.value(), optimum);
      ASSERT_LE(result.bound.value(), optimum + above);
      ASSERT_LE(result.nodes, full.nodes);
    }
    const MilpResult below = Solve(planted.model, With(&MilpOptions::enough, optimum - 1));
    ASSERT_GE(below.bound.value(), optimum);  // something above exists: all is searched
    ASSERT_LE(below.bound.value(), optimum + 1e-5);
    const MilpResult all = Solve(planted.model, With(&MilpOptions::enough, 1e9));
    ASSERT_EQ(all.nodes, 0);
    ASSERT_EQ(all.end, End::kSolved);
  }
}

TEST_F(BranchAndBound, AKnownIncumbentOnlySavesWork) {
  for (const std::uint64_t seed : Seeds(10)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Planted planted = Knapsacks(random, 15, 3);
    const MilpResult full = Solve(planted.model);
    const double optimum = std::round(full.incumbent);
    for (const double known : {planted.Value(), optimum}) {
      const MilpResult result = Solve(planted.model, With(&MilpOptions::incumbent, known));
      ASSERT_EQ(result.end, End::kSolved);
      ASSERT_GE(result.bound.value(), optimum);
      ASSERT_LE(result.bound.value(), optimum + 1e-5);
      ASSERT_LE(result.nodes, full.nodes);
    }
    ASSERT_EQ(Solve(planted.model, With(&MilpOptions::incumbent, 1e9)).nodes, 0);
    for (const double lie : {optimum + 50, 1e9, kInfinity, std::nan("")}) {
      const MilpResult result = Solve(
          planted.model, With(&MilpOptions::incumbent, lie, With(&MilpOptions::max_nodes, 50)));
      ASSERT_GE(result.bound.value(), optimum) << lie;
    }
  }
}

TEST_F(BranchAndBound, GivesTheSameBitsTwice) {
  for (const std::uint64_t seed : Seeds(20)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Planted planted =
        seed % 2 == 0 ? Knapsacks(random, 15, 3) : RandomModel(random, 10, 5, 10);
    const MilpOptions options = With(&MilpOptions::max_nodes, seed % 3 == 0 ? 9 : 100'000);
    const MilpResult one = Solve(planted.model, options), two = Solve(planted.model, options);
    ASSERT_EQ(one.end, two.end);
    ASSERT_EQ(one.nodes, two.nodes);
    ASSERT_EQ(one.iterations, two.iterations);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(one.bound.value()),
              std::bit_cast<std::uint64_t>(two.bound.value()));
    ASSERT_EQ(std::bit_cast<std::uint64_t>(one.incumbent),
              std::bit_cast<std::uint64_t>(two.incumbent));
  }
}

TEST_F(BranchAndBound, ReportsBoundsThatNeverRise) {
  Random random(4);
  const Planted planted = Knapsacks(random, 250, 20);
  std::vector<double> bounds;
  std::int64_t nodes_before = 0;
  std::stop_source source;
  const auto report = [&](double bound, std::int64_t nodes) {
    EXPECT_GT(nodes, nodes_before);
    nodes_before = nodes;
    bounds.push_back(bound);
    if (bounds.size() == 2) source.request_stop();
  };
  MilpOptions options = With(&MilpOptions::stop, source.get_token());
  options.report = report;
  const MilpResult result = Solve(planted.model, options);
  if (result.end == End::kSolved) GTEST_SKIP() << "solved in less than two seconds";
  EXPECT_EQ(result.end, End::kStopped);
  bounds.push_back(result.bound.value());
  ASSERT_EQ(bounds.size(), 3U);
  EXPECT_TRUE(std::ranges::is_sorted(bounds, std::greater<>()));
  for (const double bound : bounds) EXPECT_TRUE(planted.Below(bound));
}

TEST_F(BranchAndBound, TrivialModelsHaveTrivialAnswers) {
  EXPECT_EQ(Maximise(MilpModel(), *MakeNullLp(), {}).end, End::kSolved);
  MilpModel no_rows;
  no_rows.AddColumn({-1, 2}, 3);
  no_rows.SetCost(no_rows.AddBinary(), 5);
  no_rows.SetCost(no_rows.AddBinary(), -5);
  const double bound = Solve(no_rows).bound.value();
  EXPECT_GE(bound, 11);
  EXPECT_LE(bound, 11 + 1e-9);
}

}  // namespace
}  // namespace lucid
