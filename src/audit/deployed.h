// The game `deployed`: two real services, made anew with the unit and without it.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "audit/audit_record.h"
#include "audit/audit_scene.h"
#include "audit/reduced_world.h"

namespace lucid {

class DeployedGame {
 public:
  // Keeps references.
  DeployedGame(const AuditScene& scene, AuditRecord& record) : scene_(scene), record_(record) {}

  // Plays it with every attack that is asked for, or notes why not.
  Status Attack(Method method, double epsilon);
  // The same with `lucid serve` itself on both sides.
  Status AttackOverHttp(Method method, double epsilon);

 private:
  // Two real services, and the inputs that an attacker who knows how they are made asks to tell
  // them apart.
  struct Services {
    std::int64_t target = 0;
    Guard with, without;
    std::vector<TellingInput> telling;
  };

  // Why the game is not played with this access; empty: it is.
  std::string WhyNot(Method method) const;
  Result<std::vector<Services>> DeployPrivate(double epsilon);
  // The training rows of the world without the unit of a target; `pair` names its folder.
  Result<Table> RowsWithout(std::int64_t target, std::int64_t pair);
  Status CheckRowsWithout(std::int64_t count);
  Result<bool> HasReducedData(std::int64_t row);
  Result<std::vector<Services>> DeployReduced(GuardKind guard, double epsilon);
  // A private run's whole service, as `lucid train` makes it from these rows.
  Result<std::string> TrainService(const Table& rows, const std::string& folder) const;
  // The folders of two runs that are served, and what the attacker asks.
  struct ServedPair {
    std::int64_t target = 0;
    std::string with, without;
    std::vector<TellingInput> telling;
  };
  Result<std::vector<ServedPair>> PairsToServe(Method method, double epsilon);
  // The game's rows, with (E, delta) where the run is private.
  Status PlayAll(const Game& game, Method method, const std::string& name, double epsilon);

  Status FindPlain();          // once
  Status MakeReducedWorlds();  // once

  // A run without the unit of a target.
  struct ReducedWorld {
    std::int64_t target = 0;
    std::string run;
  };

  const AuditScene& scene_;
  AuditRecord& record_;
  std::optional<PlainFile> plain_;         // once it was looked for
  std::vector<ReducedWorld> reduced_;      // once they are made
  std::atomic<std::int64_t> refused_ = 0;  // files without a unit that the schema's rule refuses
};

}  // namespace lucid
