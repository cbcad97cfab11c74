// Attacks on label-only access: does it hold what it claims?
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/baselines/evaluation.h"
#include "lucid/data/dataset.h"
#include "lucid/guard/mechanism.h"

namespace lucid {

// All attacks but the last play the game of the theorem: for a training row i a coin decides
// whether the access answers from N or from N_-i, the network trained without it, and the attacker,
// who knows the row, guesses which. The noised region is that of the deployed guard in both worlds.
enum class Attack {
  kGap,            // in iff the row gets its label
  kNoise,          // share of noisy copies of the row that get its label
  kBoundary,       // how far the label reaches along random directions (HopSkipJump's measure)
  kDistinguisher,  // asks where N and N_-i disagree; possible only for who has both
  kAveraging,      // the same with the majority of near-duplicates
  kTiming,         // no game: is a noised input told from another one by the time it takes?
};
std::string_view NameOf(Attack attack);  // "gap", "noise", "boundary", "distinguisher", ...
Result<Attack> AttackNamed(std::string_view name);
std::span<const Attack> AllAttacks();

struct AuditOptions {
  std::vector<Attack> attacks;  // empty: all
  // Of kNone, kScalar, kSpatial, kExact, kNaiveNoise. Empty: those whose files the run has.
  std::vector<Method> accesses;
  std::vector<double> epsilons = {0, 1};
  MechanismKind mechanism = MechanismKind::kPaper;
  std::string certificate;       // empty: RUN/certificate.json
  std::int64_t targets = 500;    // rows that are attacked, at most
  std::int64_t duplicates = 51;  // of kAveraging
  std::uint64_t seed = 0;        // of what the attacker draws; noise is never seeded

  Status Validate() const;
};

struct AuditRow {
  Attack attack = Attack::kGap;
  Method access = Method::kNone;
  double epsilon = 0;                            // per query; NaN: unguarded
  std::int64_t queries = 0;                      // that one guess may take
  std::int64_t trials = 0;                       // guesses in each world
  double auc = 0;                                // of the scores; 1/2: no better than a coin
  double advantage = 0;                          // max |TPR - FPR| over thresholds
  double tpr_at_fpr_01 = 0, tpr_at_fpr_001 = 0;  // at 1 % and 0.1 %
  // With confidence 1 - kAuditRisk no mechanism with a smaller epsilon gives such guesses. The
  // threshold is chosen on one half of the trials and judged on the other. NaN for kTiming.
  double epsilon_lower = 0;
  double claimed = 0;  // queries * epsilon; NaN: nothing is claimed
  bool holds = true;   // epsilon_lower <= claimed, or nothing is claimed
  double welch_t = 0;  // kTiming's; NaN otherwise
};

// That a row wrongly says "does not hold".
inline constexpr double kAuditRisk = 1e-6;

struct Audit {
  std::string run, version;
  std::vector<std::string> command;
  Digest run_key;
  std::vector<AuditRow> rows;
  std::vector<std::string> left_out;  // one line each

  bool Holds() const;  // every row
};

// Requires: `train` are the run's training rows, checked against its manifest. Access is in this
// process. Errors: options; files that are missing (only if asked for by name), damaged or of
// another run; kInterrupted.
Result<Audit> RunAudit(const std::string& run, const Table& train, const AuditOptions& options,
                       const ProgressCallback& progress = {}, std::stop_token stop = {});

std::string AuditJson(const Audit& audit);
std::string AuditText(const Audit& audit);

inline constexpr const char* kAuditFile = "audit.json";

}  // namespace lucid
