// The bounds of a run by several processes: what the leader and its helpers agree on.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/task_team.h"
#include "ensemble/engine_networks.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/native/bound.h"

namespace lucid {

// What every process of a team has to have: this run, to the bit.
std::string SubjectOf(const Ensemble& ensemble);

// The leader's side of `team`; null where there is nobody else. Errors: as TaskTeam::Gather.
Result<std::unique_ptr<TaskTeam>> GatherForBounds(Team* team, const Ensemble& ensemble,
                                                  std::stop_token stop);

// What a helper does of the native engine's tasks: the two functions of a TeamService.
class NativeHelper {
 public:
  // Keeps a reference.
  NativeHelper(const Ensemble& ensemble, int threads);
  ~NativeHelper();
  NativeHelper(const NativeHelper&) = delete;
  NativeHelper& operator=(const NativeHelper&) = delete;

  Status Begin(std::string_view topic, std::stop_token nobody_waits);
  Status Answer(ByteCursor& in, int worker, std::string& out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A helper's part of BoundMembers: reads which members are asked for, and writes the claims that
// bound them. Thread-safe. Errors: members that are not there. After a stop it may write nothing.
Status AnswerMembers(const Ensemble& ensemble, const EngineNetworks& networks, std::int32_t label,
                     double member_error, const std::stop_token& stop, ByteCursor& in,
                     std::string& out);

}  // namespace lucid
