// The game `deployed`: two real services, made anew with the unit and without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "audit/audit_record.h"
#include "audit/audit_scene.h"

namespace lucid {

class DeployedGame {
 public:
  // Keeps references.
  DeployedGame(const AuditScene& scene, AuditRecord& record) : scene_(scene), record_(record) {}

  // Plays it with every attack that is asked for, or notes why not.
  Status Attack(Method method, double epsilon);

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
  Result<std::vector<Services>> DeployPrivate(double epsilon) const;
  Result<std::vector<Services>> DeployReduced(GuardKind guard, double epsilon);
  Status MakeReducedWorlds();  // once

  const AuditScene& scene_;
  AuditRecord& record_;
  std::vector<std::string> reduced_;  // runs without a unit, once they are made
};

}  // namespace lucid
