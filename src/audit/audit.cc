#include "lucid/audit/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "audit/access.h"
#include "audit/attacks.h"
#include "audit/statistics.h"
#include "base/json_fields.h"
#include "baselines/guard_files.h"
#include "lucid/base/version.h"

namespace lucid {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNotApplicable = std::numeric_limits<double>::quiet_NaN();
constexpr Attack kAttacks[] = {Attack::kGap,           Attack::kNoise,     Attack::kBoundary,
                               Attack::kDistinguisher, Attack::kAveraging, Attack::kTiming};
constexpr std::string_view kAttackNames[] = {"gap",           "noise",     "boundary",
                                             "distinguisher", "averaging", "timing"};
constexpr Method kAccesses[] = {Method::kNone, Method::kScalar, Method::kSpatial, Method::kExact,
                                Method::kNaiveNoise};
// How often a target is asked with new keys where one guess costs one query.
constexpr int kKeys = 8;

struct Setting {
  const Labels& network;  // N
  const Table& train;
  std::span<const Target> targets;
  const AuditOptions& options;
  std::stop_token stop;
};

AuditRow NewRow(Attack attack, Method access, double epsilon, const AuditOptions& options) {
  AuditRow row;
  row.attack = attack;
  row.access = access;
  row.queries = QueriesOf(attack, options.duplicates);
  row.epsilon = access == Method::kNone ? kNotApplicable : epsilon;
  row.claimed = row.epsilon * static_cast<double>(row.queries);  // queries compose
  row.epsilon_lower = row.welch_t = kNotApplicable;
  return row;
}

void SetCurve(AuditRow& row, std::span<const double> in, std::span<const double> out) {
  row.trials = std::ssize(in);
  row.auc = AreaUnderCurve(in, out);
  row.advantage = LargestAdvantage(in, out);
  row.tpr_at_fpr_01 = TruePositivesAt(0.01, in, out);
  row.tpr_at_fpr_001 = TruePositivesAt(0.001, in, out);
}

// The game of the theorem, for every target in both worlds. Nothing if no target can be asked.
Result<std::optional<AuditRow>> Play(const Setting& setting, AuditedAccess& access, AuditRow row) {
  const bool cheap = row.attack == Attack::kGap || row.attack == Attack::kDistinguisher;
  std::vector<double> in, out;
  for (int key = 0; key < (cheap ? kKeys : 1); ++key) {
    for (const Target& target : setting.targets) {
      if (setting.stop.stop_requested()) return Interrupted("stopped on request");
      const auto score = [&](const Labels& network) {
        // The same questions in both worlds; only the answers differ.
        Stream stream(setting.options.seed, NameOf(row.attack),
                      static_cast<std::uint64_t>(target.row * kKeys + key));
        const auto ask = [&](std::span<const float> x) { return access.Ask(network, x); };
        return Score(row.attack, target, setting.network, setting.train, ask, stream);
      };
      const double score_in = score(setting.network);
      if (std::isnan(score_in)) continue;
      in.push_back(score_in);
      out.push_back(score(target.without));
    }
  }
  if (in.size() < 2) return std::optional<AuditRow>();
  SetCurve(row, in, out);
  row.epsilon_lower = EpsilonLowerBound(in, out, kAuditRisk);
  row.holds = std::isnan(row.claimed) || row.epsilon_lower <= row.claimed;
  return std::optional(row);
}

// Whoever times queries leaves out the few that the system held up: both samples end at the 99 %
// mark of all.
void CutOutliers(std::vector<double>& a, std::vector<double>& b) {
  std::vector<double> all = a;
  all.insert(all.end(), b.begin(), b.end());
  const auto mark = all.begin() + std::ssize(all) * 99 / 100;
  std::ranges::nth_element(all, mark);
  for (auto* sample : {&a, &b}) {
    for (double& time : *sample) time = std::min(time, *mark);
  }
}

// Times of noised inputs beside those of others, in turns. Nothing without some of each.
std::optional<AuditRow> TimeRegion(const Setting& setting, const Guard& guard, AuditRow row) {
  std::vector<std::vector<float>> noised, others;
  const auto sort_in = [&](std::span<const float> input) {
    std::vector<float> x(input.begin(), input.end());
    if (!guard.Canonicalize(x).ok()) return;
    (guard.Ask(x).noised ? noised : others).push_back(std::move(x));
  };
  for (const Target& target : setting.targets) {
    sort_in(setting.train.row(target.row));
    for (const std::vector<float>& x : target.disagreements) sort_in(x);
  }
  if (noised.empty() || others.empty()) return std::nullopt;
  constexpr int kTimes = 4000;
  std::vector<double> of_noised, of_others;
  std::int64_t labels = 0;  // used, so that no call is left out
  const auto time = [&](const std::vector<float>& x) {
    const auto start = std::chrono::steady_clock::now();
    labels += guard.Label(x);
    const std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - start;
    return spent.count();
  };
  for (std::size_t i = 0; i < kTimes; ++i) {
    of_noised.push_back(time(noised[i % noised.size()]));
    of_others.push_back(time(others[i % others.size()]));
  }
  SetCurve(row, of_noised, of_others);
  CutOutliers(of_noised, of_others);
  row.welch_t = labels >= 0 ? WelchT(of_noised, of_others) : kNotApplicable;
  row.claimed = kNotApplicable;
  return row;
}

Result<std::vector<Target>> Prepare(const Ensemble& ensemble, const Labels& network,
                                    const Table& train, const AuditOptions& options,
                                    const ProgressCallback& progress, const std::stop_token& stop) {
  const std::int64_t count = std::min(options.targets, ensemble.members());
  std::vector<Target> targets;
  for (std::int64_t i = 0; i < count; ++i) {
    if (stop.stop_requested()) return Interrupted("stopped on request");
    const std::int64_t member = i * ensemble.members() / count;  // evenly spaced
    LUCID_ASSIGN(Labels without, Labels::Of(ensemble.Member(member)));
    Stream stream(options.seed, "disagreements", static_cast<std::uint64_t>(member));
    auto disagreements = FindDisagreements(network, without, train, options.duplicates, stream);
    targets.push_back({ensemble.RowOf(member), std::move(without), std::move(disagreements)});
    if (progress) progress({"looking for disagreements", "rows", i + 1, count});
  }
  return targets;
}

std::string NumberOr(double value, const char* format, const char* otherwise) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : otherwise;
}

// All rows of one access at one epsilon.
Status Attacks(const Setting& setting, AuditedAccess& access, Method method, double epsilon,
               std::span<const Attack> attacks, Audit& audit) {
  for (const Attack attack : attacks) {
    const AuditRow empty = NewRow(attack, method, epsilon, setting.options);
    if (attack == Attack::kTiming) {
      if (!access.guard()) continue;  // no region to tell apart
      if (const auto row = TimeRegion(setting, *access.guard(), empty)) audit.rows.push_back(*row);
      continue;
    }
    LUCID_ASSIGN(const auto row, Play(setting, access, empty));
    if (row) {
      audit.rows.push_back(*row);
    } else {
      audit.left_out.push_back(
          fmt::format("{} on {}: no input was found on which N and a member "
                      "disagree",
                      NameOf(attack), NameOf(method)));
    }
  }
  return Ok();
}

}  // namespace

std::string_view NameOf(Attack attack) { return kAttackNames[static_cast<std::size_t>(attack)]; }

Result<Attack> AttackNamed(std::string_view name) {
  for (const Attack attack : kAttacks) {
    if (NameOf(attack) == name) return attack;
  }
  return InvalidInput(
      fmt::format("unknown attack '{}': use {}", name, fmt::join(kAttackNames, ", ")));
}

std::span<const Attack> AllAttacks() { return kAttacks; }

bool Audit::Holds() const {
  return std::ranges::all_of(rows, [](const AuditRow& row) { return row.holds; });
}

Status AuditOptions::Validate() const {
  for (const Method access : accesses) {
    if (!std::ranges::count(kAccesses, access)) {
      return InvalidInput(fmt::format(
          "audit attacks none, scalar, spatial, exact and naive-noise, not {}", NameOf(access)));
    }
  }
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
  return Ok();
}

Result<Audit> RunAudit(const std::string& run, const Table& train, const AuditOptions& options,
                       const ProgressCallback& progress, std::stop_token stop) {
  LUCID_TRY(options.Validate());
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run, progress));
  if (TableDigest(train) != ensemble.manifest().train_digest) {
    return Mismatch("the training rows are not those of the run: their digests differ");
  }
  Audit audit;
  audit.run = run;
  audit.version = Version();
  audit.run_key = ensemble.manifest().run_key;
  LUCID_ASSIGN(const Labels network, Labels::Of(ensemble.network()));
  LUCID_ASSIGN(const std::vector<Target> targets,
               Prepare(ensemble, network, train, options, progress, stop));
  const Setting setting{network, train, targets, options, stop};
  const std::span<const Attack> attacks =
      options.attacks.empty() ? AllAttacks() : std::span<const Attack>(options.attacks);
  const std::span<const Method> accesses =
      options.accesses.empty() ? std::span<const Method>(kAccesses) : options.accesses;
  for (const Method method : accesses) {
    const bool guarded = method != Method::kNone && method != Method::kNaiveNoise;
    if (guarded) {
      LUCID_ASSIGN(const GuardKind kind, GuardNamed(NameOf(method)));
      LUCID_ASSIGN(const auto missing, MissingGuardFile(run, options.certificate, kind));
      if (missing && !options.accesses.empty()) return InvalidInput(*missing);
      if (missing) {
        audit.left_out.push_back(*missing);
        continue;
      }
    }
    for (const double epsilon : options.epsilons) {
      if (progress) progress({"attacking", "rows", std::ssize(audit.rows), 0, 0, NameOf(method)});
      LUCID_ASSIGN(AuditedAccess access,
                   AuditedAccess::Open(run, options.certificate, method, options.mechanism, epsilon,
                                       ensemble.network().architecture.classes()));
      LUCID_TRY(Attacks(setting, access, method, epsilon, attacks, audit));
      if (method == Method::kNone) break;  // epsilon does not bear on it
    }
  }
  return audit;
}

std::string AuditJson(const Audit& audit) {
  Json json;
  json["lucid"] = audit.version;
  json["command"] = audit.command;
  json["run"] = audit.run;
  json["run_key"] = audit.run_key.Hex();
  json["risk"] = kAuditRisk;
  json["holds"] = audit.Holds();
  json["rows"] = Json::array();
  for (const AuditRow& row : audit.rows) {
    json["rows"].push_back({{"attack", NameOf(row.attack)},
                            {"access", NameOf(row.access)},
                            {"epsilon", NumberOrNull(row.epsilon)},
                            {"auc", row.auc},
                            {"advantage", row.advantage},
                            {"epsilon_lower", NumberOrNull(row.epsilon_lower)},
                            {"claimed", NumberOrNull(row.claimed)},
                            {"holds", row.holds},
                            {"tpr_at_fpr_0.01", row.tpr_at_fpr_01},
                            {"tpr_at_fpr_0.001", row.tpr_at_fpr_001},
                            {"queries", row.queries},
                            {"trials", row.trials},
                            {"welch_t", NumberOrNull(row.welch_t)}});
  }
  json["left_out"] = audit.left_out;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string AuditText(const Audit& audit) {
  std::string text =
      fmt::format("{:<13} {:<11} {:>7} {:>7} {:>6} {:>6} {:>9} {:>8} {:>8}  {}\n", "attack",
                  "access", "epsilon", "queries", "AUC", "adv", "eps >=", "claimed", "Welch t", "");
  for (const AuditRow& row : audit.rows) {
    const bool claims = !std::isnan(row.claimed);
    text +=
        fmt::format("{:<13} {:<11} {:>7} {:>7} {:>6.3f} {:>6.3f} {:>9} {:>8} {:>8}  {}\n",
                    NameOf(row.attack), NameOf(row.access), NumberOr(row.epsilon, "{}", "-"),
                    row.queries, row.auc, row.advantage, NumberOr(row.epsilon_lower, "{:.3f}", "-"),
                    NumberOr(row.claimed, "{}", "-"), NumberOr(row.welch_t, "{:.1f}", "-"),
                    claims ? (row.holds ? "holds" : "DOES NOT HOLD") : "no claim");
  }
  return text;
}

}  // namespace lucid
