#include "native/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/hasher.h"
#include "base/number_text.h"
#include "base/parallel.h"
#include "lucid/base/version.h"
#include "lucid/native/bound.h"

namespace lucid {
namespace {

Status Refuse(std::string_view field, const auto& value, std::string_view rule) {
  return InvalidInput(fmt::format("option {} is {}, must be {}", field, value, rule));
}

}  // namespace

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

// ---- options ------------------------------------------------------------------------------------

// NaN fails every comparison, so each rule is written as what must hold.
Status BoundOptions::Validate(std::int32_t classes) const {
  if (!(gap >= 0 && gap <= 1)) return Refuse("gap", gap, "from 0 to 1");
  if (!(time_limit > 0)) return Refuse("time-limit", time_limit, "above 0 seconds");
  if (!(class_limit > 0)) return Refuse("class-limit", class_limit, "above 0 seconds");
  if (label && !(*label >= 0 && *label < classes)) {
    return Refuse("class", *label, fmt::format("from 0 to {}", classes - 1));
  }
  return Ok();
}

bool BoundOptions::Finished(const Certificate& certificate) const {
  return std::ranges::none_of(certificate.classes, [&](const ClassBound& bound) {
    return bound.status == BoundStatus::kDeadline && label.value_or(bound.label) == bound.label;
  });
}

Status NativeBoundOptions::Validate(std::int32_t classes) const {
  LUCID_TRY(common.Validate(classes));
  constexpr std::int64_t kLeast = std::int64_t{1} << 20;
  if (memory < kLeast) return Refuse("memory", memory, fmt::format("at least {} bytes", kLeast));
  if (attack_climbs && *attack_climbs < 0) {
    return Refuse("attack-climbs", *attack_climbs, "at least 0");
  }
  if (!(save_every >= 0)) return Refuse("save-every", save_every, "at least 0 seconds");
  if (width < 1 || width > 4096) return Refuse("width", width, "from 1 to 4096");
  if (!work_log.empty() && common.team != nullptr && common.team->size() > 1) {
    return InvalidInput("the option work_log is written by one process: start it without mpirun");
  }
  if (decide && !(*decide >= 0 && std::isfinite(*decide))) {
    return Refuse("decide", *decide, "a finite number from 0 on");
  }
  return Ok();
}

std::string NativeBoundOptions::Canonical() const {
  return fmt::format("native domain={} gap={} seed={} proof={}{}{}", NameOf(domain),
                     HexText(common.gap), common.seed, proof.empty() ? "no" : "yes",
                     decide ? " decide=" + HexText(*decide) : std::string(),
                     width == 1 ? std::string() : fmt::format(" width={}", width));
}

}  // namespace lucid
