// The lists of an evaluation or an audit that several processes do together: inputs that all
// members look at, and networks that are trained privately.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/task_team.h"
#include "baselines/baseline_store.h"
#include "lucid/base/progress.h"
#include "lucid/base/team.h"
#include "lucid/baselines/naive_idp.h"
#include "lucid/baselines/private_training.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// What every process of a team has to have: this run, to the bit.
std::string SubjectOfStudy(const Manifest& manifest);

// The leader's side of `team`; null where there is nobody else. Errors: as TaskTeam::Gather.
Result<std::unique_ptr<TaskTeam>> GatherForStudy(Team* team, const Manifest& manifest,
                                                 std::stop_token stop);

// NaiveIdp::DecideAll, with the processes of `team` unless that is null.
Result<std::vector<AccessDecision>> DecideAll(const NaiveIdp& naive, const Table& table,
                                              TaskTeam* team, int threads,
                                              const ProgressCallback& progress,
                                              const std::stop_token& stop);

// The table without the unit of a row.
Table WithoutUnitOf(const Table& table, std::int64_t row);

// One network to train privately, by DP-SGD or ALIBI (which reads some of the options).
struct PrivateTraining {
  bool dp_sgd = true;
  DpSgdOptions options;
  std::int64_t without = -1;  // a training row whose unit is left out; -1: none
};

// Trains all of them, each on one thread, here and with the processes of `team` unless that is
// null. `keep` gets each with the seconds that it took, in any order, one at a time. Errors: of
// training and of `keep`; kInterrupted.
Status TrainPrivately(const Architecture& architecture, const Table& train,
                      std::span<const PrivateTraining> trainings, TaskTeam* team, int threads,
                      const std::stop_token& stop,
                      const std::function<Status(std::int64_t i, TrainedBaseline baseline)>& keep);

// What a helper does of these lists: the two functions of a TeamService.
class StudyHelper {
 public:
  // `train`: the run's training rows, or null; tasks that need them are refused then. Keeps
  // references.
  StudyHelper(const std::string& run, const Manifest& manifest, const Table* train, int threads);
  ~StudyHelper();
  StudyHelper(const StudyHelper&) = delete;
  StudyHelper& operator=(const StudyHelper&) = delete;

  // Whether tasks of this topic are among them.
  static bool Serves(std::string_view topic);
  Status Begin(std::string_view topic, std::stop_token nobody_waits);
  Status Answer(ByteCursor& in, int worker, std::string& out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lucid
