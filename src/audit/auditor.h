// Which accesses of a run are attacked, in which worlds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "audit/access.h"
#include "audit/attacks.h"
#include "audit/games.h"
#include "audit/http_worlds.h"
#include "audit/white_box.h"
#include "lucid/audit/audit.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// One audit on its way. Keeps references. One thread.
class Auditor {
 public:
  // Picks the targets and looks for disagreements. Errors: kInterrupted.
  static Result<Auditor> Create(const std::string& run, const Ensemble& ensemble,
                                const Table& train, const Table& test, const AuditOptions& options,
                                const ProgressCallback& progress, std::stop_token stop);

  // Every access that options name, at every epsilon. Errors: as RunAudit.
  Status AttackAll();
  Status AttackUrl();

  std::vector<AuditRow> rows;
  std::vector<std::string> left_out;

 private:
  // A training row under attack.
  struct Target {
    std::int64_t member = 0, row = 0;
    NetworkLabels without;  // N_-i
    std::vector<Disagreement> disagreements;
  };
  // Two networks that answer for the row of a target.
  struct Pair {
    NetworkLabels with, without;
  };

  // Two real services, and what who knows how they are made asks to tell them apart.
  struct DeployedPair {
    std::int64_t target = 0;
    Guard with, without;
    std::vector<TellingInput> telling;
  };

  Auditor(const std::string& run, const Ensemble& ensemble, const Table& train, const Table& test,
          const AuditOptions& options, const ProgressCallback& progress, std::stop_token stop,
          NetworkLabels network);

  bool Asked(AuditAttack attack) const;
  Result<std::optional<std::string>> WhyNot(Method method) const;
  Status AttackMethod(Method method);
  Status AttackInProcess(Method method, double epsilon);
  Status WeighInProcess(AuditedAccess& access, Method method, double epsilon);
  Status AttackOverHttp(Method method, double epsilon);
  Status AttackTrained(Method method);
  Status AttackRetrained(Method method, double epsilon);
  Status AttackDeployed(Method method, double epsilon);
  // Pairs of services for the game `deployed`, of a private run and of another one.
  Result<std::vector<DeployedPair>> DeployPrivate(double epsilon) const;
  Result<std::vector<DeployedPair>> DeployReduced(GuardKind guard, double epsilon);
  Status MakeReducedWorlds();  // once
  // Why the game is not played with this access; empty: it is.
  std::string WhyNotDeployed(Method method) const;
  Status AttackRecertified(AuditedAccess& access, double epsilon);
  Status TimeOverHttp(HttpWorlds& worlds, HttpWorldsOptions options);

  // What a guess of so many queries may show.
  double ClaimOf(Method method, std::optional<World> world, double epsilon,
                 std::int64_t queries) const;
  // A row of `method` without figures, with what is claimed.
  AuditRow NewRow(AuditAttack attack, std::string access, Method method, std::optional<World> world,
                  double epsilon) const;
  // Plays it, and keeps the row or says why there is none.
  Status PlayAndKeep(const Game& game, AuditRow row);
  Status TimeAndKeep(const TimedInputs& inputs, const Oracle& ask, std::int64_t times,
                     AuditRow row);
  // A row of the training set against one of the test set, at whoever `ask` is (network k of
  // `networks`). Left out without test rows.
  Status PlayTrainTest(const AuditRow& row, std::int64_t networks,
                       const std::function<Oracle(std::int64_t network)>& ask);
  Game LeaveOneOut(AuditAttack attack, Method method,
                   std::function<Oracle(std::int64_t target, Side side)> oracle) const;
  Subject SubjectOf(const Target& target) const;
  // Where a member disagrees, and training rows that the guard does not noise.
  TimedInputs InputsFor(const Guard& guard) const;
  Result<std::vector<Pair>> Retrain(Method method, double epsilon) const;
  Result<HttpWorlds> OpenWorlds(const HttpWorldsOptions& options) const;

  const std::string& run_;
  const Ensemble& ensemble_;
  const Table& train_;
  const Table& test_;
  const AuditOptions& options_;
  const ProgressCallback& progress_;
  std::stop_token stop_;
  NetworkLabels network_;  // N
  std::vector<Target> targets_;
  std::shared_ptr<NaiveRegion> naive_;       // once it is needed
  std::optional<WhiteBoxInputs> white_box_;  // the same
  std::vector<std::string> reduced_;  // runs without a unit, of the game `deployed`; the same
};

}  // namespace lucid
