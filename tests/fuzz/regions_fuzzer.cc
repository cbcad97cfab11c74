// Any bytes as the open regions of a search, behind the journal's seal. What is accepted is a state
// that a search can go on with, and the only bytes of it up to the order of its heap.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "fuzz/require.h"
#include "native/region_state.h"

namespace {

constexpr std::int64_t kMembers = 3;
constexpr std::int32_t kLabel = 1;

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
    Require(pair.other != kLabel);
    Require(pair.bound >= 0 && std::isfinite(pair.lambda) && pair.lambda >= 0);
    largest = std::max(largest, pair.bound);
  }
  Require(node.bound == largest);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto& architecture = *new lucid::Architecture(
      lucid::Architecture::FromCanonical("2 > dense 3 > dense 2 > 3").value());
  // The task is the program's own: the fuzzer writes what follows it.
  static const auto& task = *new lucid::SearchTask{
      kLabel, kMembers, 1e-12, {}, lucid::UnitBox(architecture.inputs()), lucid::DomainKind::kBox};
  static const auto& start = *new std::string([] {
    const lucid::RegionState none;
    const std::string with_tail = lucid::EncodeRegionState(none, task);
    // Behind the task: a byte, target, next_id, five counts, three bounds, a number of nodes.
    return with_tail.substr(0, with_tail.size() - (1 + 8 + 8 + 5 * 8 + 3 * 8 + 8));
  }());
  const std::string bytes = start + std::string(reinterpret_cast<const char*>(data), size);
  lucid::RegionState state;
  if (!lucid::DecodeRegionState(bytes, architecture, task, state).ok()) return 0;
  Require(state.account.Check(state.Waiting()).ok());
  Require(state.target >= 0 && state.regions >= 0 && state.bounds >= 0 && state.dropped >= 0);
  Require(std::is_heap(state.open.begin(), state.open.end()));
  for (const lucid::RegionNode& node : state.open) {
    Require(node.id < state.next_id);
    CheckNode(node, architecture);
  }
  const std::string again = lucid::EncodeRegionState(state, task);
  Require(again.size() == bytes.size());
  lucid::RegionState second;
  Require(lucid::DecodeRegionState(again, architecture, task, second).ok());
  Require(lucid::EncodeRegionState(second, task) == again);
  return 0;
}
