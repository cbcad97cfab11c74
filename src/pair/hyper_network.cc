#include "pair/hyper_network.h"

#include <algorithm>

namespace lucid {

HyperNetwork::HyperNetwork(const Network& network)
    : architecture_(network.architecture), lower_(network.parameters), upper_(network.parameters) {}

HyperNetwork HyperNetwork::Of(const Members& members, const Subset& subset) {
  HyperNetwork hyper(members.Member(subset.front()));
  std::vector<float> parameters(hyper.lower_.size());
  for (const std::int32_t member : subset) {
    members.CopyParameters(member, parameters);
    hyper.Include(parameters);
  }
  return hyper;
}

void HyperNetwork::Include(std::span<const float> parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    lower_[i] = std::min(lower_[i], parameters[i]);
    upper_[i] = std::max(upper_[i], parameters[i]);
  }
}

bool HyperNetwork::Contains(std::span<const float> parameters) const {
  if (parameters.size() != lower_.size()) return false;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    // Written so that NaN lies nowhere.
    if (!(lower_[i] <= parameters[i] && parameters[i] <= upper_[i])) return false;
  }
  return true;
}

}  // namespace lucid
