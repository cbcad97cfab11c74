// What the tests of this module share: exact sums of products of doubles, random models around a
// feasible point that is known exactly, and an exact optimum that owes nothing to an LP solver.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "numeric/rounding.h"
#include "paper/lp.h"
#include "paper/model.h"

namespace lucid::milp_test {

// The seeds of a random test: `count` of them, other ones with --gtest_random_seed=N.
inline std::vector<std::uint64_t> Seeds(int count) {
  const auto base = static_cast<std::uint64_t>(GTEST_FLAG_GET(random_seed)) * 1'000'000;
  std::vector<std::uint64_t> seeds(static_cast<std::size_t>(count));
  std::iota(seeds.begin(), seeds.end(), base);
  return seeds;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int Int(int from, int to) { return std::uniform_int_distribution(from, to)(engine_); }
  double Uniform(double from, double to) {
    return std::uniform_real_distribution(from, to)(engine_);
  }
  bool Chance(double probability) { return Uniform(0, 1) < probability; }
  // Any sign and mantissa, an exponent of the range.
  double Wild(int least_exponent, int largest_exponent) {
    const double size = std::ldexp(Uniform(1, 2), Int(least_exponent, largest_exponent));
    return Chance(0.5) ? size : -size;
  }

 private:
  std::mt19937_64 engine_;
};

// A sum of products of finite doubles without any rounding: a fixed-point number that is wide
// enough for the smallest and the largest product (Kulisch's accumulator).
class ExactSum {
 public:
  ExactSum& Add(double a, double b = 1) {
    const Parts left(a), right(b);
    const bool negative = left.negative != right.negative;
    for (const int i : {0, 1}) {
      for (const int j : {0, 1}) {
        AddAt(left.half[i] * right.half[j], left.exponent + right.exponent + kHalf * (i + j),
              negative);
      }
    }
    return *this;
  }
  int Sign() const {
    std::int64_t carry = 0;
    bool zero = true;
    for (const std::int64_t limb : limbs_) {
      const std::int64_t sum = limb + carry;
      carry = sum >> kLimb;
      zero = zero && (sum & kMask) == 0;
    }
    return carry < 0 ? -1 : zero && carry == 0 ? 0 : 1;
  }

 private:
  static constexpr int kHalf = 27, kLimb = 32, kPoint = 2304, kLimbs = 144;
  static constexpr std::int64_t kMask = (std::int64_t{1} << kLimb) - 1;

  struct Parts {  // (half[1] 2^27 + half[0]) 2^exponent
    explicit Parts(double x) : negative(std::signbit(x)) {
      const double fraction = std::frexp(std::abs(x), &exponent);
      const auto mantissa = static_cast<std::uint64_t>(std::ldexp(fraction, 53));
      exponent -= 53;
      half = {mantissa & ((1U << kHalf) - 1), mantissa >> kHalf};
    }
    bool negative;
    int exponent = 0;
    std::array<std::uint64_t, 2> half;
  };

  void AddAt(std::uint64_t value, int exponent, bool negative) {  // value < 2^54
    for (const int shift : {0, kHalf}) {
      const std::uint64_t piece = (value >> shift) & ((1U << kHalf) - 1);
      const int place = exponent + shift + kPoint;
      const std::uint64_t moved = piece << (place % kLimb);  // < 2^59
      const auto low = static_cast<std::int64_t>(moved & kMask);
      const auto high = static_cast<std::int64_t>(moved >> kLimb);
      limbs_[place / kLimb] += negative ? -low : low;
      limbs_[place / kLimb + 1] += negative ? -high : high;
    }
  }

  std::array<std::int64_t, kLimbs> limbs_{};
};

// Exactly: is bound >= a . x? (+inf is, -inf and NaN are not.)
inline bool AtLeast(double bound, std::span<const double> a, std::span<const double> x) {
  if (!std::isfinite(bound)) return bound > 0;
  ExactSum sum;
  sum.Add(bound);
  for (std::size_t j = 0; j < a.size(); ++j) sum.Add(-a[j], x[j]);
  return sum.Sign() >= 0;
}

// A model and a point that satisfies it exactly.
struct Planted {
  MilpModel model;
  std::vector<double> point;

  bool Below(double bound) const { return AtLeast(bound, model.cost(), point); }
  double Value() const {  // rounded
    double value = 0;
    for (std::size_t j = 0; j < point.size(); ++j) value += model.cost()[j] * point[j];
    return value;
  }
};

inline bool IsBinary(const MilpModel& model, std::int32_t column) {
  return std::ranges::find(model.binaries(), column) != model.binaries().end();
}

// Small integers in costs, coefficients and bounds, quarters in the point and the sides of rows:
// every sum is exact. Of `rows` some are equalities, ranged, free, or a copy of the one before;
// half of all sides are tight at the point. Not planted: sides are drawn at random, often
// infeasible.
inline Planted RandomModel(Random& random, int binaries, int continuous, int rows,
                           bool planted = true) {
  Planted result;
  MilpModel& model = result.model;
  while (binaries + continuous > 0) {
    const bool binary = random.Int(1, binaries + continuous) <= binaries;
    if (binary) {
      --binaries;
      model.SetCost(model.AddBinary(), random.Int(-6, 6));
      result.point.push_back(random.Int(0, 1));
    } else {
      --continuous;
      const int lower = random.Int(-4, 2), width = random.Int(0, 5);
      model.AddColumn({double(lower), double(lower + width)}, random.Int(-5, 5));
      result.point.push_back(lower + random.Int(0, 4 * width) / 4.0);
    }
  }
  std::vector<Term> terms;
  for (int i = 0; i < rows; ++i) {
    if (i == 0 || !random.Chance(0.1)) {
      terms.clear();
      for (std::int32_t j = 0; j < model.columns(); ++j) {
        if (random.Chance(0.7)) terms.push_back({j, double(random.Int(-5, 5))});
      }
    }
    double activity = planted ? 0 : random.Int(-6, 6);
    for (const Term& term : terms) {
      if (planted) activity += term.coefficient * result.point[term.column];
    }
    const double below = activity - (random.Chance(0.5) ? 0 : random.Int(0, 12) / 4.0);
    const double above = activity + (random.Chance(0.5) ? 0 : random.Int(0, 12) / 4.0);
    const int kind = random.Int(0, 9);
    const bool equal = kind == 0, open_below = kind == 1 || (kind >= 2 && kind <= 5);
    const bool open_above = kind == 1 || kind == 6 || kind == 7;
    model.AddRow(equal        ? activity
                 : open_below ? -kInfinity
                              : below,
                 equal        ? activity
                 : open_above ? kInfinity
                              : above,
                 terms);
  }
  return result;
}

// Several knapsacks over the same items: 50 nodes with 20 items, hundreds with 30. The point is
// what a greedy search packs.
inline Planted Knapsacks(Random& random, int items, int rows) {
  Planted result;
  for (int j = 0; j < items; ++j) {
    result.model.SetCost(result.model.AddBinary(), random.Int(20, 99));
  }
  result.point.assign(static_cast<std::size_t>(items), 0);
  std::vector<std::vector<Term>> weights(static_cast<std::size_t>(rows));
  std::vector<double> capacity;
  for (auto& row : weights) {
    double sum = 0;
    for (std::int32_t j = 0; j < items; ++j) {
      row.push_back({j, double(random.Int(10, 99))});
      sum += row.back().coefficient;
    }
    capacity.push_back(std::floor(sum / 2));
    result.model.AddRow(-kInfinity, capacity.back(), row);
  }
  std::vector<std::int32_t> order(static_cast<std::size_t>(items));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::greater<>(), [&](std::int32_t j) {
    double weight = 0;
    for (const auto& row : weights) weight += row[j].coefficient;
    return result.model.cost()[j] / weight;
  });
  for (const std::int32_t j : order) {
    bool fits = true;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      fits = fits && weights[i][j].coefficient <= capacity[i];
    }
    for (std::size_t i = 0; fits && i < weights.size(); ++i) {
      capacity[i] -= weights[i][j].coefficient;
    }
    result.point[j] = fits ? 1 : 0;
  }
  return result;
}

struct Fraction {
  std::int64_t numerator, denominator;  // denominator > 0
  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
  // Exactly.
  bool AtMost(double bound) const {
    if (!std::isfinite(bound)) return bound > 0;
    ExactSum sum;
    sum.Add(bound, static_cast<double>(denominator)).Add(-static_cast<double>(numerator));
    return sum.Sign() >= 0;
  }
};

struct HalfPlane {
  std::int64_t a, b, c;  // a u + b v <= c
};

// The largest cost . (u, v) over all vertices of a bounded polygon; nothing if it is empty.
inline std::optional<Fraction> LargestVertex(const std::vector<HalfPlane>& planes,
                                             std::int64_t cost_u, std::int64_t cost_v) {
  std::optional<Fraction> best;
  for (std::size_t i = 0; i < planes.size(); ++i) {
    for (std::size_t j = 0; j < planes.size(); ++j) {
      const HalfPlane &p = planes[i], &q = planes[j];
      const std::int64_t det = p.a * q.b - q.a * p.b;
      if (det <= 0) continue;  // the other order of the two has the other sign
      const std::int64_t u = p.c * q.b - q.c * p.b, v = p.a * q.c - q.a * p.c;
      const bool feasible = std::ranges::all_of(
          planes, [&](const HalfPlane& r) { return r.a * u + r.b * v <= r.c * det; });
      if (!feasible) continue;
      const std::int64_t value = cost_u * u + cost_v * v;
      if (!best || value * best->denominator > best->numerator * det) best = {value, det};
    }
  }
  return best;
}

// The optimum of a model of RandomModel with exactly two continuous columns, in integers: every
// assignment of the binaries, every vertex of the polygon that remains. Nothing: infeasible.
inline std::optional<Fraction> ExactOptimum(const MilpModel& model) {
  std::vector<std::int32_t> free;
  for (std::int32_t j = 0; j < model.columns(); ++j) {
    if (!IsBinary(model, j)) free.push_back(j);
  }
  const auto quarters = [](double x) { return static_cast<std::int64_t>(4 * x); };
  const auto whole = [](double x) { return static_cast<std::int64_t>(x); };
  std::optional<Fraction> best;
  for (std::uint32_t bits = 0; bits < 1U << model.binaries().size(); ++bits) {
    std::vector<std::int64_t> chosen(static_cast<std::size_t>(model.columns()), 0);
    std::int64_t fixed_cost = 0;
    for (std::size_t k = 0; k < model.binaries().size(); ++k) {
      chosen[model.binaries()[k]] = bits >> k & 1;
      fixed_cost += whole(model.cost()[model.binaries()[k]]) * (bits >> k & 1);
    }
    const Interval u = model.bounds()[free[0]], v = model.bounds()[free[1]];
    std::vector<HalfPlane> planes = {{1, 0, quarters(u.upper)},
                                     {-1, 0, -quarters(u.lower)},
                                     {0, 1, quarters(v.upper)},
                                     {0, -1, -quarters(v.lower)}};
    for (std::int32_t i = 0; i < model.rows(); ++i) {
      std::int64_t a = 0, b = 0, fixed = 0;
      for (const Term& term : model.Row(i)) {
        (term.column == free[0]   ? a
         : term.column == free[1] ? b
                                  : fixed) +=
            whole(term.coefficient) * (IsBinary(model, term.column) ? 4 * chosen[term.column] : 1);
      }
      const auto [lower, upper] = model.RowBounds(i);
      if (upper < kInfinity) planes.push_back({a, b, quarters(upper) - fixed});
      if (lower > -kInfinity) planes.push_back({-a, -b, fixed - quarters(lower)});
    }
    auto top = LargestVertex(planes, whole(model.cost()[free[0]]), whole(model.cost()[free[1]]));
    if (!top) continue;
    *top = {top->numerator + 4 * fixed_cost * top->denominator, 4 * top->denominator};
    if (!best || top->numerator * best->denominator > best->numerator * top->denominator) {
      best = top;
    }
  }
  return best;
}

// HiGHS's LP, or null in a LUCID that was built without HiGHS.
inline std::unique_ptr<LpSolver> HighsOrNull(const MilpModel& model) {
  auto lp = MakeHighsLp(model);
  return lp.ok() ? std::move(lp).value() : nullptr;
}

inline bool HaveHighs() {
  MilpModel model;
  model.AddColumn({0, 1}, 1);
  return HighsOrNull(model) != nullptr;
}

}  // namespace lucid::milp_test
