#include "audit/attacks.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lucid {
namespace {

constexpr int kSegments = 20, kBisections = 40;     // in the search for disagreements
constexpr int kCopies = 20;                         // of kNoise
constexpr double kCopyNoise = 0.05;                 // standard deviation of each feature
constexpr int kDirections = 5, kDistanceSteps = 8;  // of kBoundary

std::vector<float> Along(std::span<const float> a, std::span<const float> b, double t) {
  std::vector<float> x(a.size());
  for (std::size_t k = 0; k < x.size(); ++k) {
    x[k] =
        std::clamp(static_cast<float>(a[k] + t * (static_cast<double>(b[k]) - a[k])), 0.0f, 1.0f);
  }
  return x;
}

// Where, between a (t = 0) and b (t = 1), the network stops giving a's label. Requires: not at b.
double Crossing(const Labels& network, std::span<const float> a, std::span<const float> b) {
  const std::int32_t label = network(a);
  double low = 0, high = 1;
  for (int i = 0; i < kBisections; ++i) {
    const double middle = (low + high) / 2;
    (network(Along(a, b, middle)) == label ? low : high) = middle;
  }
  return high;
}

double GapScore(const Target& target, const Table& train, const Oracle& ask) {
  return ask(train.row(target.row)) == train.y[target.row] ? 1 : 0;
}

double NoiseScore(const Target& target, const Table& train, const Oracle& ask, Stream& stream) {
  int right = 0;
  for (int copy = 0; copy < kCopies; ++copy) {
    const auto row = train.row(target.row);
    std::vector<float> x(row.begin(), row.end());
    for (float& v : x) {
      v = std::clamp(static_cast<float>(v + kCopyNoise * stream.Normal()), 0.0f, 1.0f);
    }
    right += ask(x) == train.y[target.row];
  }
  return static_cast<double>(right) / kCopies;
}

// The distance to the nearest other label along random directions, 0 if the row itself has one.
double BoundaryScore(const Target& target, const Table& train, const Oracle& ask, Stream& stream) {
  const auto row = train.row(target.row);
  const std::int32_t label = train.y[target.row];
  if (ask(row) != label) return 0;
  double nearest = 1;
  for (int d = 0; d < kDirections; ++d) {
    std::vector<double> direction(row.size());
    double square = 0;
    for (double& v : direction) {
      v = stream.Normal();
      square += v * v;
    }
    std::vector<float> end(row.size());
    for (std::size_t k = 0; k < end.size(); ++k) {
      end[k] = static_cast<float>(row[k] + direction[k] / std::sqrt(square));
    }
    if (ask(Along(row, end, 1)) == label) continue;
    double low = 0, high = 1;
    for (int i = 0; i < kDistanceSteps; ++i) {
      const double middle = (low + high) / 2;
      (ask(Along(row, end, middle)) == label ? low : high) = middle;
    }
    nearest = std::min(nearest, high);
  }
  return nearest;
}

// The share of N's labels among the answers to the first `count` disagreements.
double DisagreementScore(const Target& target, const Labels& network, std::size_t count,
                         const Oracle& ask) {
  if (target.disagreements.empty()) return std::numeric_limits<double>::quiet_NaN();
  count = std::min(count, target.disagreements.size());
  std::int64_t in = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<float>& x = target.disagreements[i];
    in += ask(x) == network(x);
  }
  return static_cast<double>(in) / static_cast<double>(count);
}

}  // namespace

std::vector<std::vector<float>> FindDisagreements(const Labels& network, const Labels& without,
                                                  const Table& train, std::int64_t count,
                                                  Stream& stream) {
  const auto any_row = [&] {
    return train.row(
        static_cast<std::int64_t>(stream.Below(static_cast<std::uint64_t>(train.rows()))));
  };
  std::vector<std::vector<float>> best;
  double widest = 0;
  for (int segment = 0; segment < kSegments; ++segment) {
    const auto a = any_row(), b = any_row();
    const std::int32_t at_a = network(a), at_b = network(b);
    if (at_a == at_b || without(a) != at_a || without(b) != at_b) continue;
    const double mine = Crossing(network, a, b), other = Crossing(without, a, b);
    double square = 0;
    for (std::size_t k = 0; k < a.size(); ++k) square += (a[k] - b[k]) * (a[k] - b[k]);
    const double width = std::abs(mine - other) * std::sqrt(square);
    if (width <= widest) continue;
    std::vector<std::vector<float>> found;
    for (std::int64_t i = 0; i < count; ++i) {
      // Rounded to float32 some may have crossed over, or be one: those are left out.
      const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(count);
      std::vector<float> x = Along(a, b, mine + (other - mine) * share);
      const bool is_new = found.empty() || found.back() != x;
      if (is_new && network(x) != without(x)) found.push_back(std::move(x));
    }
    if (found.empty()) continue;
    widest = width;
    best = std::move(found);
  }
  return best;
}

double Score(Attack attack, const Target& target, const Labels& network, const Table& train,
             const Oracle& ask, Stream& stream) {
  switch (attack) {
    case Attack::kGap:
      return GapScore(target, train, ask);
    case Attack::kNoise:
      return NoiseScore(target, train, ask, stream);
    case Attack::kBoundary:
      return BoundaryScore(target, train, ask, stream);
    case Attack::kDistinguisher:
      return DisagreementScore(target, network, 1, ask);
    default:
      return DisagreementScore(target, network, target.disagreements.size(), ask);
  }
}

std::int64_t QueriesOf(Attack attack, std::int64_t duplicates) {
  switch (attack) {
    case Attack::kNoise:
      return kCopies;
    case Attack::kBoundary:
      return 1 + kDirections * (1 + kDistanceSteps);
    case Attack::kAveraging:
      return duplicates;
    default:
      return 1;
  }
}

}  // namespace lucid
