// Attacks on label-only access: does it hold what it claims?
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/base/team.h"
#include "lucid/data/dataset.h"
#include "lucid/evaluation/evaluation.h"
#include "lucid/guard/mechanism.h"

namespace lucid {

enum class AuditAttack {
  kGap,            // in iff the row gets its label
  kNoise,          // share of noisy copies of the row that get its label
  kBoundary,       // how far the label reaches along random directions (HopSkipJump's measure)
  kDistinguisher,  // asks where N and N_-i disagree; possible only for who has both
  kAveraging,      // the same with the majority of near-duplicates
  kTiming,         // no game: is a noised input told from another one by the time it takes?
  kWhiteBox,       // no game: exact probabilities of answers where a member disagrees with N
  kRegion,         // asks where one of two services noises and the other does not; possible only
                   // for who can make both
};
std::string_view NameOf(AuditAttack attack);  // "gap", "noise", "boundary", "distinguisher", ...
Result<AuditAttack> AttackNamed(std::string_view name);
std::span<const AuditAttack> AllAttacks();

// The two worlds that the attacker, who knows a row, must tell apart.
enum class World {
  // The theorem's: answers come from N, or from N_-i, the network trained without the row. The
  // noised region is that of the deployed guard in both.
  kLeaveOneOut,
  // For information, of the exact guard: as kLeaveOneOut, but the service without row i was
  // certified anew, so that its region is another one. Networks without two rows are not trained:
  // the logits of the one without i and j are taken to be those of N_-i plus N_-j minus N.
  kRecertified,
  // One network; the row is one that it was trained on, or a test row. Says what it should only if
  // both are drawn from one distribution.
  kTrainTest,
  // Trained baselines: two networks, trained anew by the same algorithm with the row and without.
  kRetrained,
  // Two real services: with the unit in the training data and without it, each made anew with
  // secrets and keys of its own. The promise `full` is about this.
  // Of a run that is not private the other one is trained and certified anew from the data without
  // the unit's rows, and the attacker can do that, too: `labels` does not cover it.
  kDeployed,
};
std::string_view NameOf(World world);  // "leave-one-out", "re-certified", "train-test", ...
Result<World> WorldNamed(std::string_view name);

// Access over HTTP, beside that in this process: `lucid serve` itself, on a free port of loopback.
struct HttpAuditOptions {
  double latency_floor = 0;  // seconds; above 0: kTiming is also played against this floor
  // So many connections ask at once while kTiming is played: one is timed, the others keep the
  // server busy.
  std::int64_t connections = 1;
  // What the served guard charges at an epsilon above 0: a ledger in PostgreSQL, of whose database
  // no other one is of this population. It is made here. Empty: a file that goes with the audit.
  std::string ledger = {};
};

// A server that somebody else runs, asked instead of all other accesses.
struct UrlAuditOptions {
  std::string url;      // http://HOST:PORT
  std::string api_key;  // empty: none
};

struct AuditOptions {
  std::vector<AuditAttack> attacks;  // empty: all
  // Which worlds are played; empty: all but kRetrained and kDeployed, which are played if their
  // numbers below are above 0.
  std::vector<World> games;
  // Empty: those whose files the run has, without kNaiveIdp, which takes minutes.
  std::vector<Method> accesses;
  std::vector<double> epsilons = {0, 1};
  MechanismKind mechanism = MechanismKind::kPaper;
  std::string certificate;       // empty: RUN/certificate.json
  std::int64_t targets = 500;    // rows that are attacked, at most
  std::int64_t duplicates = 51;  // of kAveraging
  std::int64_t retrained = 0;    // rows whose pair of networks kRetrained trains; 0: not played
  // Pairs of services that kDeployed makes; 0: not played. Of a run that is not private one for
  // each target at most.
  std::int64_t deployed = 0;
  std::string scratch;             // an existing folder for what `http` and kDeployed write
  std::optional<Table> reference;  // the rows that a run's declared bounds are made from
  std::optional<HttpAuditOptions> http;
  std::optional<UrlAuditOptions> url;
  std::uint64_t seed = 0;  // of what the attacker draws; noise is never seeded
  int threads = 0;         // 0: all cores. Games are played on one
  // Processes that share the search for disagreements and label changes, the exact guard's region
  // without a row, all trainings, and the making of reduced worlds, with HelpAudit; null: none.
  Team* team = nullptr;

  Status Validate() const;
  bool Plays(World world) const;
};

struct AuditRow {
  AuditAttack attack = AuditAttack::kGap;
  std::string access;          // a method's name, "exact over http", or a URL
  std::optional<World> world;  // none for kTiming
  double epsilon = 0;  // per query; of training for kDpSgd and kAlibi; NaN: unguarded, or unknown
  double delta = 0;    // beside epsilon; 0 but for kDpSgd and kDeployed
  std::int64_t queries = 0;                      // that one guess may take
  std::int64_t trials = 0;                       // guesses in each world
  double auc = 0;                                // of the scores; 1/2: no better than a coin
  double advantage = 0;                          // max |TPR - FPR| over thresholds
  double tpr_at_fpr_01 = 0, tpr_at_fpr_001 = 0;  // at 1 % and 0.1 %
  // With confidence 1 - kRowRisk no mechanism with a smaller epsilon (and this delta) gives such
  // guesses. The threshold is chosen on one half of the trials and judged on the other. Of
  // kWhiteBox it is the loss itself, +inf where a label was not noised. NaN for kTiming.
  double epsilon_lower = 0;
  // What epsilon_lower may not exceed: queries * epsilon of an access that draws for every query,
  // epsilon of a network trained by DP-SGD. NaN: nothing is claimed (unguarded access, label-DP,
  // time, a guard's region in kTrainTest and kRecertified).
  double claimed = 0;
  // What a bettor against the claim has made of 1, at the best moment: guess by guess he bets that
  // the one in the world "in" scores higher than (epsilon, delta) allows. At least 1 / kRowRisk has
  // a probability of at most kRowRisk if the claim is true, however long is played (Ville). Where
  // no promise covers the world he bets against epsilon 0, to say whether the attacker wins. NaN:
  // another game without a claim, or one whose guesses share a network.
  double e_value = 0;
  // epsilon_lower <= claimed and e_value < 1 / kRowRisk, or nothing is claimed.
  bool holds = true;
  double welch_t = 0;  // kTiming's; NaN otherwise

  // A world that the access's promise says nothing about: `labels` in kDeployed.
  bool not_covered() const;
  // No promise covers the world, and the attacker wins in it: a bettor against chance has made
  // 1000 of 1.
  bool lost() const { return not_covered() && e_value >= 1000; }
};

// A fact that a run rests on, computed again. No game is played for it.
struct AuditCheck {
  std::string check;            // "replay", "contribution", "coins", "noise", "sigma", "bounds"
  std::string claim, measured;  // in words
  bool holds = true;
};

// The probability that an audit wrongly says "does not hold", over all its rows and checks: half of
// it is for games (at most kMostClaims rows with two tests each), half for the coins and the noise
// of training.
inline constexpr double kAuditRisk = 1e-6;
inline constexpr std::int64_t kMostClaims = 250;
inline constexpr double kRowRisk = kAuditRisk / 4 / static_cast<double>(kMostClaims);

struct Audit {
  std::string run, version;
  std::vector<std::string> command;
  Digest run_key;
  std::optional<Digest> guards_digest;  // GuardsDigest of the certificate, if there was one
  std::vector<AuditCheck> checks;       // of a private run
  std::vector<AuditRow> rows;
  std::vector<std::string> left_out;  // one line each
  std::vector<std::string> notes;     // the same of how games were played

  bool Holds() const;  // every row and every check
};

// Requires: `train` are the run's training rows, checked against its manifest; `test` rows of the
// same schema, perhaps none: then kTrainTest is left out. Networks of kDpSgd and kAlibi are taken
// from RUN/baselines, or trained and kept there.
// Errors: options; files that are missing (only if asked for by name), damaged or of another run;
// a server that is away, refuses the key or the rate (one line); kInterrupted.
Result<Audit> RunAudit(const std::string& run, const Table& train, const Table& test,
                       const AuditOptions& options, const ProgressCallback& progress = {},
                       std::stop_token stop = {});

// The part of a helper in `team` while rank 0 audits the same run with the same rows. `scratch`: an
// existing folder for worlds that it makes. Returns when rank 0 has ended. Requires: not rank 0.
// Errors: a run, rows or a program that are not those of rank 0.
Status HelpAudit(const std::string& run, const Table& train, const Table& test,
                 const std::string& scratch, Team& team, int threads, std::stop_token stop = {});

std::string AuditJson(const Audit& audit);
// `colour`: what does not hold, and what no promise covers, is red on a terminal.
std::string AuditText(const Audit& audit, bool colour = false);
// Reads back what AuditJson wrote. Errors name the source and the field.
Result<Audit> ParseAudit(std::string_view text, const std::string& source);

inline constexpr const char* kAuditFile = "audit.json";

}  // namespace lucid
