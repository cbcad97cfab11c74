// What shows the bounds in the files that guards read: claims that the checker's own code has
// agreed to, as the records of a proof (docs/proof.md).
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/task_team.h"
#include "check/claim_checker.h"
#include "lucid/base/result.h"
#include "lucid/certificate/spatial.h"
#include "lucid/data/domain.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/native/bound.h"
#include "pair/region_bounder.h"

namespace lucid {

// The claim of a bound that RegionBounder::Bound found: by the rules' lines, or by `dual`. `flat`:
// the hidden layer is the engine's own, and the checker needs no multipliers. `bound` becomes what
// the claim's numbers give, its value that of the claim: with room for the checker's rounding,
// perhaps +inf.
ProofClosing ClaimByLines(RegionBounder& bounder, const PairFacts& facts, std::int32_t member,
                          const PairQuestion& asked, const Multipliers& multipliers,
                          std::vector<float> dual, bool flat, ChargedBound& bound);

// Asks the checker's own code about every claim of a class. A claim gets the value that it finds if
// that is larger, and is dropped if it finds none. What is left is in order of nodes, members and
// classes. Requires: splits with parents before their children, of inputs. `team`: processes that
// share the work, or null. Errors: kInterrupted; of a team.
Status ConfirmClaims(const Ensemble& ensemble, const Domain& domain, std::int32_t label,
                     double member_error, int threads, const std::stop_token& stop, BoxProof& proof,
                     TaskTeam* team = nullptr);

// What a thread needs to ask the checker's code.
struct ClaimWorker {
  // Keeps both.
  ClaimWorker(const Network& network, const Domain& domain)
      : checker(network, &domain), parameters(network.parameters.size()) {}
  ClaimChecker checker;
  std::vector<float> parameters;
};

// A helper's part of it: reads some claims and writes what the checker's code says of them. False:
// that was no question.
bool AnswerClaims(const Ensemble& ensemble, const Domain& domain, std::int32_t label,
                  double member_error, ClaimWorker& worker, ByteCursor& in, std::string& out);

// The bounds of boxes that the claims of a class show if each is true: of every box, for every pair
// the least value that is claimed of it or of a box around it, or beta_upper.
SpatialBounds::Tree TreeOf(const BoxProof& proof, std::int64_t members, std::int64_t classes,
                           std::int32_t label, double beta_upper);

}  // namespace lucid
