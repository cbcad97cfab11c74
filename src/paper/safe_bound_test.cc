#include "paper/safe_bound.h"

#include <gtest/gtest.h>

#include <bit>
#include <functional>

#include "paper/milp_test_support.h"

namespace lucid {
namespace {

using namespace milp_test;

ExactSum Activity(std::span<const Term> terms, std::span<const double> x, double sign) {
  ExactSum sum;
  for (const Term& term : terms) sum.Add(sign * term.coefficient, x[term.column]);
  return sum;
}

// The smallest double at or above the exact number of which `negated` is the negative, by bisection
// over all doubles.
double RoundedUp(const ExactSum& negated) {
  const auto value = [](std::int64_t key) {
    return key < 0 ? -std::bit_cast<double>(-key) : std::bit_cast<double>(key);
  };
  std::int64_t high = std::bit_cast<std::int64_t>(kInfinity), low = -high;
  while (true) {
    const std::int64_t middle = low / 2 + high / 2 + (low % 2 + high % 2) / 2;
    if (middle == low || middle == high) return value(high);
    ExactSum difference = negated;
    (difference.Add(value(middle)).Sign() >= 0 ? high : low) = middle;
  }
}
double TightUpper(std::span<const Term> terms, std::span<const double> x) {
  return RoundedUp(Activity(terms, x, -1));
}
double TightLower(std::span<const Term> terms, std::span<const double> x) {
  return -RoundedUp(Activity(terms, x, 1));
}

// The sizes, as exponents of two, of everything in a model and of the multipliers.
struct Sizes {
  const char* name;
  int coefficient[2], multiplier[2], bound[2];
};
constexpr Sizes kSizes[] = {
    {"ordinary", {-3, 3}, {-3, 3}, {-2, 4}},
    {"mixed", {-60, 60}, {-60, 60}, {-40, 40}},
    {"products underflow, columns are huge", {-545, -535}, {-545, -535}, {990, 1000}},
    {"subnormal", {-1074, -1021}, {-20, 20}, {-20, 20}},
    {"everything tiny", {-1074, -1000}, {-1074, -1000}, {-1074, -1000}},
    {"sums overflow", {480, 510}, {480, 513}, {-4, 4}},
    {"products overflow", {500, 900}, {500, 900}, {100, 120}},
};

struct Case {
  Planted planted;
  std::vector<double> multipliers;
};

// A model of random doubles that is satisfied by its point exactly. Where the multipliers look, the
// rows are tight at the point, and most costs are the multipliers' own A'y: then the bound is the
// point's value but for rounding errors, the worst that can happen to a bound that forgets one.
Case RandomCase(Random& random, const Sizes& sizes) {
  Case result;
  auto& [model, point] = result.planted;
  const int columns = random.Int(1, 6), rows = random.Int(1, 8);
  for (int j = 0; j < columns; ++j) {
    const double one = random.Wild(sizes.bound[0], sizes.bound[1]);
    const double two = random.Chance(0.1) ? one : random.Wild(sizes.bound[0], sizes.bound[1]);
    const Interval bounds = {std::min(one, two), std::max(one, two)};
    model.AddColumn(bounds);
    const double inside = bounds.lower + random.Uniform(0, 1) * (bounds.upper - bounds.lower);
    point.push_back(random.Chance(0.3) ? one : std::clamp(inside, bounds.lower, bounds.upper));
  }
  std::vector<double> cost(point.size(), 0);
  for (int i = 0; i < rows; ++i) {
    std::vector<Term> terms;
    const double y = random.Wild(sizes.multiplier[0], sizes.multiplier[1]);
    for (std::int32_t j = 0; j < columns; ++j) {
      if (random.Chance(0.3)) continue;
      terms.push_back({j, random.Wild(sizes.coefficient[0], sizes.coefficient[1])});
      cost[j] += y * terms.back().coefficient;
    }
    const double upper = TightUpper(terms, point), lower = TightLower(terms, point);
    const int other = random.Int(0, 2);  // the side the multiplier does not need
    if (y > 0) {
      model.AddRow(other == 0   ? lower
                   : other == 1 ? lower - std::abs(lower)
                                : -kInfinity,
                   upper, terms);
    } else {
      model.AddRow(lower,
                   other == 0   ? upper
                   : other == 1 ? upper + std::abs(upper)
                                : kInfinity,
                   terms);
    }
    result.multipliers.push_back(y);
  }
  for (std::int32_t j = 0; j < columns; ++j) {
    const double own = random.Wild(sizes.coefficient[0], sizes.coefficient[1]);
    model.SetCost(j, std::isfinite(cost[j]) && random.Chance(0.85) ? cost[j] : own);
  }
  return result;
}

double Hostile(Random& random) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  const double values[] = {std::nan(""), kInfinity, -kInfinity, kLargest, -kLargest, 5e-324,
                           -5e-324,      1e300,     -1e16,      0.0,      -0.0};
  return random.Chance(0.3) ? random.Wild(-1074, 1023)
                            : values[random.Int(0, std::size(values) - 1)];
}

double BoundOf(const MilpModel& model, std::span<const double> multipliers) {
  return SafeUpperBound(model, model.bounds(), multipliers).value();
}

TEST(SafeUpperBound, ExactSumIsExact) {
  EXPECT_EQ(ExactSum().Sign(), 0);
  EXPECT_EQ(ExactSum().Add(1e300, 1e300).Add(5e-324, 5e-324).Add(-1e300, 1e300).Sign(), 1);
  EXPECT_EQ(ExactSum().Add(1e308, -1e308).Add(5e-324).Sign(), -1);
  EXPECT_EQ(ExactSum().Add(0.1, 3).Add(-0.3).Sign(), 1);  // the double 0.1 is above 1/10
  EXPECT_EQ(ExactSum().Add(0x1.fffffffffffffp0, 0x1.fffffffffffffp0).Add(-4).Sign(), -1);
  EXPECT_EQ(ExactSum().Add(0.5, 0.5).Add(-0.25).Sign(), 0);
}

TEST(SafeUpperBound, HoldsWhereOnlyRoundingErrorsDecide) {
  for (const Sizes& sizes : kSizes) {
    for (const std::uint64_t seed : Seeds(1000)) {
      SCOPED_TRACE(std::string(sizes.name) + ", seed " + std::to_string(seed));
      Random random(seed);
      const auto [planted, multipliers] = RandomCase(random, sizes);
      ASSERT_TRUE(planted.Below(BoundOf(planted.model, multipliers)));
    }
  }
}

// Many terms of one sign: the errors of the last sum outgrow what the single columns allow for.
TEST(SafeUpperBound, HoldsForSumsOverManyColumns) {
  for (const std::uint64_t seed : Seeds(16)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Planted planted;
    const double sign = random.Chance(0.5) ? 1 : -1;
    for (int j = 0; j < 30'000; ++j) {
      planted.point.push_back(random.Uniform(0.5, 1));
      planted.model.AddColumn(Interval::Point(planted.point.back()), sign * random.Uniform(0.5, 1));
    }
    const double bound = BoundOf(planted.model, {});
    ASSERT_TRUE(planted.Below(bound));
    ASSERT_LE(bound, planted.Value() + 1e-6);
  }
}

// Rows 3a x - a z <= 0 at x = 1, z = 3: all sides are 0, so that only the allowance for the reduced
// costs, sums over many rows, can make up for their errors.
TEST(SafeUpperBound, HoldsForColumnsInManyRows) {
  for (const std::uint64_t seed : Seeds(100)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Planted planted;
    planted.point = {1, 3};
    planted.model.AddColumn({1, 1});
    planted.model.AddColumn({3, 3});
    std::vector<double> multipliers;
    double cost_x = 0, cost_z = 0;
    for (int i = 0; i < 200; ++i) {
      const double a = static_cast<float>(random.Uniform(0.5, 1)), y = random.Uniform(0.5, 1);
      planted.model.AddRow(-kInfinity, 0, {{0, 3 * a}, {1, -a}});
      multipliers.push_back(y);
      cost_x += y * (3 * a);
      cost_z -= y * a;
    }
    planted.model.SetCost(0, cost_x);
    planted.model.SetCost(1, cost_z);
    ASSERT_TRUE(planted.Below(BoundOf(planted.model, multipliers)));
  }
}

TEST(SafeUpperBound, HoldsForHostileMultipliers) {
  for (const Sizes& sizes : kSizes) {
    for (const std::uint64_t seed : Seeds(300)) {
      SCOPED_TRACE(std::string(sizes.name) + ", seed " + std::to_string(seed));
      Random random(seed);
      auto [planted, multipliers] = RandomCase(random, sizes);
      for (double& y : multipliers) {
        if (random.Chance(0.5)) y = random.Chance(0.2) ? -y : Hostile(random);
      }
      ASSERT_TRUE(planted.Below(BoundOf(planted.model, multipliers)));
    }
  }
}

TEST(SafeUpperBound, HoldsForEveryMultiplierOnSmallIntegers) {
  for (const std::uint64_t seed : Seeds(1000)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Planted planted = RandomModel(random, random.Int(0, 4), random.Int(1, 4), 6);
    std::vector<double> multipliers(6);
    for (double& y : multipliers) y = random.Chance(0.8) ? random.Int(-3, 3) : Hostile(random);
    ASSERT_TRUE(planted.Below(BoundOf(planted.model, multipliers)));
  }
}

TEST(SafeUpperBound, CountsAMultiplierThatCannotBeUsedAsZero) {
  MilpModel model;
  model.AddColumn({-2, 3}, 5);
  model.AddRow(-kInfinity, 1, {{0, 1}});
  model.AddRow(0, kInfinity, {{0, 1}});
  model.AddRow(-kInfinity, kInfinity, {{0, 1}});
  const auto bound = [&](double a, double b, double c) {
    const double multipliers[] = {a, b, c};
    return BoundOf(model, multipliers);
  };
  const double trivial = bound(0, 0, 0);
  EXPECT_GE(trivial, 15);
  EXPECT_LE(trivial, 15 + 1e-12);
  for (const double bad : {std::nan(""), kInfinity, -kInfinity, -4.0})
    EXPECT_EQ(bound(bad, 0, 0), trivial);
  for (const double bad : {std::nan(""), kInfinity, -kInfinity, 4.0})
    EXPECT_EQ(bound(0, bad, 0), trivial);
  for (const double bad : {std::nan(""), kInfinity, -kInfinity, 4.0, -4.0}) {
    EXPECT_EQ(bound(0, 0, bad), trivial);
  }
  EXPECT_GE(bound(5, 0, 0), 5);
  EXPECT_LE(bound(5, 0, 0), 5 + 1e-12);
}

TEST(SafeUpperBound, UsesTheBoundsItIsGivenNotTheModels) {
  for (const std::uint64_t seed : Seeds(300)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Planted planted = RandomModel(random, 3, 3, 5);
    std::vector<Interval> bounds;
    for (const double x : planted.point) bounds.push_back(Interval::Point(x));
    const std::vector<double> none(5, 0);
    const double bound = SafeUpperBound(planted.model, bounds, none).value();
    ASSERT_TRUE(planted.Below(bound));
    ASSERT_LE(bound, planted.Value() + 1e-10);
  }
}

TEST(SafeUpperBound, IsTightWithTheMultipliersOfHighs) {
  if (!HaveHighs()) GTEST_SKIP() << "built without HiGHS";
  for (const std::uint64_t seed : Seeds(300)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Planted planted = RandomModel(random, 0, 2, random.Int(1, 7));
    const auto optimum = ExactOptimum(planted.model);
    ASSERT_TRUE(optimum.has_value());
    const LpAdvice advice = HighsOrNull(planted.model)->Maximise(10);
    ASSERT_EQ(advice.kind, LpAdvice::Kind::kOptimal);
    const double bound = BoundOf(planted.model, advice.multipliers);
    ASSERT_TRUE(optimum->AtMost(bound)) << bound << " < " << optimum->value();
    ASSERT_LE(bound, optimum->value() + 1e-6);
  }
}

TEST(ProvesInfeasible, IsNeverTrueOfASystemWithASolution) {
  for (const Sizes& sizes : kSizes) {
    for (const std::uint64_t seed : Seeds(300)) {
      SCOPED_TRACE(std::string(sizes.name) + ", seed " + std::to_string(seed));
      Random random(seed);
      auto [planted, ray] = RandomCase(random, sizes);
      ASSERT_FALSE(ProvesInfeasible(planted.model, planted.model.bounds(), ray));
      for (double& y : ray) {
        if (random.Chance(0.5)) y = Hostile(random);
      }
      ASSERT_FALSE(ProvesInfeasible(planted.model, planted.model.bounds(), ray));
    }
  }
}

// a.x <= a.p, b.x <= b.p and (a + b).x >= (a + b).p: exactly one feasible value each, and every
// multiple of (1, 1, -1) proves 0 <= 0. Any rounding error that is not accounted for proves 0 < 0.
TEST(ProvesInfeasible, IsNotTrueOfRowsThatTouch) {
  for (const std::uint64_t seed : Seeds(2000)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    MilpModel model;
    std::vector<double> point;
    std::array<std::vector<Term>, 3> rows;
    for (std::int32_t j = 0; j < 3; ++j) {
      point.push_back(std::floor(random.Wild(0, 30)));
      const double room = random.Chance(0.5) ? 0 : 1;
      model.AddColumn({point[j] - room, point[j] + room});
      const int a = random.Int(-99, 99), b = random.Int(-99, 99);
      for (const int i : {0, 1, 2}) rows[i].push_back({j, double(i == 0 ? a : i == 1 ? b : a + b)});
    }
    model.AddRow(-kInfinity, TightUpper(rows[0], point), rows[0]);
    model.AddRow(-kInfinity, TightUpper(rows[1], point), rows[1]);
    model.AddRow(TightLower(rows[2], point), kInfinity, rows[2]);
    const double y = random.Uniform(0.5, 2);
    const std::vector<double> ray = {y, y, -y};
    ASSERT_FALSE(ProvesInfeasible(model, model.bounds(), ray));
  }
}

TEST(ProvesInfeasible, IsTrueWithTheRayOfHighs) {
  if (!HaveHighs()) GTEST_SKIP() << "built without HiGHS";
  int infeasible = 0;
  for (const std::uint64_t seed : Seeds(400)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const MilpModel model = RandomModel(random, 0, 2, random.Int(2, 7), false).model;
    if (model.nonzeros() == 0) continue;  // HiGHS has no ray for an empty matrix
    const bool feasible = ExactOptimum(model).has_value();
    const LpAdvice advice = HighsOrNull(model)->Maximise(10);
    ASSERT_EQ(advice.kind, feasible ? LpAdvice::Kind::kOptimal : LpAdvice::Kind::kInfeasible);
    ASSERT_EQ(ProvesInfeasible(model, model.bounds(), advice.multipliers), !feasible);
    infeasible += feasible ? 0 : 1;
  }
  EXPECT_GE(infeasible, 50);  // else this tests nothing
  EXPECT_LE(infeasible, 350);
}

TEST(ProvesInfeasible, TakesARayOfEitherSign) {
  MilpModel model;
  model.AddColumn({0, 1});
  model.AddColumn({0, 1});
  model.AddRow(3, kInfinity, {{0, 1}, {1, 1}});
  for (const double y : {-1.0, 1.0, 1e-200, 1e200}) {
    EXPECT_TRUE(ProvesInfeasible(model, model.bounds(), std::span(&y, 1))) << y;
  }
  const double none = 0;
  EXPECT_FALSE(ProvesInfeasible(model, model.bounds(), std::span(&none, 1)));
  const std::vector<Interval> wide = {{0, 2}, {0, 1}};
  const double ray = -1;
  EXPECT_FALSE(ProvesInfeasible(model, wide, std::span(&ray, 1)));
}

}  // namespace
}  // namespace lucid
