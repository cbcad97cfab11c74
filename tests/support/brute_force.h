// The labels of N and of every member of an ensemble, by running all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "lucid/ensemble/ensemble.h"
#include "lucid/nn/network.h"

namespace lucid {

class BruteForce {
 public:
  explicit BruteForce(const Ensemble& ensemble) : network_(ensemble.network()) {
    for (std::int64_t i = 0; i < ensemble.members(); ++i) members_.emplace_back(ensemble.Member(i));
  }
  const Evaluator& network() const { return network_; }
  const std::vector<Evaluator>& members() const { return members_; }
  bool AnyMemberDisagrees(std::span<const float> x) const {
    const std::int32_t label = network_.Decide(x).label;
    return std::ranges::any_of(
        members_, [&](const Evaluator& member) { return member.Decide(x).label != label; });
  }

 private:
  Evaluator network_;
  std::vector<Evaluator> members_;
};

}  // namespace lucid
