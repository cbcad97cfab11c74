// The iDP-DB of every class of a run as the paper computes it: `lucid bound --engine milp`.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/native/bound.h"

namespace lucid {

// The paper's system and the variants of its ablation study (section 7, Table 4).
enum class Variant {
  kNaive,  // a MILP for every member; nothing is known before the last one is solved
  kH,      // one hyper-network of all members
  kHM,     // + matching dependencies
  kHMRiS,  // + relax-if-similar
  kHMB,    // matching dependencies and the branch and bound over subsets
  kFull,   // all of it: LUCID-Compute
};
inline constexpr Variant kVariants[] = {Variant::kNaive, Variant::kH,   Variant::kHM,
                                        Variant::kHMRiS, Variant::kHMB, Variant::kFull};
std::string_view NameOf(Variant variant);  // "naive", "H", "HM", "HMRiS", "HMB", "full"
Result<Variant> VariantNamed(std::string_view name);

bool UsesHyperNetwork(Variant variant);
bool UsesMatchingDependencies(Variant variant);
bool UsesRelaxIfSimilar(Variant variant);
bool UsesBranchAndBound(Variant variant);

// engine "milp": the paper's.
struct MilpBoundOptions {
  BoundOptions common;
  Variant variant = Variant::kFull;
  double tau = 0.01;  // relax-if-similar: the largest difference interval that counts as similar
  double subset_limit = 40 * 60.0;  // seconds for one MILP
  bool tighten = false;             // neuron bounds of the whole domain by linear programs, too

  Status Validate(std::int32_t classes) const;
  std::string Canonical() const;
};

// The paper's LUCID-Compute (Algorithm 1) for every class. Ensures: the bounds of the certificate
// are proved (see ClassBound) whatever the solver did; a deadline or a stop gives looser ones with
// status kDeadline, never an error. With the same options, any number of threads and processes (of
// common.team, which run HelpCertify) gives the same bounds and counters as long as no limit is
// reached. Killed at any moment, it loses the MILPs in flight.
// Errors: options out of range; a journal of other options or of another run; no HiGHS.
Result<Certificate> ComputeBoundsByMilp(const Ensemble& ensemble, const MilpBoundOptions& options,
                                        const ProgressCallback& progress = {},
                                        std::stop_token stop = {});

}  // namespace lucid
