// Looks for inputs on which a member disagrees with N although N is confident: lower bounds of
// beta_c, each with its witness.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "ensemble/members.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/data/domain.h"
#include "lucid/nn/network.h"

namespace lucid {

struct AttackOptions {
  std::uint64_t seed = 0;
  int threads = 0;                     // 0: all cores; the result does not depend on it
  std::int64_t pool = 900;             // boundary points that all members are scored on
  std::int64_t local_searches = 1500;  // sequential-LP ascents from elites and their mutations
  const Domain* domain = nullptr;      // where witnesses have to lie; null: [0,1]^d
};

struct AttackResult {
  double beta_lower = 0;  // at or below exact f(x) of the witness; 0 without one
  std::optional<Witness> witness;
};

// Ensures, if there is a witness: x in the domain (float32), exact f(x) >= beta_lower > 0 and exact
// g_member(x) <= 0, where f and g are the confidences of `label` in N and in the member. (Proved by
// the forward pass's error bound.) A function of the networks, `data` and the options but threads.
// `data` (rows x inputs, may be empty) are sample inputs that starting points are drawn from,
// beside corners and uniform points. Witness::row is left 0 for the caller. kInterrupted when
// stopped.
Result<AttackResult> Attack(const Network& network, const Members& members, std::int32_t label,
                            std::span<const float> data, const AttackOptions& options,
                            std::stop_token stop = {});

// As Attack, but against one member alone. All climbs are then about this member, where an attack
// on all members spends only a few on it. A stop gives a result without a witness. Requires:
// arguments that Attack accepts.
AttackResult AttackMember(const Network& network, const Members& members, std::int32_t label,
                          std::int64_t member, const AttackOptions& options,
                          std::stop_token stop = {});

// Makes a witness of an input x where f is about `f` and g_member is about 0 or less. It rounds x
// to float32 and moves it just so far that the forward errors leave no doubt. If x lies in the
// domain, so does the witness. The result has no witness (beta_lower 0) if that fails.
AttackResult CertifyPair(const Network& network, const Members& members, std::int32_t label,
                         std::int64_t member, const std::vector<double>& x, double f,
                         const Domain* domain = nullptr);

}  // namespace lucid
