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
#include "audit/audit_record.h"
#include "audit/audit_scene.h"
#include "audit/deployed.h"
#include "audit/games.h"
#include "audit/http_worlds.h"
#include "audit/white_box.h"
#include "lucid/audit/audit.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// One audit while it runs. It keeps references and serves one thread.
class Auditor {
 public:
  // Picks the targets and looks for disagreements. Errors: kInterrupted.
  static Result<Auditor> Create(const std::string& run, const Ensemble& ensemble,
                                const Table& train, const Table& test, const AuditOptions& options,
                                TaskTeam* team, const ProgressCallback& progress,
                                std::stop_token stop);

  // Every access that options name, at every epsilon. Errors: as RunAudit.
  Status AttackAll();
  Status AttackUrl();

  const AuditRecord& record() const { return *record_; }

 private:
  // Two networks that answer for the row of a target.
  struct Pair {
    NetworkLabels with, without;
  };

  explicit Auditor(std::unique_ptr<AuditScene> scene);

  Result<std::optional<std::string>> WhyNot(Method method) const;
  bool Deploys(Method method) const;  // the game `deployed` is played with it
  Status AttackMethod(Method method);
  Status AttackInProcess(Method method, double epsilon);
  Status WeighInProcess(AuditedAccess& access, Method method, double epsilon);
  Status AttackOverHttp(Method method, double epsilon);
  Status AttackTrained(Method method);
  Status AttackRetrained(Method method, double epsilon);
  Status AttackRecertified(AuditedAccess& access, double epsilon);
  Status TimeOverHttp(HttpWorlds& worlds, HttpWorldsOptions options);
  // The game AuditScene::TrainTest. It is left out without test rows.
  Status PlayTrainTest(const AuditRow& row, std::int64_t networks,
                       const std::function<Oracle(std::int64_t network)>& ask);
  Result<std::vector<Pair>> Retrain(Method method, double epsilon) const;
  Result<HttpWorlds> OpenWorlds(const HttpWorldsOptions& options) const;

  std::unique_ptr<AuditScene> scene_;  // the two below refer to it
  std::unique_ptr<AuditRecord> record_;
  std::unique_ptr<DeployedGame> deployed_;
  std::shared_ptr<NaiveRegion> naive_;       // once it is needed
  std::optional<WhiteBoxInputs> white_box_;  // the same
};

}  // namespace lucid
