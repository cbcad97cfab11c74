#include "ensemble/members.h"

#include <algorithm>

namespace lucid {

Network Members::Member(std::int64_t member) const {
  Network network{architecture(), {}};
  network.parameters.resize(static_cast<std::size_t>(network.architecture.parameters()));
  CopyParameters(member, network.parameters);
  return network;
}

void MemoryMembers::CopyParameters(std::int64_t member, std::span<float> out) const {
  std::ranges::copy(networks_[static_cast<std::size_t>(member)].parameters, out.begin());
}

}  // namespace lucid
