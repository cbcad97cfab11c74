// The attacker: what it knows of a row, what it asks, how sure it is.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/byte_fields.h"
#include "evaluation/labels.h"
#include "lucid/audit/audit.h"
#include "lucid/data/domain.h"
#include "random/stream.h"

namespace lucid {

// An input at which N and the network without the row give different labels.
struct Disagreement {
  std::vector<float> x;
  std::int32_t label = 0;  // N's
};
void Fields(auto& io, Is<Disagreement> auto& point) {
  io.Numbers(point.x);
  io(point.label);
}

// An input that two services answer with different probabilities.
struct TellingInput {
  std::vector<float> x;
  std::vector<double> log_ratios;  // by label: ln of how much likelier it is with the unit
};

// What the attacker knows: a row that may have been in the training set.
struct Subject {
  std::span<const float> x;
  std::int32_t label = 0;
  std::span<const Disagreement> disagreements = {};  // side by side
  std::span<const TellingInput> telling = {};
  const Domain* domain = nullptr;  // of inputs that are answered; null: [0,1]^d
};

// Looks for `count` inputs between two crossings of one segment: N's and N_-i's. Segments join
// training rows of different labels, the second with the first one's groups; the one whose
// crossings are farthest apart is taken. Empty if none was found.
std::vector<Disagreement> FindDisagreements(const NetworkLabels& network,
                                            const NetworkLabels& without, const Table& train,
                                            const Domain& domain, std::int64_t count,
                                            Stream& stream);

// The answer to one query; kRefused: the access refuses the input. Errors end the attack.
using Oracle = std::function<Result<std::int32_t>(std::span<const float> x)>;
inline constexpr std::int32_t kRefused = -1;

// Whether the attacker knows what the attack needs: disagreements, telling inputs, or nothing.
bool CanPlay(AuditAttack attack, const Subject& subject);
bool NeedsDisagreements(AuditAttack attack);

inline constexpr std::int64_t kTellingInputs = 20;  // of kRegion

// What the attacker thinks after asking: higher means "in". Requires: not kTiming; disagreements if
// the attack needs them. Errors: of `ask`.
Result<double> Score(AuditAttack attack, const Subject& subject, const Oracle& ask, Stream& stream);
// The most queries that Score asks.
std::int64_t QueriesOf(AuditAttack attack, std::int64_t duplicates);

}  // namespace lucid
