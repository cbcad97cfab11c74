// The audit that plays no games: with both networks and the guard at hand, the probability of every
// answer is known in both worlds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "audit/access.h"
#include "audit/attacks.h"
#include "base/bytes.h"
#include "base/task_team.h"
#include "lucid/audit/audit.h"
#include "lucid/data/domain.h"
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
// `witnesses`: more inputs to look at. With the processes of `team` unless that is null. Errors:
// kInterrupted; of a team.
Result<WhiteBoxInputs> FindLabelChanges(const Ensemble& ensemble, DomainKind domain,
                                        std::span<const KnownDisagreements> known,
                                        std::span<const Witness> witnesses, const Table& rows,
                                        std::uint64_t seed, TaskTeam* team, int threads,
                                        std::stop_token stop);

// What a helper's part of it needs to know: the domain, and the digest of `rows`.
struct WhiteBoxTopic {
  DomainKind domain = DomainKind::kBox;
  Digest rows;

  std::string Bytes() const;
  static std::optional<WhiteBoxTopic> Read(std::string_view bytes);
};
// Reads what is known of a member, and writes the label changes that are found from there.
Status AnswerLabelChanges(const Ensemble& ensemble, DomainKind domain, const Table& rows,
                          ByteCursor& in, std::string& out);

// The largest loss over these inputs: the logarithm of how much likelier an answer is in one world,
// from the integer mechanism's own probabilities. +inf where a label is not noised. Fills the
// figures of `row`, whose claim is set.
AuditRow WeighAnswers(const WhiteBoxInputs& inputs, AuditedAccess& access, AuditRow row);

}  // namespace lucid
