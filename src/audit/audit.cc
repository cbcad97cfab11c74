#include "lucid/audit/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "audit/auditor.h"
#include "lucid/base/version.h"
#include "lucid/data/units.h"

namespace lucid {
namespace {

constexpr AuditAttack kAttacks[] = {AuditAttack::kGap,       AuditAttack::kNoise,
                                    AuditAttack::kBoundary,  AuditAttack::kDistinguisher,
                                    AuditAttack::kAveraging, AuditAttack::kTiming,
                                    AuditAttack::kWhiteBox};
constexpr std::string_view kAttackNames[] = {"gap",       "noise",  "boundary", "distinguisher",
                                             "averaging", "timing", "white-box"};
constexpr World kWorlds[] = {World::kLeaveOneOut, World::kRecertified, World::kTrainTest,
                             World::kRetrained, World::kDeployed};
constexpr std::string_view kWorldNames[] = {"leave-one-out", "re-certified", "train-test",
                                            "retrained", "deployed"};

}  // namespace

std::string_view NameOf(AuditAttack attack) {
  return kAttackNames[static_cast<std::size_t>(attack)];
}

Result<AuditAttack> AttackNamed(std::string_view name) {
  for (const AuditAttack attack : kAttacks) {
    if (NameOf(attack) == name) return attack;
  }
  return InvalidInput(
      fmt::format("unknown attack '{}': use {}", name, fmt::join(kAttackNames, ", ")));
}

std::span<const AuditAttack> AllAttacks() { return kAttacks; }

std::string_view NameOf(World world) { return kWorldNames[static_cast<std::size_t>(world)]; }

Result<World> WorldNamed(std::string_view name) {
  for (const World world : kWorlds) {
    if (NameOf(world) == name) return world;
  }
  return InvalidInput(
      fmt::format("unknown world '{}': one of {}", name, fmt::join(kWorldNames, ", ")));
}

bool Audit::Holds() const {
  return std::ranges::all_of(rows, [](const AuditRow& row) { return row.holds; });
}

Status AuditOptions::Validate() const {
  if (epsilons.empty()) return InvalidInput("no epsilon to audit");
  for (const double epsilon : epsilons) {
    if (!(epsilon >= 0 && std::isfinite(epsilon))) {
      return InvalidInput(fmt::format("epsilon is {}, must be a finite number >= 0", epsilon));
    }
  }
  if (targets < 1) return InvalidInput(fmt::format("targets is {}, must be at least 1", targets));
  if (duplicates < 1 || duplicates > 10'000) {
    return InvalidInput(fmt::format("duplicates is {}, must be from 1 to 10000", duplicates));
  }
  if (deployed < 0) return InvalidInput(fmt::format("deployed is {}, must be >= 0", deployed));
  if (retrained < 0) return InvalidInput(fmt::format("retrain is {}, must be >= 0", retrained));
  if (http && http->scratch.empty()) return InvalidInput("http: no folder for the server's files");
  if (http && !(http->latency_floor >= 0 && http->latency_floor < 1)) {
    return InvalidInput(
        fmt::format("latency-floor is {} s, must be from 0 to below 1 s", http->latency_floor));
  }
  if (url && (http || !accesses.empty() || retrained > 0)) {
    return InvalidInput("url: a server elsewhere is attacked by itself, without other accesses");
  }
  return Ok();
}

Result<Audit> RunAudit(const std::string& run, const Table& train, const Table& test,
                       const AuditOptions& options, const ProgressCallback& progress,
                       std::stop_token stop) {
  LUCID_TRY(options.Validate());
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run, progress));
  if (!IsDigestOf(train, ensemble.manifest().train_digest)) {
    return Mismatch("the training rows are not those of the run: their digests differ");
  }
  LUCID_ASSIGN(Auditor auditor,
               Auditor::Create(run, ensemble, train, test, options, progress, std::move(stop)));
  LUCID_TRY(options.url ? auditor.AttackUrl() : auditor.AttackAll());
  Audit audit;
  audit.run = run;
  audit.version = Version();
  audit.run_key = ensemble.manifest().run_key;
  audit.rows = std::move(auditor.rows);
  audit.left_out = std::move(auditor.left_out);
  return audit;
}

}  // namespace lucid
