#include <fmt/format.h>

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

Status MilpBoundOptions::Validate(std::int32_t classes) const {
  const auto refuse = [](std::string_view field, auto value, std::string_view rule) {
    return InvalidInput(fmt::format("option {} is {}, must be {}", field, value, rule));
  };
  // NaN fails every comparison, so each rule is written as what must hold.
  if (!(tau >= 0 && tau <= 1e6)) return refuse("tau", tau, "from 0 to 1000000");
  if (!(gap >= 0 && gap <= 1)) return refuse("gap", gap, "from 0 to 1");
  if (!(time_limit > 0)) return refuse("time-limit", time_limit, "above 0 seconds");
  if (!(class_limit > 0)) return refuse("class-limit", class_limit, "above 0 seconds");
  if (!(subset_limit > 0)) return refuse("subset-limit", subset_limit, "above 0 seconds");
  if (label && !(*label >= 0 && *label < classes)) {
    return refuse("class", *label, fmt::format("from 0 to {}", classes - 1));
  }
  return Ok();
}

std::string MilpBoundOptions::Canonical() const {
  return fmt::format("milp variant={} tau={:a} gap={:a} tighten={} seed={}", NameOf(variant), tau,
                     gap, tighten ? "lp" : "none", seed);
}

}  // namespace lucid
