#include <fmt/format.h>

#include <algorithm>

#include "lucid/verify/bound.h"

namespace lucid {
namespace {

constexpr std::string_view kNames[] = {"naive", "H", "HM", "HMRiS", "HMB", "full"};

}  // namespace

std::string_view NameOf(Variant variant) { return kNames[static_cast<int>(variant)]; }

Result<Variant> VariantNamed(std::string_view name) {
  for (const Variant variant : kVariants) {
    if (NameOf(variant) == name) return variant;
  }
  return InvalidInput(
      fmt::format("unknown variant '{}': use naive, H, HM, HMRiS, HMB or full", name));
}

bool UsesHyperNetwork(Variant variant) { return variant != Variant::kNaive; }
bool UsesMatchingDependencies(Variant variant) {
  return variant != Variant::kNaive && variant != Variant::kH;
}
bool UsesRelaxIfSimilar(Variant variant) {
  return variant == Variant::kHMRiS || variant == Variant::kFull;
}
bool UsesBranchAndBound(Variant variant) {
  return variant == Variant::kHMB || variant == Variant::kFull;
}

namespace {

Status Refuse(std::string_view field, const auto& value, std::string_view rule) {
  return InvalidInput(fmt::format("option {} is {}, must be {}", field, value, rule));
}

}  // namespace

// NaN fails every comparison, so each rule is written as what must hold.
Status BoundOptions::ValidateCommon(std::int32_t classes) const {
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
  LUCID_TRY(ValidateCommon(classes));
  constexpr std::int64_t kLeast = std::int64_t{1} << 20;
  if (memory < kLeast) return Refuse("memory", memory, fmt::format("at least {} bytes", kLeast));
  if (domain != "box" && domain != "schema") return Refuse("domain", domain, "box or schema");
  if (!proof.empty() && resume) {
    return InvalidInput("a proof is written in one go: --proof cannot be combined with --resume");
  }
  return Ok();
}

std::string NativeBoundOptions::Canonical() const {
  return fmt::format("native domain={} gap={:a} seed={} proof={}", domain, gap, seed,
                     proof.empty() ? "no" : "yes");
}

Status MilpBoundOptions::Validate(std::int32_t classes) const {
  LUCID_TRY(ValidateCommon(classes));
  if (!(tau >= 0 && tau <= 1e6)) return Refuse("tau", tau, "from 0 to 1000000");
  if (!(subset_limit > 0)) return Refuse("subset-limit", subset_limit, "above 0 seconds");
  return Ok();
}

std::string MilpBoundOptions::Canonical() const {
  return fmt::format("milp variant={} tau={:a} gap={:a} tighten={} seed={}", NameOf(variant), tau,
                     gap, tighten ? "lp" : "none", seed);
}

}  // namespace lucid
