// A network whose parameters are intervals: it stands for every network inside (Definition 5.1).
#pragma once

#include <span>
#include <vector>

#include "ensemble/members.h"
#include "lucid/nn/network.h"

namespace lucid {

class HyperNetwork {
 public:
  // The single network itself: every interval is a point.
  explicit HyperNetwork(const Network& network);
  // The hyper-network of all members of a subset that is not empty.
  static HyperNetwork Of(const Members& members, const Subset& subset);

  // Widens the intervals to contain these parameters. Exact: floats are only compared.
  void Include(std::span<const float> parameters);
  bool Contains(std::span<const float> parameters) const;

  const Architecture& architecture() const { return architecture_; }
  // In the order of Network::parameters; lower()[i] <= upper()[i].
  std::span<const float> lower() const { return lower_; }
  std::span<const float> upper() const { return upper_; }

 private:
  Architecture architecture_;
  std::vector<float> lower_, upper_;
};

}  // namespace lucid
