// The white box of private training: what the promise `full` rests on, computed again.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lucid/audit/audit.h"
#include "lucid/ensemble/ensemble.h"
#include "random/secret_stream.h"
#include "train/plan.h"

namespace lucid {

// A private run as it states itself, with the rows and the secret that it was made from. Views.
struct PrivateEvidence {
  const Network& network;  // N
  const Table& train;
  const TrainOptions& options;  // of the manifest
  const PrivacyStatement& statement;
  const Secret& secret;
  // What the trainer trained by: its coins, its noise, its clipping.
  const TrainPlan& plan;
};

// replay        other code makes N again from the secret, to the bit
// contribution  at N's iterates no unit changes the trainer's integer sum by more than is charged
// coins, noise  of the trainer look as the accountant was told
// sigma         noise over sensitivity is what is stated, and gives no more than (E, delta)
// Errors: kInterrupted.
Result<std::vector<AuditCheck>> CheckPrivateTraining(const PrivateEvidence& evidence,
                                                     const ProgressCallback& progress,
                                                     const std::stop_token& stop);

// bounds        are r times the median confidence of N over the reference, and nothing else
// Requires: declared bounds; `reference` where they are not of the domain.
AuditCheck CheckDeclaredBounds(const Network& network, const Manifest& manifest,
                               const std::optional<Table>& reference);

// draws         two guards that differ in their bounds only share no draw: one draw that meets two
//               bounds tells on which side of them an input lies
// `first` and `second` answer inputs that both noise, at epsilon 0. Requires: some inputs.
using NoisedAnswer = std::function<std::int32_t(std::span<const float> x)>;
AuditCheck CheckDraws(const NoisedAnswer& first, const NoisedAnswer& second, const Table& inputs,
                      std::int64_t classes);

// Makes all checks of a run with the rows it was trained on. What cannot be checked is named in
// `left_out`.
Result<std::vector<AuditCheck>> CheckPrivateRun(const std::string& run, const RunNetwork& opened,
                                                const Table& train,
                                                const std::optional<Table>& reference,
                                                std::vector<std::string>& left_out,
                                                const ProgressCallback& progress,
                                                const std::stop_token& stop);

}  // namespace lucid
