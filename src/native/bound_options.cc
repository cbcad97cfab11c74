#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/number_text.h"
#include "lucid/native/bound.h"

namespace lucid {
namespace {

Status Refuse(std::string_view field, const auto& value, std::string_view rule) {
  return InvalidInput(fmt::format("option {} is {}, must be {}", field, value, rule));
}

}  // namespace

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
