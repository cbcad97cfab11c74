// A network as it answers: labels only.
#pragma once

#include <cstdint>
#include <span>

#include "guard/packed_networks.h"
#include "lucid/nn/network.h"

namespace lucid {

// The labels that one network gives. It runs the forward pass that guards run, so that the access
// times of an evaluation can be compared. For one thread.
class NetworkLabels {
 public:
  static Result<NetworkLabels> Of(const Network& network) {
    NetworkLabels labels(network.architecture);
    LUCID_TRY(labels.network_.Set(0, network.parameters));
    return labels;
  }
  std::int32_t operator()(std::span<const float> x) const {
    network_.SetInput(x, memory_);
    return LabelOf(network_.Logits(0, memory_));
  }

 private:
  explicit NetworkLabels(const Architecture& architecture) : network_(architecture, 1) {}
  PackedNetworks network_;
  mutable PassMemory memory_;
};

}  // namespace lucid
