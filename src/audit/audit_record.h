// What an audit has found so far: its rows, and what was left out and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "audit/audit_scene.h"

namespace lucid {

class AuditRecord {
 public:
  // Keeps a reference.
  explicit AuditRecord(const AuditScene& scene) : scene_(scene) {}

  std::vector<AuditRow> rows;
  std::vector<std::string> left_out, notes;

  // A row of `method` without figures, with what is claimed.
  AuditRow NewRow(AuditAttack attack, std::string access, Method method, std::optional<World> world,
                  double epsilon) const;
  // Plays it, and keeps the row or says why there is none.
  Status PlayAndKeep(const Game& game, AuditRow row);
  Status TimeAndKeep(const TimedInputs& inputs, const Oracle& ask, std::int64_t times,
                     AuditRow row);

 private:
  // What a guess of so many queries may show.
  double ClaimOf(Method method, std::optional<World> world, double epsilon,
                 std::int64_t queries) const;

  const AuditScene& scene_;
};

}  // namespace lucid
