#include "verify/region_state.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace lucid {
namespace {

static_assert(std::endian::native == std::endian::little);

class Writer {
 public:
  template <class T>
  void Put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out_.append(bytes, sizeof(T));
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  template <class T>
  T Get() {
    T value{};
    if (bytes_.size() - at_ < sizeof(T)) {
      good_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  // A number of items of at least `size` bytes each that can still follow.
  std::size_t Count(std::size_t size) {
    const auto count = Get<std::uint64_t>();
    if (count > (bytes_.size() - at_) / size) good_ = false;
    return good_ ? static_cast<std::size_t>(count) : 0;
  }
  void Require(bool holds) { good_ = good_ && holds; }
  bool good() const { return good_; }
  bool done() const { return at_ == bytes_.size(); }

 private:
  const std::string& bytes_;
  std::size_t at_ = 0;
  bool good_ = true;
};

void WriteNode(const RegionNode& node, Writer& out) {
  out.Put(node.bound);
  out.Put(node.id);
  for (const Interval& side : node.region.box) {
    out.Put(side.lower);
    out.Put(side.upper);
  }
  out.Put(static_cast<std::uint64_t>(node.region.phases.size()));
  for (const PhaseSplit& phase : node.region.phases) {
    out.Put(phase.layer);
    out.Put(phase.unit);
    out.Put(static_cast<std::uint8_t>((phase.member ? 2 : 0) + (phase.active ? 1 : 0)));
  }
  out.Put(static_cast<std::uint64_t>(node.alive.size()));
  for (const RegionPair& pair : node.alive) {
    out.Put(pair.member);
    out.Put(pair.other);
    out.Put(pair.bound);
    out.Put(pair.lambda);
  }
}

RegionNode ReadNode(const Architecture& architecture, std::int64_t members, Reader& in) {
  RegionNode node;
  node.bound = in.Get<double>();
  node.id = in.Get<std::uint64_t>();
  for (std::int64_t j = 0; j < architecture.inputs(); ++j) {
    const auto lower = in.Get<double>();
    const auto upper = in.Get<double>();
    in.Require(0 <= lower && lower <= upper && upper <= 1);
    node.region.box.push_back({lower, upper});
  }
  const auto hidden = static_cast<std::int32_t>(architecture.layers().size()) - 1;
  for (std::size_t n = in.Count(9); n > 0 && in.good(); --n) {
    PhaseSplit phase;
    phase.layer = in.Get<std::int32_t>();
    phase.unit = in.Get<std::int32_t>();
    const auto flags = in.Get<std::uint8_t>();
    phase.member = (flags & 2) != 0;
    phase.active = (flags & 1) != 0;
    in.Require(flags < 4 && phase.layer >= 0 && phase.layer < hidden && phase.unit >= 0);
    in.Require(in.good() && phase.unit < architecture.layers()[phase.layer].outputs);
    node.region.phases.push_back(phase);
  }
  double largest = 0;
  for (std::size_t n = in.Count(20); n > 0 && in.good(); --n) {
    RegionPair pair;
    pair.member = in.Get<std::int32_t>();
    pair.other = in.Get<std::int32_t>();
    pair.bound = in.Get<double>();
    pair.lambda = in.Get<float>();
    in.Require(pair.member >= 0 && pair.member < members && pair.other >= 0 &&
               pair.other < architecture.classes());
    in.Require(pair.bound >= 0 && pair.lambda >= 0 && std::isfinite(pair.lambda));
    largest = std::max(largest, pair.bound);
    node.alive.push_back(pair);
  }
  in.Require(!node.alive.empty() && node.bound == largest);
  return node;
}

}  // namespace

std::int64_t RegionNode::Bytes() const {
  std::size_t bytes =
      sizeof(RegionNode) + region.box.capacity() * sizeof(Interval) +
      region.phases.capacity() * sizeof(PhaseSplit) + alive.capacity() * sizeof(RegionPair) +
      (multipliers.slopes.capacity() + multipliers.pushes.capacity()) * sizeof(float);
  for (const ProofClosing& closing : closings) {
    bytes += sizeof(ProofClosing) + closing.dual.capacity() * sizeof(float);
  }
  return static_cast<std::int64_t>(bytes);
}

std::string EncodeRegionState(const RegionState& state) {
  Writer out;
  out.Put(state.next_id);
  out.Put(state.closed);
  for (const std::int64_t count :
       {state.regions, state.bounds, state.pruned_by_screen, state.pruned_at_root, state.dropped}) {
    out.Put(count);
  }
  out.Put(static_cast<std::uint64_t>(state.open.size()));
  for (const RegionNode& node : state.open) WriteNode(node, out);
  return out.Take();
}

Status DecodeRegionState(const std::string& bytes, const Architecture& architecture,
                         std::int64_t members, RegionState& state) {
  Reader in(bytes);
  state = {};
  state.next_id = in.Get<std::uint64_t>();
  state.closed = in.Get<double>();
  in.Require(state.closed >= 0);
  for (std::int64_t* count : {&state.regions, &state.bounds, &state.pruned_by_screen,
                              &state.pruned_at_root, &state.dropped}) {
    *count = in.Get<std::int64_t>();
    in.Require(*count >= 0);
  }
  for (std::size_t n = in.Count(32); n > 0 && in.good(); --n) {
    state.open.push_back(ReadNode(architecture, members, in));
    in.Require(state.open.back().id < state.next_id);
  }
  if (!in.good() || !in.done()) return InvalidInput("the saved search is damaged");
  std::make_heap(state.open.begin(), state.open.end());
  return Ok();
}

}  // namespace lucid
