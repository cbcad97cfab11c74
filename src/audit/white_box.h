// The audit that plays no games: with both networks and the guard at hand, the probability of every
// answer is known in both worlds.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "audit/access.h"
#include "audit/attacks.h"
#include "lucid/audit/audit.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// An input that N and the network without a row give different labels.
struct LabelChange {
  std::vector<float> x;
  std::int32_t in = 0, out = 0;  // N's label, the other one's
};

// A member and inputs at which it disagrees with N.
struct KnownDisagreements {
  std::int64_t member = 0;
  std::span<const Disagreement> points;
};

struct WhiteBoxInputs {
  std::vector<LabelChange> changes;
  std::int64_t compared = 0;  // inputs at which N and a member were compared
};

// Looks for inputs of the domain that matter, without help from a certificate: the checker's
// falsifier over all members, the local maxima of N's confidence above each of `known`, and `rows`.
// `witnesses`: more inputs to look at. Errors: kInterrupted.
Result<WhiteBoxInputs> FindLabelChanges(const Ensemble& ensemble, DomainKind domain,
                                        std::span<const KnownDisagreements> known,
                                        std::span<const Witness> witnesses, const Table& rows,
                                        std::uint64_t seed, int threads, std::stop_token stop);

// The largest loss over these inputs: the logarithm of how much likelier an answer is in one world,
// from the integer mechanism's own probabilities. +inf where a label is not noised. Fills the
// figures of `row`, whose claim is set.
AuditRow WeighAnswers(const WhiteBoxInputs& inputs, AuditedAccess& access, AuditRow row);

}  // namespace lucid
