#include "lucid/audit/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "audit/auditor.h"
#include "audit/private_checks.h"
#include "audit/recertified.h"
#include "audit/reduced_world.h"
#include "audit/white_box.h"
#include "base/parallel.h"
#include "base/task_team.h"
#include "evaluation/study_team.h"
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
  LUCID_ASSIGN(const auto helpers, GatherForStudy(options.team, ensemble.manifest(), stop));
  if (helpers) stop = helpers->stop();
  Audit audit;
  std::vector<std::string> unchecked;
  const bool white_box =
      options.attacks.empty() || std::ranges::count(options.attacks, AuditAttack::kWhiteBox) > 0;
  if (ensemble.manifest().private_run && white_box && !options.url) {
    LUCID_ASSIGN(audit.checks,
                 CheckPrivateRun(run, {ensemble.manifest(), ensemble.network()}, train,
                                 options.reference, unchecked, progress, stop));
  }
  LUCID_ASSIGN(Auditor auditor, Auditor::Create(run, ensemble, train, test, options, helpers.get(),
                                                progress, std::move(stop)));
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
  audit.notes = auditor.record().notes;
  return audit;
}

namespace {

// What a helper does of an audit's lists.
class AuditHelper {
 public:
  AuditHelper(const std::string& run, const Ensemble& ensemble, const Table& train,
              const Table& test, const std::string& scratch, int threads)
      : ensemble_(ensemble),
        train_(train),
        test_(test),
        scratch_(scratch),
        threads_(threads),
        study_(run, ensemble.manifest(), &train, threads) {}

  Status Begin(std::string_view topic, std::stop_token nobody_waits) {
    topic_ = topic;
    nobody_waits_ = nobody_waits;
    white_box_ = WhiteBoxTopic::Read(topic);
    if (white_box_ && white_box_->rows != TableDigest(test_)) {
      return Mismatch("the run's test rows here are not those of the leader");
    }
    if (StudyHelper::Serves(topic)) return study_.Begin(topic, std::move(nobody_waits));
    const bool known = white_box_ || topic == kDisagreementTopic || topic == kRecertifiedTopic ||
                       topic == kReducedWorldTopic;
    return known ? Ok() : Status(InternalError("the leader's tasks are not known here"));
  }
  Status Answer(ByteCursor& in, int worker, std::string& out) const {
    if (white_box_) return AnswerLabelChanges(ensemble_, white_box_->domain, test_, in, out);
    if (topic_ == kDisagreementTopic) return AnswerDisagreements(ensemble_, train_, in, out);
    if (topic_ == kRecertifiedTopic) {
      return AnswerNoisedWithoutRow(ensemble_, nobody_waits_, in, out);
    }
    if (topic_ == kReducedWorldTopic) {
      return AnswerReducedWorld(ensemble_.manifest(), train_, scratch_, threads_, nobody_waits_, in,
                                out);
    }
    return study_.Answer(in, worker, out);
  }

 private:
  const Ensemble& ensemble_;
  const Table &train_, &test_;
  const std::string& scratch_;
  const int threads_;
  StudyHelper study_;
  std::string topic_;
  std::stop_token nobody_waits_;
  std::optional<WhiteBoxTopic> white_box_;  // where the topic is that
};

}  // namespace

Status HelpAudit(const std::string& run, const Table& train, const Table& test,
                 const std::string& scratch, Team& team, int threads, std::stop_token stop) {
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run));
  if (!IsDigestOf(train, ensemble.manifest().train_digest)) {
    return Mismatch("the training rows are not those of the run: their digests differ");
  }
  AuditHelper helper(run, ensemble, train, test, scratch, EffectiveThreads(threads));
  const TeamService service{
      [&](std::string_view topic, std::stop_token nobody_waits) {
        return helper.Begin(topic, std::move(nobody_waits));
      },
      [&](ByteCursor& in, int worker, std::string& out) { return helper.Answer(in, worker, out); }};
  return HelpTaskTeam(team, SubjectOfStudy(ensemble.manifest()), threads, service, std::move(stop));
}

}  // namespace lucid
