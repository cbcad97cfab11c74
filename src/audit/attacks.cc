#include "audit/attacks.h"

#include <algorithm>
#include <cmath>

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
double Crossing(const NetworkLabels& network, std::span<const float> a, std::span<const float> b) {
  const std::int32_t label = network(a);
  double low = 0, high = 1;
  for (int i = 0; i < kBisections; ++i) {
    const double middle = (low + high) / 2;
    (network(Along(a, b, middle)) == label ? low : high) = middle;
  }
  return high;
}

Result<double> GapScore(const Subject& subject, const Oracle& ask) {
  LUCID_ASSIGN(const std::int32_t label, ask(subject.x));
  return label == subject.label ? 1.0 : 0.0;
}

Result<double> NoiseScore(const Subject& subject, const Oracle& ask, Stream& stream) {
  int right = 0;
  for (int copy = 0; copy < kCopies; ++copy) {
    std::vector<float> x(subject.x.begin(), subject.x.end());
    for (float& v : x) {
      v = std::clamp(static_cast<float>(v + kCopyNoise * stream.Normal()), 0.0f, 1.0f);
    }
    if (subject.domain != nullptr) subject.domain->CopyGroups(subject.x, x);
    LUCID_ASSIGN(const std::int32_t label, ask(x));
    right += label == subject.label;
  }
  return static_cast<double>(right) / kCopies;
}

// A point at distance 1, in a direction that is uniform.
std::vector<float> Beside(std::span<const float> x, Stream& stream) {
  std::vector<double> direction(x.size());
  double square = 0;
  for (double& v : direction) {
    v = stream.Normal();
    square += v * v;
  }
  std::vector<float> end(x.size());
  for (std::size_t k = 0; k < end.size(); ++k) {
    end[k] = static_cast<float>(x[k] + direction[k] / std::sqrt(square));
  }
  return end;
}

// The distance to the nearest other label along random directions, 0 if the row itself has one.
Result<double> BoundaryScore(const Subject& subject, const Oracle& ask, Stream& stream) {
  const auto is_right = [&](std::span<const float> x) -> Result<bool> {
    LUCID_ASSIGN(const std::int32_t label, ask(x));
    return label == subject.label;
  };
  LUCID_ASSIGN(const bool right, is_right(subject.x));
  if (!right) return 0.0;
  double nearest = 1;
  for (int d = 0; d < kDirections; ++d) {
    std::vector<float> end = Beside(subject.x, stream);
    if (subject.domain != nullptr) subject.domain->CopyGroups(subject.x, end);
    LUCID_ASSIGN(const bool reaches, is_right(Along(subject.x, end, 1)));
    if (reaches) continue;
    double low = 0, high = 1;
    for (int i = 0; i < kDistanceSteps; ++i) {
      const double middle = (low + high) / 2;
      LUCID_ASSIGN(const bool inside, is_right(Along(subject.x, end, middle)));
      (inside ? low : high) = middle;
    }
    nearest = std::min(nearest, high);
  }
  return nearest;
}

// The share of N's labels among the answers.
Result<double> DisagreementScore(std::span<const Disagreement> disagreements, const Oracle& ask) {
  std::int64_t in = 0;
  for (const Disagreement& disagreement : disagreements) {
    LUCID_ASSIGN(const std::int32_t label, ask(disagreement.x));
    in += label == disagreement.label;
  }
  return static_cast<double>(in) / static_cast<double>(disagreements.size());
}

// The likelihood ratio of all answers.
Result<double> RegionScore(std::span<const TellingInput> telling, const Oracle& ask) {
  double score = 0;
  for (const TellingInput& input : telling) {
    LUCID_ASSIGN(const std::int32_t label, ask(input.x));
    if (label != kRefused) score += input.log_ratios[static_cast<std::size_t>(label)];
  }
  return score;
}

}  // namespace

std::vector<Disagreement> FindDisagreements(const NetworkLabels& network,
                                            const NetworkLabels& without, const Table& train,
                                            const Domain& domain, std::int64_t count,
                                            Stream& stream) {
  const auto any_row = [&] {
    return train.row(
        static_cast<std::int64_t>(stream.Below(static_cast<std::uint64_t>(train.rows()))));
  };
  std::vector<Disagreement> best;
  double widest = 0;
  for (int segment = 0; segment < kSegments; ++segment) {
    const auto a = any_row(), row = any_row();
    std::vector<float> b(row.begin(), row.end());
    domain.CopyGroups(a, b);
    const std::int32_t at_a = network(a), at_b = network(b);
    if (at_a == at_b || without(a) != at_a || without(b) != at_b) continue;
    const double mine = Crossing(network, a, b), other = Crossing(without, a, b);
    double square = 0;
    for (std::size_t k = 0; k < a.size(); ++k) square += (a[k] - b[k]) * (a[k] - b[k]);
    const double width = std::abs(mine - other) * std::sqrt(square);
    if (width <= widest) continue;
    std::vector<Disagreement> found;
    for (std::int64_t i = 0; i < count; ++i) {
      // Rounded to float32 some may have crossed over, or be one: those are left out.
      const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(count);
      std::vector<float> x = Along(a, b, mine + (other - mine) * share);
      if (!found.empty() && found.back().x == x) continue;
      const std::int32_t label = network(x);
      if (label != without(x)) found.push_back({std::move(x), label});
    }
    if (found.empty()) continue;
    widest = width;
    best = std::move(found);
  }
  return best;
}

bool CanPlay(AuditAttack attack, const Subject& subject) {
  if (attack == AuditAttack::kRegion) return !subject.telling.empty();
  return !NeedsDisagreements(attack) || !subject.disagreements.empty();
}

bool NeedsDisagreements(AuditAttack attack) {
  return attack == AuditAttack::kDistinguisher || attack == AuditAttack::kAveraging;
}

Result<double> Score(AuditAttack attack, const Subject& subject, const Oracle& ask,
                     Stream& stream) {
  switch (attack) {
    case AuditAttack::kGap:
      return GapScore(subject, ask);
    case AuditAttack::kNoise:
      return NoiseScore(subject, ask, stream);
    case AuditAttack::kBoundary:
      return BoundaryScore(subject, ask, stream);
    case AuditAttack::kRegion:
      return RegionScore(subject.telling, ask);
    case AuditAttack::kDistinguisher:
      return DisagreementScore(subject.disagreements.first(1), ask);
    default:
      return DisagreementScore(subject.disagreements, ask);
  }
}

std::int64_t QueriesOf(AuditAttack attack, std::int64_t duplicates) {
  switch (attack) {
    case AuditAttack::kNoise:
      return kCopies;
    case AuditAttack::kBoundary:
      return 1 + kDirections * (1 + kDistanceSteps);
    case AuditAttack::kAveraging:
      return duplicates;
    case AuditAttack::kRegion:
      return kTellingInputs;
    default:
      return 1;
  }
}

}  // namespace lucid
