#include "verify/region_state.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"

namespace lucid {
namespace {

// A number of items of at least `size` bytes each that can still follow.
std::size_t TakeCount(std::size_t size, ByteCursor& in) {
  const auto count = in.Take<std::uint64_t>();
  in.Require(count <= in.left() / size);
  return in.ok() ? static_cast<std::size_t>(count) : 0;
}

void WriteNode(const RegionNode& node, std::string& out) {
  PutBytes(out, node.bound);
  PutBytes(out, node.id);
  PutBytes(out, static_cast<std::uint8_t>(node.closer ? 1 : 0));
  for (const Interval& side : node.region.box) {
    PutBytes(out, side.lower);
    PutBytes(out, side.upper);
  }
  PutBytes(out, static_cast<std::uint64_t>(node.region.phases.size()));
  for (const PhaseSplit& phase : node.region.phases) {
    PutBytes(out, phase.layer);
    PutBytes(out, phase.unit);
    PutBytes(out, static_cast<std::uint8_t>((phase.member ? 2 : 0) + (phase.active ? 1 : 0)));
  }
  PutBytes(out, static_cast<std::uint64_t>(node.alive.size()));
  for (const RegionPair& pair : node.alive) {
    PutBytes(out, pair.member);
    PutBytes(out, pair.other);
    PutBytes(out, pair.bound);
    PutBytes(out, pair.lambda);
  }
}

RegionNode ReadNode(const Architecture& architecture, std::int64_t members, ByteCursor& in) {
  RegionNode node;
  node.bound = in.Take<double>();
  node.id = in.Take<std::uint64_t>();
  const auto closer = in.Take<std::uint8_t>();
  in.Require(closer <= 1);
  node.closer = closer == 1;
  for (std::int64_t j = 0; j < architecture.inputs(); ++j) {
    const auto lower = in.Take<double>();
    const auto upper = in.Take<double>();
    in.Require(0 <= lower && lower <= upper && upper <= 1);
    node.region.box.push_back({lower, upper});
  }
  const auto hidden = static_cast<std::int32_t>(architecture.layers().size()) - 1;
  for (std::size_t n = TakeCount(9, in); n > 0 && in.ok(); --n) {
    PhaseSplit phase;
    phase.layer = in.Take<std::int32_t>();
    phase.unit = in.Take<std::int32_t>();
    const auto flags = in.Take<std::uint8_t>();
    phase.member = (flags & 2) != 0;
    phase.active = (flags & 1) != 0;
    in.Require(flags < 4 && phase.layer >= 0 && phase.layer < hidden && phase.unit >= 0);
    in.Require(in.ok() && phase.unit < architecture.layers()[phase.layer].outputs);
    node.region.phases.push_back(phase);
  }
  double largest = 0;
  for (std::size_t n = TakeCount(20, in); n > 0 && in.ok(); --n) {
    RegionPair pair;
    pair.member = in.Take<std::int32_t>();
    pair.other = in.Take<std::int32_t>();
    pair.bound = in.Take<double>();
    pair.lambda = in.Take<float>();
    in.Require(pair.member >= 0 && pair.member < members && pair.other >= 0 &&
               pair.other < architecture.classes());
    in.Require(pair.bound >= 0 && pair.lambda >= 0 && std::isfinite(pair.lambda));
    largest = std::max(largest, pair.bound);
    node.alive.push_back(pair);
  }
  in.Require(!node.alive.empty() && node.bound == largest);
  in.Require(!node.closer || (node.alive.size() == 1 && node.region.phases.empty()));
  return node;
}

bool SamePair(const RegionPair& a, const RegionPair& b) {
  return a.member == b.member && a.other == b.other;
}

}  // namespace

std::int64_t RegionNode::Bytes() const {
  std::size_t bytes = sizeof(RegionNode) + region.box.capacity() * sizeof(Interval) +
                      region.phases.capacity() * sizeof(PhaseSplit) +
                      alive.capacity() * sizeof(RegionPair) +
                      (multipliers.slopes.capacity() + multipliers.pushes.capacity() +
                       closer_multipliers.capacity()) *
                          sizeof(float);
  for (const ProofClosing& closing : closings) {
    bytes += sizeof(ProofClosing) + closing.dual.capacity() * sizeof(float);
  }
  return static_cast<std::int64_t>(bytes);
}

double RegionState::LargestBound(const RegionPair& pair) const {
  double bound = 0;
  for (const RegionNode& node : open) {
    for (const RegionPair& other : node.alive) {
      if (SamePair(other, pair)) bound = std::max(bound, other.bound);
    }
  }
  return bound;
}

void RegionState::Limit(const RegionPair& pair, double bound) {
  std::erase_if(open, [&](RegionNode& node) {
    std::erase_if(node.alive, [&](RegionPair& other) {
      if (!SamePair(other, pair)) return false;
      other.bound = std::min(other.bound, bound);
      return bound == 0;
    });
    node.bound = 0;
    for (const RegionPair& other : node.alive) node.bound = std::max(node.bound, other.bound);
    return node.alive.empty();
  });
  std::make_heap(open.begin(), open.end());
}

std::string EncodeRegionState(const RegionState& state) {
  std::string out;
  PutBytes(out, state.next_id);
  PutBytes(out, state.closed);
  for (const std::int64_t count :
       {state.regions, state.bounds, state.pruned_by_screen, state.pruned_at_root, state.dropped}) {
    PutBytes(out, count);
  }
  PutBytes(out, static_cast<std::uint64_t>(state.open.size()));
  for (const RegionNode& node : state.open) WriteNode(node, out);
  return out;
}

Status DecodeRegionState(const std::string& bytes, const Architecture& architecture,
                         std::int64_t members, RegionState& state) {
  ByteCursor in(bytes);
  state = {};
  state.next_id = in.Take<std::uint64_t>();
  state.closed = in.Take<double>();
  in.Require(state.closed >= 0);
  for (std::int64_t* count : {&state.regions, &state.bounds, &state.pruned_by_screen,
                              &state.pruned_at_root, &state.dropped}) {
    *count = in.Take<std::int64_t>();
    in.Require(*count >= 0);
  }
  for (std::size_t n = TakeCount(33, in); n > 0 && in.ok(); --n) {
    state.open.push_back(ReadNode(architecture, members, in));
    in.Require(state.open.back().id < state.next_id);
  }
  if (!in.ok() || in.left() > 0) return InvalidInput("the saved search is damaged");
  std::make_heap(state.open.begin(), state.open.end());
  return Ok();
}

}  // namespace lucid
