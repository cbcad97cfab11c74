#include "pair/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lucid/certificate/proof.h"

namespace lucid {
namespace {

// The probabilities q that make the largest entry of rows . q smallest, by the simplex method: with
// all entries above 0 these are x / sum x for the x >= 0 with rows . x <= 1 and the largest sum.
std::vector<double> SolveGame(const std::vector<std::vector<double>>& rows) {
  const std::size_t n = rows.size(), m = rows.front().size();
  double low = rows[0][0], high = low;
  for (const std::vector<double>& row : rows) {
    for (const double entry : row) low = std::min(low, entry), high = std::max(high, entry);
  }
  const double scale = high > low ? 1 / (high - low) : 0;
  // One line for each row, with a slack of its own, and one for what a step gains.
  std::vector<std::vector<double>> table(n + 1, std::vector<double>(m + n + 1, 0.0));
  std::vector<std::size_t> basis(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < m; ++j) table[i][j] = 1 + (rows[i][j] - low) * scale;
    table[i][m + i] = table[i][m + n] = 1;
    basis[i] = m + i;
  }
  for (std::size_t j = 0; j < m; ++j) table[n][j] = -1;
  const std::size_t most = 10 * (n + m);
  for (std::size_t pivot = 0; pivot < most; ++pivot) {
    std::size_t in = m + n, out = n;
    for (std::size_t j = 0; j < m + n; ++j) {
      if (table[n][j] < (in == m + n ? -1e-9 : table[n][in])) in = j;
    }
    if (in == m + n) break;
    double least = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (table[i][in] <= 1e-9) continue;
      const double ratio = table[i][m + n] / table[i][in];
      if (out == n || ratio < least) least = ratio, out = i;
    }
    if (out == n) break;
    const double by = table[out][in];
    for (double& entry : table[out]) entry /= by;
    for (std::size_t i = 0; i <= n; ++i) {
      const double times = table[i][in];
      if (i == out || times == 0) continue;
      for (std::size_t j = 0; j <= m + n; ++j) table[i][j] -= times * table[out][j];
    }
    basis[out] = in;
  }
  std::vector<double> x(m, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    if (basis[i] < m) x[basis[i]] = std::max(table[i][m + n], 0.0);
  }
  const double sum = std::accumulate(x.begin(), x.end(), 0.0);
  for (double& entry : x) entry = sum > 0 ? entry / sum : 1 / static_cast<double>(m);
  return x;
}

}  // namespace

void MixClasses(std::span<const double> weights, PairQuestion& question) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(sum > 0) || !std::isfinite(sum)) return;
  const auto heaviest = std::ranges::max_element(weights) - weights.begin();
  question.below = static_cast<std::int32_t>(heaviest);
  question.weights.assign(weights.size(), 0);
  int rest = kWholeWeight;
  for (std::size_t j = 0; j < weights.size(); ++j) {
    if (static_cast<std::int32_t>(j) == question.below) continue;
    const int weight = static_cast<int>(std::lround(weights[j] / sum * kWholeWeight));
    question.weights[j] = static_cast<std::uint8_t>(std::min(weight, rest));
    rest -= question.weights[j];
  }
  if (rest == kWholeWeight) {
    question.weights.clear();
  } else {
    question.weights[static_cast<std::size_t>(heaviest)] = static_cast<std::uint8_t>(rest);
  }
}

std::vector<double> MixtureOf(const PairQuestion& question, std::int64_t classes) {
  std::vector<double> weights(static_cast<std::size_t>(classes), 0.0);
  if (question.weights.empty()) {
    weights[static_cast<std::size_t>(question.below)] = 1;
  } else {
    for (std::size_t j = 0; j < weights.size(); ++j) {
      weights[j] = static_cast<double>(question.weights[j]) / kWholeWeight;
    }
  }
  return weights;
}

void MixtureModel::Add(std::span<const double> by_class, double by_lambda) {
  by_class_.emplace_back(by_class.begin(), by_class.end());
  by_lambda_.push_back(by_lambda);
}

// A game: one player picks a point, the other one a class together with lambda = 0 or `most`.
MixtureModel::Advice MixtureModel::Best(double most) const {
  const std::size_t classes = by_class_.front().size();
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 0; i < by_class_.size(); ++i) {
    std::vector<double>& row = rows.emplace_back();
    for (std::size_t j = 0; j < classes; ++j) {
      if (static_cast<std::int32_t>(j) == label_) continue;
      row.push_back(by_class_[i][j]);
      row.push_back(by_class_[i][j] + most * by_lambda_[i]);
    }
  }
  const std::vector<double> chosen = SolveGame(rows);
  Advice advice;
  advice.weights.assign(classes, 0.0);
  std::size_t at = 0;
  for (std::size_t j = 0; j < classes; ++j) {
    if (static_cast<std::int32_t>(j) == label_) continue;
    advice.weights[j] = chosen[at] + chosen[at + 1];
    advice.lambda += most * chosen[at + 1];
    at += 2;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double value = std::inner_product(rows[i].begin(), rows[i].end(), chosen.begin(), 0.0);
    advice.value = i == 0 ? value : std::max(advice.value, value);
  }
  return advice;
}

}  // namespace lucid
