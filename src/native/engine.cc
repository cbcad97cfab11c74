#include "native/engine.h"

#include <fmt/format.h>

#include <cmath>

#include "base/hasher.h"
#include "base/parallel.h"
#include "lucid/base/version.h"

namespace lucid {

Result<double> LargestError(const Members& members, int threads) {
  std::vector<double> errors(static_cast<std::size_t>(members.count()));
  LUCID_TRY(ParallelFor(members.count(), threads, {}, [&](std::int64_t i, int) {
    errors[i] = Evaluator(members.Member(i)).ConfidenceErrorBound();
    return Ok();
  }));
  double largest = 0;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (!std::isfinite(errors[i])) {
      return InvalidInput(fmt::format(
          "member {}: its outputs may overflow or be no numbers, so nothing can be proved of it",
          i));
    }
    largest = std::max(largest, errors[i]);
  }
  return largest;
}

Digest JournalKey(const Ensemble& ensemble, const std::string& options) {
  Hasher hasher;
  hasher.Text(Version()).Text(options);
  hasher.Bytes(std::as_bytes(std::span(ensemble.manifest().ensemble_digest.bytes)));
  hasher.Bytes(std::as_bytes(std::span(ensemble.manifest().network_digest.bytes)));
  return hasher.Finish();
}

BoundStatus StatusOf(const ClassBound& bound, bool finished) {
  constexpr double kRounding = 1e-6;  // of the outward-rounded bounds
  const double slack = bound.beta_upper - bound.beta_lower;
  if (slack <= kRounding * std::max(1.0, bound.beta_upper)) return BoundStatus::kExact;
  return finished ? BoundStatus::kGap : BoundStatus::kDeadline;
}

bool ShrinkBox(const Domain& domain, Box& box) {
  if (domain.groups().empty()) return true;
  std::vector<double> lower, upper;
  lower.reserve(box.size());
  upper.reserve(box.size());
  for (const Interval& side : box) {
    lower.push_back(side.lower);
    upper.push_back(side.upper);
  }
  if (!domain.Shrink(lower, upper)) return false;
  for (std::size_t j = 0; j < box.size(); ++j) box[j] = {lower[j], upper[j]};
  return true;
}

}  // namespace lucid
