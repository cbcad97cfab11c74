#include "native/region_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/bytes.h"
#include "native/proof_log.h"

namespace lucid {
namespace {

// A number of items of at least `size` bytes each that can still follow.
std::size_t TakeCount(std::size_t size, ByteCursor& in) {
  const auto count = in.Take<std::uint64_t>();
  in.Require(count <= in.left() / size);
  return in.ok() ? static_cast<std::size_t>(count) : 0;
}

// The format of the engine. An earlier one certified bounds that were too low (CHANGELOG.md).
constexpr std::string_view kFormat = "LUCIDRG4";

void WriteTask(const SearchTask& task, std::string& out) {
  out += kFormat;
  PutBytes(out, task.label);
  PutBytes(out, task.members);
  PutBytes(out, task.member_error);
  for (const std::uint8_t byte : task.network.bytes) PutBytes(out, byte);
  for (const Interval& side : task.root) {
    PutBytes(out, side.lower);
    PutBytes(out, side.upper);
  }
  PutBytes(out, static_cast<std::uint64_t>(NameOf(task.domain).size()));
  out += NameOf(task.domain);
}

void WriteNode(const RegionNode& node, std::string& out) {
  PutBytes(out, node.bound);
  PutBytes(out, node.id);
  PutBytes(out, node.place);
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
    PutBytes(out, pair.share);
    PutBytes(out, static_cast<std::uint8_t>(pair.why && pair.why->written ? 1 : 0));
  }
}

RegionNode ReadNode(const Architecture& architecture, const SearchTask& task, ByteCursor& in) {
  RegionNode node;
  node.bound = in.Take<double>();
  node.id = in.Take<std::uint64_t>();
  node.place = in.Take<std::uint64_t>();
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
  for (std::size_t n = TakeCount(29, in); n > 0 && in.ok(); --n) {
    RegionPair pair;
    pair.member = in.Take<std::int32_t>();
    pair.other = in.Take<std::int32_t>();
    pair.bound = in.Take<double>();
    pair.lambda = in.Take<float>();
    pair.share = in.Take<std::uint64_t>();
    const auto written = in.Take<std::uint8_t>();
    in.Require(written <= 1);
    if (written == 1) pair.why = PairProof::Written();
    in.Require(pair.member >= 0 && pair.member < task.members && pair.other >= 0 &&
               pair.other < architecture.classes() && pair.other != task.label);
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
  for (const RegionPair& pair : alive) {
    if (!pair.why) continue;
    bytes += pair.why->Bytes();
  }
  return static_cast<std::int64_t>(bytes);
}

void RegionNode::CountBound() {
  bound = 0;
  for (const RegionPair& pair : alive) bound = std::max(bound, pair.bound);
}

RegionState::RegionState(const SearchTask& task, std::int64_t classes, double bound)
    : account(task.label, task.members, classes) {
  RegionNode root;
  root.region.box = task.root;
  root.alive = account.OpenAll(bound);
  root.bound = bound;
  open.push_back(std::move(root));
}

std::vector<RegionPair> RegionState::Waiting() const {
  std::vector<RegionPair> pairs;
  for (const RegionNode& node : open) {
    pairs.insert(pairs.end(), node.alive.begin(), node.alive.end());
  }
  return pairs;
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

void RegionState::Limit(const RegionPair& pair) {
  for (RegionNode& node : open) {
    for (RegionPair& other : node.alive) {
      if (!SamePair(other, pair) || other.bound <= pair.bound) continue;
      other.bound = pair.bound;
      other.why = pair.why;
    }
  }
  Restore();
}

std::uint64_t RegionState::Withdraw(const RegionPair& pair) {
  std::uint64_t shares = 0;
  for (RegionNode& node : open) {
    std::erase_if(node.alive, [&](const RegionPair& other) {
      if (!SamePair(other, pair)) return false;
      shares += other.share;
      return true;
    });
  }
  Restore();
  return shares;
}

void RegionState::Restore() {
  std::erase_if(open, [](RegionNode& node) {
    node.CountBound();
    return node.alive.empty();
  });
  std::make_heap(open.begin(), open.end());
}

std::string EncodeRegionState(const RegionState& state, const SearchTask& task) {
  std::string out;
  WriteTask(task, out);
  PutBytes(out, static_cast<std::uint8_t>(state.screened ? 1 : 0));
  PutBytes(out, state.target);
  PutBytes(out, state.next_id);
  for (const std::int64_t count :
       {state.regions, state.bounds, state.pruned_by_screen, state.pruned_at_root, state.dropped}) {
    PutBytes(out, count);
  }
  state.account.Write(out);
  PutBytes(out, static_cast<std::uint64_t>(state.open.size()));
  for (const RegionNode& node : state.open) WriteNode(node, out);
  return out;
}

Status DecodeRegionState(const std::string& bytes, const Architecture& architecture,
                         const SearchTask& task, RegionState& state) {
  std::string own;
  WriteTask(task, own);
  if (!bytes.starts_with(own)) {
    return Mismatch(
        fmt::format("the saved search is not the one of class {}, domain '{}' and these networks",
                    task.label, NameOf(task.domain)));
  }
  ByteCursor in(std::string_view(bytes).substr(own.size()));
  state = {};
  state.account = Account(task.label, task.members, architecture.classes());
  const auto screened = in.Take<std::uint8_t>();
  in.Require(screened <= 1);
  state.screened = screened == 1;
  state.target = in.Take<double>();
  in.Require(state.target >= 0);
  state.next_id = in.Take<std::uint64_t>();
  for (std::int64_t* count : {&state.regions, &state.bounds, &state.pruned_by_screen,
                              &state.pruned_at_root, &state.dropped}) {
    *count = in.Take<std::int64_t>();
    in.Require(*count >= 0);
  }
  state.account.Read(in);
  for (std::size_t n = TakeCount(41, in); n > 0 && in.ok(); --n) {
    state.open.push_back(ReadNode(architecture, task, in));
    in.Require(state.open.back().id < state.next_id);
  }
  const bool balanced = in.ok() && in.left() == 0 && state.account.Check(state.Waiting()).ok();
  if (!balanced) return InvalidInput("the saved search is damaged");
  std::make_heap(state.open.begin(), state.open.end());
  return Ok();
}

}  // namespace lucid
