#include "audit/access.h"

#include <fmt/format.h>

#include "audit/attacks.h"

namespace lucid {

bool NaiveRegion::Contains(std::span<const float> x) {
  const auto [entry, is_new] = known_.try_emplace(
      std::string(reinterpret_cast<const char*>(x.data()), x.size_bytes()), false);
  if (is_new) entry->second = naive_.Decide(x).noised;
  return entry->second;
}

Result<AuditedAccess> AuditedAccess::Open(const std::string& run, const std::string& certificate,
                                          Method method, MechanismKind mechanism, double epsilon,
                                          std::int64_t classes,
                                          std::shared_ptr<NaiveRegion> naive) {
  LUCID_ASSIGN(PrivacyNoise noise, PrivacyNoise::Create({}));
  AuditedAccess access(std::move(noise));
  if (method == Method::kNone) return access;
  LUCID_ASSIGN(access.mechanism_, Mechanism::Create(mechanism, epsilon, classes));
  if (method == Method::kNaiveNoise) return access;
  if (method == Method::kNaiveIdp) {
    access.naive_ = std::move(naive);
    return access;
  }
  LUCID_ASSIGN(access.guard_,
               Guard::Open(run, certificate,
                           {.guard = *GuardOf(method), .mechanism = mechanism, .epsilon = epsilon},
                           GuardKey::Random()));
  return access;
}

bool AuditedAccess::Canonicalize(std::span<const float> x) {
  canonical_.assign(x.begin(), x.end());
  return !guard_ || guard_->Canonicalize(canonical_).ok();
}

bool AuditedAccess::Noises(std::span<const float> x) {
  if (!mechanism_) return false;
  if (guard_) return guard_->Ask(x).noised;
  return naive_ == nullptr || naive_->Contains(x);
}

std::optional<bool> AuditedAccess::NoisesAt(std::span<const float> x) {
  if (!Canonicalize(x)) return std::nullopt;
  return Noises(canonical_);
}

std::int32_t AuditedAccess::Ask(const NetworkLabels& network, std::span<const float> x) {
  if (!Canonicalize(x)) return kRefused;
  return Answer(network, Noises(canonical_));
}

std::int32_t AuditedAccess::AskInRegion(const NetworkLabels& network, std::span<const float> x,
                                        bool noised) {
  return Canonicalize(x) ? Answer(network, noised) : kRefused;
}

void AuditedAccess::DrawAsAServer() {
  if (guard_) key_ = GuardKey::Random();
}

const DrawSource& AuditedAccess::DrawsOf(const NetworkLabels& network) {
  const auto found = draws_.find(&network);
  if (found != draws_.end()) return found->second;
  NoisedSet noised{guard_->options().guard, guard_->bounds(), {}, {}};
  if (const Certificate* certificate = guard_->certificate()) {
    if (noised.guard == GuardKind::kSpatial) noised.spatial = *certificate->spatial_digest;
    if (noised.guard == GuardKind::kExact) noised.index = *certificate->index_digest;
  }
  const Digest name = Sha256Of(fmt::format("network {}", draws_.size()));
  return draws_.try_emplace(&network, *key_, name, noised, *mechanism_).first->second;
}

std::int32_t AuditedAccess::Answer(const NetworkLabels& network, bool noised) {
  const std::int32_t label = network(canonical_);
  if (!mechanism_) return label;
  if (key_) return mechanism_->Answer(label, noised, DrawsOf(network).For(canonical_));
  const Draw draw{noise_.Next(), noise_.Next(), noise_.Next()};
  return mechanism_->Answer(label, noised, draw);
}

}  // namespace lucid
