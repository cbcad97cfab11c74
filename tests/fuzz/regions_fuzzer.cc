// Any bytes as the open regions of a search, behind the journal's seal. What is accepted is a state
// that a search can go on with, and the only bytes of it up to the order of its heap.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "fuzz/require.h"
#include "verify/region_state.h"

namespace {

constexpr std::int64_t kMembers = 3;

void CheckNode(const lucid::RegionNode& node, const lucid::Architecture& architecture) {
  Require(static_cast<std::int64_t>(node.region.box.size()) == architecture.inputs());
  for (const lucid::Interval& side : node.region.box) {
    Require(0 <= side.lower && side.lower <= side.upper && side.upper <= 1);
  }
  for (const lucid::PhaseSplit& phase : node.region.phases) {
    Require(phase.layer >= 0 && phase.layer < std::ssize(architecture.layers()) - 1);
    Require(phase.unit >= 0 && phase.unit < architecture.layers()[phase.layer].outputs);
  }
  Require(!node.alive.empty());
  double largest = 0;
  for (const lucid::RegionPair& pair : node.alive) {
    Require(pair.member >= 0 && pair.member < kMembers);
    Require(pair.other >= 0 && pair.other < architecture.classes());
    Require(std::isfinite(pair.bound) && std::isfinite(pair.lambda) && pair.lambda >= 0);
    largest = std::max(largest, pair.bound);
  }
  Require(node.bound == largest);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto& architecture = *new lucid::Architecture(
      lucid::Architecture::FromCanonical("2 > dense 3 > dense 2 > 3").value());
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  lucid::RegionState state;
  if (!lucid::DecodeRegionState(bytes, architecture, kMembers, state).ok()) return 0;
  Require(state.closed >= 0 && state.regions >= 0 && state.bounds >= 0 && state.dropped >= 0);
  Require(std::is_heap(state.open.begin(), state.open.end()));
  for (const lucid::RegionNode& node : state.open) {
    Require(node.id < state.next_id);
    CheckNode(node, architecture);
  }
  const std::string again = lucid::EncodeRegionState(state);
  Require(again.size() == bytes.size());
  lucid::RegionState second;
  Require(lucid::DecodeRegionState(again, architecture, kMembers, second).ok());
  Require(lucid::EncodeRegionState(second) == again);
  return 0;
}
