// Naive-iDP, the paper's reference: every network of the run looks at every input.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/data/dataset.h"

namespace lucid {

class Ensemble;

// What an access makes of one input before anything is drawn.
struct AccessDecision {
  std::int32_t label = 0;  // N's
  bool noised = false;     // the mechanism answers
  bool operator==(const AccessDecision&) const = default;
};

// Noised iff some leave-one-out network gives another label than N. No bound and no index has a
// part in it: what the exact guard must equal on every input, and the floor of what any guard can
// noise. Immutable, thread-safe; holds no reference to the ensemble. Memory: 4 bytes per parameter
// of all members.
class NaiveIdp {
 public:
  // threads: 0 means all cores. Errors: a parameter that is not finite.
  static Result<NaiveIdp> Create(const Ensemble& ensemble, int threads = 0);
  ~NaiveIdp();
  NaiveIdp(NaiveIdp&&) noexcept;
  NaiveIdp& operator=(NaiveIdp&&) noexcept;

  // Runs all networks, whatever the first ones say: the paper's access. Requires: x.size() ==
  // inputs.
  AccessDecision Decide(std::span<const float> x) const;

  // Equal to Decide on each row, and much faster: rows go together through each member, and leave
  // once one disagrees. Errors: kInterrupted.
  Result<std::vector<AccessDecision>> DecideAll(const Table& table, int threads = 0,
                                                const ProgressCallback& progress = {},
                                                std::stop_token stop = {}) const;

 private:
  struct Impl;
  explicit NaiveIdp(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace lucid
