#include <fmt/format.h>

#include "base/number_text.h"
#include "lucid/paper/bound.h"

namespace lucid {
namespace {

constexpr std::string_view kNames[] = {"naive", "H", "HM", "HMRiS", "HMB", "full"};

Status Refuse(std::string_view field, const auto& value, std::string_view rule) {
  return InvalidInput(fmt::format("option {} is {}, must be {}", field, value, rule));
}

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
  LUCID_TRY(common.Validate(classes));
  if (!(tau >= 0 && tau <= 1e6)) return Refuse("tau", tau, "from 0 to 1000000");
  if (!(subset_limit > 0)) return Refuse("subset-limit", subset_limit, "above 0 seconds");
  return Ok();
}

std::string MilpBoundOptions::Canonical() const {
  return fmt::format("milp variant={} tau={} gap={} tighten={} seed={}", NameOf(variant),
                     HexText(tau), HexText(common.gap), tighten ? "lp" : "none", common.seed);
}

}  // namespace lucid
