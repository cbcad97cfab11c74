// The access under attack, in either world of the game.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "baselines/privacy_noise.h"
#include "evaluation/labels.h"
#include "guard/draw_source.h"
#include "lucid/baselines/naive_idp.h"
#include "lucid/evaluation/evaluation.h"
#include "lucid/guard/guard.h"

namespace lucid {

// The region that Naive-iDP noises. Every network looks at an input, so what was found is
// remembered: both worlds and every epsilon ask about the same inputs.
class NaiveRegion {
 public:
  explicit NaiveRegion(NaiveIdp naive) : naive_(std::move(naive)) {}
  bool Contains(std::span<const float> x);

 private:
  NaiveIdp naive_;
  std::unordered_map<std::string, bool> known_;  // by the bytes of x
};

// What deployed access makes of inputs: the region that is noised, and the mechanism there. Which
// network's labels it answers with is up to the world. One thread.
class AuditedAccess {
 public:
  // N, or every input noised, or a guard's region, or `naive`. Requires: `naive` for kNaiveIdp; not
  // kDpSgd, not kAlibi: those are networks, and their access is as kNone.
  static Result<AuditedAccess> Open(const std::string& run, const std::string& certificate,
                                    Method method, MechanismKind mechanism, double epsilon,
                                    std::int64_t classes,
                                    std::shared_ptr<NaiveRegion> naive = nullptr);

  // The answer to one query from `network`; kRefused if the access refuses the input. Every call
  // draws anew, as a new key would: an attacker gains nothing by asking again.
  std::int32_t Ask(const NetworkLabels& network, std::span<const float> x);
  // Asks the same access as if it had another region, which holds x or does not.
  std::int32_t AskInRegion(const NetworkLabels& network, std::span<const float> x, bool noised);

  // From now on draws are a server's: the keyed hash of the input under a key that nobody else has,
  // so that the same input gets the same answer from the same network. Without a guard nothing
  // changes.
  void DrawAsAServer();

  // Whether it noises x; nothing if it refuses x.
  std::optional<bool> NoisesAt(std::span<const float> x);

  const std::optional<Guard>& guard() const { return guard_; }
  const std::optional<Mechanism>& mechanism() const { return mechanism_; }  // none: never noised

 private:
  explicit AuditedAccess(PrivacyNoise noise) : noise_(std::move(noise)) {}
  bool Canonicalize(std::span<const float> x);  // to canonical_; false: refused
  bool Noises(std::span<const float> x);
  std::int32_t Answer(const NetworkLabels& network, bool noised);  // at canonical_
  // Of a network that is served with key_; its digest stands for a name that no other has.
  const DrawSource& DrawsOf(const NetworkLabels& network);

  std::optional<Guard> guard_;
  std::optional<GuardKey> key_;
  std::unordered_map<const NetworkLabels*, DrawSource> draws_;
  std::shared_ptr<NaiveRegion> naive_;
  std::optional<Mechanism> mechanism_;
  PrivacyNoise noise_;
  std::vector<float> canonical_;
};

}  // namespace lucid
