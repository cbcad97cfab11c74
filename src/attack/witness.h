// The best leaking input seen during a search.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "ensemble/members.h"
#include "lucid/certificate/certificate.h"
#include "lucid/nn/network.h"

namespace lucid {

// Thread-safe.
class WitnessKeeper {
 public:
  WitnessKeeper(const Network& network, const Members& members, std::int32_t label,
                double beta_lower, std::optional<Witness> witness);

  // Rounds x to float32, clamps it to [0,1], and evaluates N and one member there. Keeps x if it
  // leaks more than the best one so far. The forward errors are taken into account, so that the
  // exact f is at least beta_lower and the exact g is at most 0.
  void Try(std::span<const double> x, std::int32_t member);

  // Takes over a certified one, if it is better.
  void Offer(double beta_lower, const std::optional<Witness>& witness);

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
