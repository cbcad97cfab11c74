// Is a certificate to be believed? Checks that share no code with the engines that make one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// One question and its answer. What was not looked at is never kPassed.
struct Check {
  enum class Outcome { kPassed, kFailed, kNotDone };
  std::string name;  // "run key", "witness of class 1", ...
  Outcome outcome = Outcome::kNotDone;
  std::string detail;  // what was found, in one line; empty if the name says it all
};
std::string_view NameOf(Check::Outcome outcome);  // "passed", "failed", "not done"

struct CheckReport {
  std::vector<Check> checks;

  // Every check was done and passed, and there was at least one.
  bool accepted() const;
  // The first check that failed; if none did, the first that was not done; if all were done, null.
  const Check* FirstProblem() const;
};

struct CheckOptions {
  int threads = 0;  // 0: all cores; same answer for any number
};

// Does the certificate belong to this run, and is it consistent? Digests of everything it names,
// rows and members, classes, N's forward error to the bit, a members' error that covers every
// member, and witnesses that name a member and row of the ensemble and an input of the domain.
// Says nothing about whether a bound is true. Cost: a pass over all parameters.
// Errors: kInterrupted.
Result<CheckReport> CheckBinding(const Certificate& certificate, const Ensemble& ensemble,
                                 const CheckOptions& options = {},
                                 const ProgressCallback& progress = {}, std::stop_token stop = {});
// The same from the folder, whose files are checked against their digests first: a run that is not
// whole (kMismatch of Ensemble::Open) is a failed check, one that cannot be read an error.
Result<CheckReport> CheckBinding(const Certificate& certificate, const std::string& run,
                                 const CheckOptions& options = {},
                                 const ProgressCallback& progress = {}, std::stop_token stop = {});

// Of the files in the run's folder that guards trust because the certificate names them, and of
// their proofs: are they the files that it names?
std::vector<Check> CheckFiles(const Certificate& certificate, const std::string& run);

struct FalsifyOptions {
  std::uint64_t seed = 0;
  std::int64_t starts = 6000;  // points the search begins at; time grows in proportion
  int threads = 0;             // 0: all cores; same answer for any number

  Status Validate() const;
};

// An input that N gives class `label` and a member does not, confirmed in exact arithmetic.
struct Leak {
  std::int32_t label = 0;
  Witness witness;
  double confidence = 0;  // f(x), rounded down
};

struct FalsifyReport {
  // "witness of class c": f and g there, exactly. "search of class c": nothing above the bound.
  CheckReport checks;
  // The largest confidence the search came upon, per class, without help from the certificate: how
  // much of beta_upper is real.
  std::vector<std::optional<Leak>> largest;
  std::vector<Leak> leaks;   // above beta_upper: the certificate is false
  std::int64_t points = 0;   // inputs that were given to all members
  std::int64_t ascents = 0;  // local searches
};

// Tries to prove the certificate wrong: evaluates its witnesses in rational arithmetic, and
// searches all members for an input with N's label c, f(x) > beta_upper and some g_i(x) <= 0.
// Finding none proves nothing; what is found is certain. Deterministic.
// Requires: CheckBinding accepted it for this ensemble (kMismatch if sizes do not fit).
// Errors: kInvalidInput (options), kInterrupted.
Result<FalsifyReport> Falsify(const Certificate& certificate, const Ensemble& ensemble,
                              const FalsifyOptions& options = {},
                              const ProgressCallback& progress = {}, std::stop_token stop = {});

// Is the proof in this file, or in these files together, one of the certificate's bounds?
// Recomputes every claim with outward rounding, from the weights of the run and the multipliers of
// the file, of which none is believed: "proof file": it is whole, sealed, and of this certificate
// and run. "witness of class c": as in Falsify. "proof of class c": its regions cover the domain,
// every claim about them is true, and together they show for every pair of a member and another
// class that it does not leak above beta_upper. Passed also for a class whose beta_upper is +inf,
// which claims nothing; not done for a class that the file has no proof of. What failed names the
// node. Memory: about 150 bytes a split and 40 a closing, and a block of the file per thread.
// Requires: CheckBinding accepted the certificate for this ensemble (kMismatch if sizes do not
// fit). Errors: kIo (the file cannot be read), kInterrupted.
Result<CheckReport> CheckProof(const Certificate& certificate, const Ensemble& ensemble,
                               const std::string& proof, const CheckOptions& options = {},
                               const ProgressCallback& progress = {}, std::stop_token stop = {});
Result<CheckReport> CheckProof(const Certificate& certificate, const Ensemble& ensemble,
                               std::span<const std::string> proofs,
                               const CheckOptions& options = {},
                               const ProgressCallback& progress = {}, std::stop_token stop = {});

// Are the bounds in the files that guards read (spatial bounds, index of members) proved? Of every
// file in the run's folder that the certificate names: it and its proof are the files named, every
// claim of the proof is true, and together they show every bound in the file; those of spatial
// boxes may rest on the certificate's beta_upper, which CheckProof is asked about. Not done for a
// file without a proof. Requires: as CheckProof. Errors: kIo, kInterrupted.
Result<CheckReport> CheckGuardProofs(const Certificate& certificate, const Ensemble& ensemble,
                                     const std::string& run, const CheckOptions& options = {},
                                     const ProgressCallback& progress = {},
                                     std::stop_token stop = {});

}  // namespace lucid
