// Spatial bounds: the domain cut into boxes where it helps inputs like the training data.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/task_team.h"
#include "ensemble/members.h"
#include "lucid/certificate/proof.h"
#include "lucid/data/domain.h"
#include "lucid/native/bound.h"
#include "lucid/nn/network.h"

namespace lucid {

// With so few inputs, boxes can be small all along N's boundary. Rows of data are too few there to
// say where the next input will be, so that random inputs of the whole domain guide, too.
inline bool GuidesFillDomain(const Domain& domain) { return domain.features() <= 2; }

struct SpatialSearchOptions {
  std::int64_t leaves = 4096;
  double seconds = 30;  // of work (base/work_clock.h)
  int threads = 0;      // 0: all cores; the answer does not depend on it, unless time runs out
  std::stop_token stop;
  TaskTeam* team = nullptr;  // processes that share the work; they do not show in the answer either
  // Told how many guiding inputs were there and how many still are above their bound. Optional.
  std::function<void(std::int64_t all, std::int64_t waiting)> report;
};

// What one class's search is about.
struct SpatialQuestion {
  std::int32_t label = 0;
  double beta_upper = 0;  // proved for the whole domain
  double member_error = 0;
  std::span<const ProofClosing> claims;  // about the whole domain, as BoundEachMember gives them
  bool flat = false;                     // the hidden layer is the engine's own
};

// A tree of boxes for one class, and claims about them. Ensures: the claims are true and show, with
// beta_upper, bounds that are good for the guides (TreeOf), whatever ended the search. `guides`
// (rows x inputs) say where bounds should be tight: at inputs that N gives the class, that a guard
// would noise by beta_upper, and that no member gives another label.
// Errors: of a team.
Result<BoxProof> SearchSpatialBounds(const Network& network, const Members& members,
                                     const Domain& domain, const SpatialQuestion& question,
                                     std::span<const float> guides,
                                     const SpatialSearchOptions& options);

}  // namespace lucid
