// The bounds of a run by several processes: what the leader and its helpers agree on.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "base/task_team.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/native/bound.h"

namespace lucid {

// What every process of a team has to have: this run, to the bit.
std::string SubjectOf(const Ensemble& ensemble);

// The leader's side of `team`; null where there is nobody else. Errors: as TaskTeam::Gather.
Result<std::unique_ptr<TaskTeam>> GatherForBounds(Team* team, const Ensemble& ensemble,
                                                  std::stop_token stop);

}  // namespace lucid
