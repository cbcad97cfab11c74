#include "audit/access.h"

#include <fmt/format.h>

namespace lucid {

Result<AuditedAccess> AuditedAccess::Open(const std::string& run, const std::string& certificate,
                                          Method method, MechanismKind mechanism, double epsilon,
                                          std::int64_t classes) {
  LUCID_ASSIGN(PrivacyNoise noise, PrivacyNoise::Create({}));
  AuditedAccess access(method, std::move(noise));
  if (method == Method::kNone) return access;
  LUCID_ASSIGN(access.mechanism_, Mechanism::Create(mechanism, epsilon, classes));
  if (method == Method::kNaiveNoise) return access;
  LUCID_ASSIGN(const GuardKind guard, GuardNamed(NameOf(method)));
  LUCID_ASSIGN(
      access.guard_,
      Guard::Open(run, certificate, {.guard = guard, .mechanism = mechanism, .epsilon = epsilon},
                  GuardKey::Random()));
  return access;
}

std::int32_t AuditedAccess::Ask(const Labels& network, std::span<const float> x) {
  if (!mechanism_) return network(x);
  canonical_.assign(x.begin(), x.end());
  if (guard_ && !guard_->Canonicalize(canonical_).ok()) return -1;
  const bool noised = !guard_ || guard_->Ask(canonical_).noised;
  const Draw draw{noise_.Next(), noise_.Next(), noise_.Next()};
  return mechanism_->Answer(network(canonical_), noised, draw);
}

}  // namespace lucid
