// The privately trained networks of an evaluation.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "base/task_team.h"
#include "baselines/baseline_store.h"
#include "lucid/base/progress.h"
#include "lucid/evaluation/evaluation.h"

namespace lucid {

// The epsilon that a baseline is trained with: `asked`, or options.smallest_epsilon if that is 0.
double EpsilonOfBaseline(const EvaluationOptions& options, double asked);

// options.repeats networks for each of options.epsilons, in that order: DP-SGD's or ALIBI's,
// trained on options.threads threads (and by the processes of `team`, unless that is null) or taken
// from RUN/baselines. Requires: `train` is the run's.
// Errors: a run not trained by LUCID and no options.train; as LoadOrTrain.
Result<std::vector<std::vector<TrainedBaseline>>> TrainBaselines(
    const std::string& run, const Manifest& manifest, const Table& train, bool dp_sgd,
    const EvaluationOptions& options, TaskTeam* team, const ProgressCallback& progress,
    std::stop_token stop);

}  // namespace lucid
