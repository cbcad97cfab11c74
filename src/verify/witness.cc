#include "verify/witness.h"

#include <algorithm>
#include <limits>

#include "numeric/rounding.h"

namespace lucid {

double SignedConfidence(const Evaluator& evaluator, std::span<const float> x, std::int32_t label) {
  std::vector<double> logits(static_cast<std::size_t>(evaluator.architecture().classes()));
  evaluator.Logits(x, logits);
  double other = -std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < logits.size(); ++k) {
    if (k != static_cast<std::size_t>(label)) other = std::max(other, logits[k]);
  }
  return logits[label] - other;
}

WitnessKeeper::WitnessKeeper(const Network& network, const Members& members, std::int32_t label,
                             double beta_lower, std::optional<Witness> witness)
    : network_(network),
      members_(members),
      label_(label),
      beta_lower_(beta_lower),
      witness_(std::move(witness)) {}

double WitnessKeeper::Try(std::span<const double> point, std::span<const std::int32_t> input,
                          const Subset& subset) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  std::vector<float> x;
  x.reserve(input.size());
  for (const std::int32_t column : input) {
    x.push_back(std::clamp(static_cast<float>(point[column]), 0.0F, 1.0F));
  }
  const double f = SignedConfidence(network_, x, label_);
  if (!(f > 0)) return kNone;
  // A few members spread over the subset: making an evaluator of each costs as much as an LP.
  constexpr std::size_t kTries = 4;
  const std::size_t step = std::max<std::size_t>(1, subset.size() / kTries);
  for (std::size_t at = 0; at < subset.size(); at += step) {
    const Evaluator member(members_.Member(subset[at]));
    const double g = SignedConfidence(member, x, label_);
    if (AddUp(g, member.ConfidenceErrorBound()) > 0) continue;
    const double proved = NextDown(f - network_.ConfidenceErrorBound());
    const std::scoped_lock lock(mutex_);
    if (proved > beta_lower_) {
      beta_lower_ = proved;
      witness_ = Witness{x, subset[at], 0};
    }
    return f;
  }
  return kNone;
}

double WitnessKeeper::beta_lower() const {
  const std::scoped_lock lock(mutex_);
  return beta_lower_;
}

std::optional<Witness> WitnessKeeper::best() const {
  const std::scoped_lock lock(mutex_);
  return witness_;
}

}  // namespace lucid
