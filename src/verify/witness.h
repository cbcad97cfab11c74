// The best leaking input seen during a search.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "hyper/members.h"
#include "lucid/certificate/certificate.h"
#include "lucid/nn/network.h"

namespace lucid {

// Thread-safe.
class WitnessKeeper {
 public:
  WitnessKeeper(const Network& network, const Members& members, std::int32_t label,
                double beta_lower, std::optional<Witness> witness);

  // Looks at the input in the columns `input` of an LP's point (rounded to float32, clamped to
  // [0,1]) with a few members of `subset`. Returns the confidence of N there if one of them gives
  // another label, otherwise -inf: the value of a feasible point of the subset's MILP. A witness
  // that beats the best is kept; it is certified by the forward errors, so that exact f >=
  // beta_lower and exact g <= 0. The result depends on the arguments alone.
  double Try(std::span<const double> point, std::span<const std::int32_t> input,
             const Subset& subset);

  double beta_lower() const;
  std::optional<Witness> best() const;

 private:
  const Evaluator network_;
  const Members& members_;
  const std::int32_t label_;
  mutable std::mutex mutex_;
  double beta_lower_;               // under mutex_
  std::optional<Witness> witness_;  // under mutex_
};

// f or g: output `label` minus the largest other one; negative if another class is larger.
double SignedConfidence(const Evaluator& evaluator, std::span<const float> x, std::int32_t label);

}  // namespace lucid
