// N and the members as the native engine takes them: networks with at least one hidden layer.
#pragma once

#include <memory>

#include "ensemble/members.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/nn/network.h"

namespace lucid {

// A network without hidden layers is given one that computes relu(x), which is x on [0,1]^d: the
// same function, to the bit, with one unit per input. Any other network stays as it is.
Architecture WithHiddenLayer(const Architecture& architecture);
// Requires: `parameters` are of `architecture`; out.size() is that of
// WithHiddenLayer(architecture).
void CopyWithHiddenLayer(const Architecture& architecture, std::span<const float> parameters,
                         std::span<float> out);

// Keeps a reference to the ensemble.
class EngineNetworks {
 public:
  explicit EngineNetworks(const Ensemble& ensemble);
  const Network& network() const { return network_; }
  const Members& members() const { return *members_; }

 private:
  Network network_;
  std::unique_ptr<const Members> members_;
};

}  // namespace lucid
