// The access under attack, in either world of the game.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "baselines/labels.h"
#include "baselines/privacy_noise.h"
#include "lucid/baselines/evaluation.h"
#include "lucid/guard/guard.h"

namespace lucid {

// What deployed access makes of inputs: the region that is noised, and the mechanism there. Which
// network's labels it answers with is up to the world.
class AuditedAccess {
 public:
  // N, or every input noised, or a guard's region.
  static Result<AuditedAccess> Open(const std::string& run, const std::string& certificate,
                                    Method method, MechanismKind mechanism, double epsilon,
                                    std::int64_t classes);

  // The answer to one query from `network`; -1 if the access refuses the input. Every call draws
  // anew, as a new key would: an attacker gains nothing by asking again.
  std::int32_t Ask(const Labels& network, std::span<const float> x);

  const std::optional<Guard>& guard() const { return guard_; }

 private:
  AuditedAccess(Method method, PrivacyNoise noise) : method_(method), noise_(std::move(noise)) {}

  Method method_;
  std::optional<Guard> guard_;
  std::optional<Mechanism> mechanism_;
  PrivacyNoise noise_;
  std::vector<float> canonical_;
};

}  // namespace lucid
