// Networks for the tests of hyper-networks and of bounds over them.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "ensemble/members.h"
#include "pair/hyper_network.h"
#include "random/stream.h"

namespace lucid {

// Parameters are multiples of this: what a network computes at an input that is a multiple of 2^-10
// is then a multiple of 2^-(10 + 17 layers), which fits the 113 bits of Exact exactly up to
// five layers and values of 2^18.
inline constexpr double kParameterGrid = 0x1p-17;

inline float OnGrid(double value) {
  return static_cast<float>(std::round(value / kParameterGrid) * kParameterGrid);
}

inline Network RandomNetwork(const Architecture& architecture, Stream& stream) {
  Network network{architecture, {}};
  for (std::int64_t i = 0; i < architecture.parameters(); ++i) {
    network.parameters.push_back(OnGrid(stream.Uniform(-1, 1)));
  }
  return network;
}

// Every parameter moved by at most `distance`.
inline Network NearTo(const Network& network, double distance, Stream& stream) {
  Network near = network;
  for (float& p : near.parameters) p = OnGrid(p + stream.Uniform(-distance, distance));
  return near;
}

inline std::vector<Network> RandomMembers(const Network& network, int count, double distance,
                                          Stream& stream) {
  std::vector<Network> members;
  members.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) members.push_back(NearTo(network, distance, stream));
  return members;
}

// A network inside: each parameter on the grid of its interval, a quarter of them at either end.
inline Network RandomInside(const HyperNetwork& hyper, Stream& stream) {
  Network network{hyper.architecture(), {}};
  for (std::size_t i = 0; i < hyper.lower().size(); ++i) {
    const double low = hyper.lower()[i], high = hyper.upper()[i];
    const double place = std::clamp(stream.Uniform(-0.5, 1.5), 0.0, 1.0);
    network.parameters.push_back(OnGrid(low + place * (high - low)));
  }
  return network;
}

inline Subset Everyone(const Members& members) {
  Subset all;
  for (std::int32_t i = 0; i < members.count(); ++i) all.push_back(i);
  return all;
}

}  // namespace lucid
