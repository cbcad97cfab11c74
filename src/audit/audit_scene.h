// What every attack of an audit can see: the run, its rows, and the targets.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "audit/access.h"
#include "audit/attacks.h"
#include "audit/games.h"
#include "base/bytes.h"
#include "base/task_team.h"
#include "lucid/audit/audit.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// A training row under attack.
struct AuditTarget {
  std::int64_t member = 0, row = 0;
  NetworkLabels without;  // N_-i
  std::vector<Disagreement> disagreements;
};

// About so many inputs are decided by all networks for one row of Naive-iDP.
inline constexpr std::int64_t kNaiveQueries = 1000;

struct AuditScene {
  const std::string& run;
  const Ensemble& ensemble;
  const Table& train;
  const Table& test;
  const AuditOptions& options;
  const ProgressCallback& progress;
  std::stop_token stop;
  TaskTeam* team;         // processes that share lists of tasks, or null
  NetworkLabels network;  // N
  std::vector<AuditTarget> targets;
  Domain domain;  // what records encode to: every guard answers there

  bool Asked(AuditAttack attack) const;
  Subject SubjectOf(const AuditTarget& target) const;
  // The game about N and the networks without a target; `oracle` answers for either side.
  Game LeaveOneOut(AuditAttack attack, Method method,
                   std::function<Oracle(std::int64_t target, Side side)> oracle) const;
  // The game about a row of the training set and one of the test set, at whoever `ask` is (network
  // k of `networks`). It has no rounds if there are no test rows. Keeps a reference to `ask`.
  Game TrainTest(std::int64_t networks,
                 const std::function<Oracle(std::int64_t network)>& ask) const;
  // Inputs to time: those where a member disagrees, and training rows that the guard does not
  // noise.
  TimedInputs InputsFor(const Guard& guard) const;
};

// What one member's search for disagreements is asked.
struct DisagreementQuestion {
  std::int64_t member = 0;
  std::int64_t count = 0;
  std::uint64_t seed = 0;
};
inline constexpr std::string_view kDisagreementTopic = "audit: disagreements";

// Fills in the disagreements of all targets, whose members are set. Errors: kInterrupted; of a
// team.
Status FindAllDisagreements(AuditScene& scene);
// A helper's part: reads a question and writes the answer.
Status AnswerDisagreements(const Ensemble& ensemble, const Table& train, ByteCursor& in,
                           std::string& out);

}  // namespace lucid
