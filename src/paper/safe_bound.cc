#include "paper/safe_bound.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace lucid {
namespace {

// For any y, with the row activities r = A x in [L, U] and d = cost - A'y:
//   cost . x = y . r + d . x <= sum_i max(y_i L_i, y_i U_i) + sum_j max(d_j l_j, d_j u_j).
// The sums are plain floating point; `size` gathers the absolute values of everything added, and
// Higham's gamma_n times that bounds all rounding errors. cost_scale 0 gives the Farkas test.
double Bound(const MilpModel& model, std::span<const Interval> bounds, std::span<const double> y,
             double cost_scale) {
  const auto columns = static_cast<std::size_t>(model.columns());
  std::vector<double> reduced(columns), size(columns), count(columns);
  for (std::size_t j = 0; j < columns; ++j) {
    reduced[j] = cost_scale * model.cost()[j];
    size[j] = std::abs(reduced[j]);
  }
  double total = 0, total_size = 0;
  for (std::int32_t i = 0; i < model.rows(); ++i) {
    const auto [lower, upper] = model.RowBounds(i);
    const double side = y[i] > 0 ? upper : lower;
    if (!(std::abs(y[i]) > 0) || !std::isfinite(y[i]) || !std::isfinite(side)) continue;
    for (const Term& term : model.Row(i)) {
      const double product = y[i] * term.coefficient;
      reduced[term.column] -= product;
      size[term.column] += std::abs(product);
      count[term.column] += 1;
    }
    total += y[i] * side;
    total_size += std::abs(y[i] * side);
  }
  for (std::size_t j = 0; j < columns; ++j) {
    // |computed reduced cost - exact| <= gamma_{n+1} size (products and sums of n terms), doubled
    // because `size` itself was rounded; underflow of a product adds at most denorm_min each.
    const auto n = static_cast<std::int64_t>(count[j]) + 2;
    const double error = 2 * GammaUp(n) * size[j] +
                         static_cast<double>(n) * std::numeric_limits<double>::denorm_min();
    const double low = (reduced[j] - error), high = (reduced[j] + error);
    // One more rounding for each of low and high, and one for each product: in total_size.
    const double reach = std::max(std::abs(bounds[j].lower), std::abs(bounds[j].upper));
    const double largest = std::max({low * bounds[j].lower, low * bounds[j].upper,
                                     high * bounds[j].lower, high * bounds[j].upper});
    total += largest;
    total_size += 2 * reach * (std::abs(reduced[j]) + error);
  }
  const std::int64_t terms = model.rows() + 2 * static_cast<std::int64_t>(columns) + 8;
  const double error = 2 * GammaUp(terms) * total_size +
                       static_cast<double>(terms) * std::numeric_limits<double>::denorm_min();
  const double bound = NextUp(total + NextUp(error));
  return std::isnan(bound) ? std::numeric_limits<double>::infinity() : bound;
}

}  // namespace

UpperBound SafeUpperBound(const MilpModel& model, std::span<const Interval> bounds,
                          std::span<const double> multipliers) {
  return UpperBound::Proved(Bound(model, bounds, multipliers, 1));
}

bool ProvesInfeasible(const MilpModel& model, std::span<const Interval> bounds,
                      std::span<const double> ray) {
  // 0 = 0 . x <= Bound for every feasible x: a negative bound leaves no x. Solvers differ in the
  // sign of their rays, and either sign proves it.
  if (Bound(model, bounds, ray, 0) < 0) return true;
  std::vector<double> other(ray.size());
  std::ranges::transform(ray, other.begin(), std::negate<>());
  return Bound(model, bounds, other, 0) < 0;
}

}  // namespace lucid
