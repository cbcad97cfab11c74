#include "lucid/audit/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "audit/auditor.h"
#include "audit/private_checks.h"
#include "lucid/base/version.h"
#include "lucid/certificate/guards_digest.h"
#include "lucid/data/units.h"

namespace lucid {
namespace {

constexpr AuditAttack kAttacks[] = {AuditAttack::kGap,       AuditAttack::kNoise,
                                    AuditAttack::kBoundary,  AuditAttack::kDistinguisher,
                                    AuditAttack::kAveraging, AuditAttack::kTiming,
                                    AuditAttack::kWhiteBox,  AuditAttack::kRegion};
constexpr std::string_view kAttackNames[] = {"gap",       "noise",  "boundary",  "distinguisher",
                                             "averaging", "timing", "white-box", "region"};
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
  return std::ranges::all_of(rows, &AuditRow::holds) &&
         std::ranges::all_of(checks, &AuditCheck::holds);
}

bool AuditRow::not_covered() const { return world == World::kDeployed && std::isnan(claimed); }

bool AuditOptions::Plays(World world) const {
  if (!games.empty()) return std::ranges::count(games, world) > 0;
  if (world == World::kRetrained) return retrained > 0;
  return world != World::kDeployed || deployed > 0;
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
  if (Plays(World::kRetrained) && retrained == 0) {
    return InvalidInput("games: retrained needs the number of pairs (the option retrain)");
  }
  if (Plays(World::kDeployed) && deployed == 0) {
    return InvalidInput("games: deployed needs the number of pairs (the option deployed)");
  }
  if ((http || deployed > 0) && scratch.empty()) {
    return InvalidInput("no folder for the files of the services that an audit makes");
  }
  if (http && !(http->latency_floor >= 0 && http->latency_floor < 1)) {
    return InvalidInput(
        fmt::format("latency-floor is {} s, must be from 0 to below 1 s", http->latency_floor));
  }
  if (http && !(http->connections >= 1 && http->connections <= 1000)) {
    return InvalidInput(fmt::format("connections: {} is not from 1 to 1000", http->connections));
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
  Audit audit;
  std::vector<std::string> unchecked;
  const bool white_box =
      options.attacks.empty() || std::ranges::count(options.attacks, AuditAttack::kWhiteBox) > 0;
  if (ensemble.manifest().private_run && white_box && !options.url) {
    LUCID_ASSIGN(audit.checks,
                 CheckPrivateRun(run, {ensemble.manifest(), ensemble.network()}, train,
                                 options.reference, unchecked, progress, stop));
  }
  LUCID_ASSIGN(Auditor auditor,
               Auditor::Create(run, ensemble, train, test, options, progress, std::move(stop)));
  LUCID_TRY(options.url ? auditor.AttackUrl() : auditor.AttackAll());
  const auto claims = std::ranges::count_if(
      auditor.record().rows, [](const AuditRow& row) { return !std::isnan(row.claimed); });
  if (claims > kMostClaims) {
    return InvalidInput(
        fmt::format("{} claims are more than the {} that share one level: audit fewer at a time",
                    claims, kMostClaims));
  }
  audit.run = run;
  audit.version = Version();
  audit.run_key = ensemble.manifest().run_key;
  LUCID_ASSIGN(audit.guards_digest, GuardsDigestOf(run, options.certificate));
  audit.rows = auditor.record().rows;
  audit.left_out = std::move(unchecked);
  const std::vector<std::string>& left_out = auditor.record().left_out;
  audit.left_out.insert(audit.left_out.end(), left_out.begin(), left_out.end());
  return audit;
}

}  // namespace lucid
