// The exact guard's region if the service were certified anew without a row.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/task_team.h"
#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// An input to ask the service without the row of `member`. x must live as long as it is used.
struct PointWithout {
  std::int64_t member = 0;
  std::span<const float> x;
};

// For each point, whether that service would noise it: whether some network without this row and
// another one gives a label that N_-i does not give. Those networks are not trained: the logits of
// the one without i and j are taken to be N_-i + N_-j - N, which is right to first order in what a
// row does to a network. An estimate, for information. O(members * points). With the processes of
// `team` unless that is null. Errors: a parameter that is not finite; kInterrupted; of a team.
Result<std::vector<bool>> NoisedWithoutRow(const Ensemble& ensemble,
                                           std::span<const PointWithout> points,
                                           TaskTeam* team = nullptr, int threads = 1,
                                           const ProgressCallback& progress = {},
                                           const std::stop_token& stop = {});

inline constexpr std::string_view kRecertifiedTopic = "audit: region without a row";
// A helper's part: reads some points and writes which of them are noised.
Status AnswerNoisedWithoutRow(const Ensemble& ensemble, const std::stop_token& stop, ByteCursor& in,
                              std::string& out);

}  // namespace lucid
