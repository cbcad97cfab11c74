#include "attack/witness.h"

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

void WitnessKeeper::Try(std::span<const double> point, std::int32_t index) {
  std::vector<float> x;
  x.reserve(point.size());
  for (const double value : point) x.push_back(std::clamp(static_cast<float>(value), 0.0F, 1.0F));
  const double f = SignedConfidence(network_, x, label_);
  const double proved = NextDown(f - network_.ConfidenceErrorBound());
  if (!(proved > beta_lower())) return;
  const Evaluator member(members_.Member(index));
  if (AddUp(SignedConfidence(member, x, label_), member.ConfidenceErrorBound()) > 0) return;
  const std::scoped_lock lock(mutex_);
  if (!(proved > beta_lower_)) return;
  beta_lower_ = proved;
  witness_ = Witness{std::move(x), index, 0};
}

void WitnessKeeper::Offer(double beta_lower, const std::optional<Witness>& witness) {
  const std::scoped_lock lock(mutex_);
  if (!(beta_lower > beta_lower_)) return;
  beta_lower_ = beta_lower;
  witness_ = witness;
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
