#include "native/region_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "pair/test_support.h"

namespace lucid {
namespace {

constexpr std::int64_t kMembers = 5;

const Architecture& Shape() {
  static const auto& shape = *new Architecture(
      Hidden({{HiddenLayer::Kind::kDense, 4}, {HiddenLayer::Kind::kDense, 2}}, 3, 3));
  return shape;
}

constexpr std::int32_t kLabel = 1;

SearchTask Task() {
  return {kLabel,          kMembers, 1e-12, Sha256Of("a network"), UnitBox(Shape().inputs()),
          DomainKind::kBox};
}

// Some pairs wait in the nodes, all the rest is closed.
RegionState RandomState(Stream& stream, std::size_t nodes) {
  RegionState state(Task(), Shape().classes(), 1);
  std::vector<RegionPair> pairs = state.account.OpenAll(1);
  state.open.clear();
  state.screened = stream.Below(2) == 0;
  state.target = stream.Uniform();
  state.regions = static_cast<std::int64_t>(stream.Below(1000));
  state.bounds = static_cast<std::int64_t>(stream.Below(std::uint64_t{1} << 60));
  state.pruned_by_screen = static_cast<std::int64_t>(stream.Below(10));
  state.pruned_at_root = static_cast<std::int64_t>(stream.Below(10));
  state.dropped = static_cast<std::int64_t>(stream.Below(10));
  for (std::size_t n = 0; n < nodes; ++n) {
    RegionNode node;
    node.id = state.next_id++;
    node.region.box = RandomBox(Shape().inputs(), stream);
    for (std::uint64_t phases = stream.Below(4); phases > 0; --phases) {
      PhaseSplit phase;
      phase.layer = static_cast<std::int32_t>(stream.Below(2));
      phase.unit = static_cast<std::int32_t>(stream.Below(phase.layer == 0 ? 4 : 2));
      phase.member = stream.Below(2) == 0;
      phase.active = stream.Below(2) == 0;
      node.region.phases.push_back(phase);
    }
    for (std::uint64_t count = 1 + stream.Below(3); count > 0; --count) {
      RegionPair& whole = pairs[stream.Below(pairs.size())];
      const auto [part, rest] = Account::Cut(whole.share);
      whole.share = rest;
      node.alive.push_back({whole.member, whole.other, stream.Uniform(),
                            static_cast<float>(stream.Uniform()), part});
      node.bound = std::max(node.bound, node.alive.back().bound);
    }
    node.multipliers.slopes = {1, 2};  // not saved
    node.closer_multipliers = {3};     // nor this
    node.closer = node.alive.size() == 1 && node.region.phases.empty() && stream.Below(2) == 0;
    state.open.push_back(std::move(node));
  }
  for (const RegionPair& pair : pairs) {
    state.account.Close(pair, stream.Uniform(), Account::Reason::kBound);
  }
  std::make_heap(state.open.begin(), state.open.end());
  return state;
}

// What a search may be given.
void ExpectInRange(const RegionState& state) {
  EXPECT_TRUE(std::is_heap(state.open.begin(), state.open.end()));
  EXPECT_TRUE(state.account.Check(state.Waiting()).ok());
  EXPECT_GE(state.account.largest(), 0);
  EXPECT_GE(state.target, 0);
  for (const std::int64_t count :
       {state.regions, state.bounds, state.pruned_by_screen, state.pruned_at_root, state.dropped}) {
    EXPECT_GE(count, 0);
  }
  for (const RegionNode& node : state.open) {
    EXPECT_LT(node.id, state.next_id);
    ASSERT_EQ(node.region.box.size(), static_cast<std::size_t>(Shape().inputs()));
    for (const Interval& side : node.region.box) {
      EXPECT_TRUE(0 <= side.lower && side.lower <= side.upper && side.upper <= 1);
    }
    for (const PhaseSplit& phase : node.region.phases) {
      ASSERT_TRUE(phase.layer == 0 || phase.layer == 1);
      EXPECT_TRUE(phase.unit >= 0 && phase.unit < Shape().layers()[phase.layer].outputs);
    }
    double largest = 0;
    EXPECT_FALSE(node.alive.empty());
    for (const RegionPair& pair : node.alive) {
      EXPECT_TRUE(pair.member >= 0 && pair.member < kMembers);
      EXPECT_TRUE(pair.other >= 0 && pair.other < Shape().classes() && pair.other != kLabel);
      EXPECT_TRUE(std::isfinite(pair.bound) && std::isfinite(pair.lambda) && pair.lambda >= 0);
      largest = std::max(largest, pair.bound);
    }
    EXPECT_EQ(node.bound, largest);
    if (node.closer) EXPECT_TRUE(node.alive.size() == 1 && node.region.phases.empty());
  }
}

Status Decode(const std::string& bytes, RegionState& state) {
  return DecodeRegionState(bytes, Shape(), Task(), state);
}

TEST(RegionState, WhatIsWrittenIsRead) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "region state");
    const RegionState state = RandomState(stream, seed % 7);
    RegionState read;
    read.target = 17;  // replaced
    ASSERT_TRUE(Decode(EncodeRegionState(state, Task()), read).ok());
    ExpectInRange(read);
    EXPECT_EQ(read.next_id, state.next_id);
    EXPECT_EQ(read.account, state.account);
    EXPECT_EQ(read.screened, state.screened);
    EXPECT_EQ(read.target, state.target);
    EXPECT_EQ(read.regions, state.regions);
    EXPECT_EQ(read.bounds, state.bounds);
    EXPECT_EQ(read.pruned_by_screen, state.pruned_by_screen);
    EXPECT_EQ(read.pruned_at_root, state.pruned_at_root);
    EXPECT_EQ(read.dropped, state.dropped);
    ASSERT_EQ(read.open.size(), state.open.size());
    for (std::size_t n = 0; n < state.open.size(); ++n) {
      const RegionNode &a = state.open[n], &b = read.open[n];
      EXPECT_EQ(a.bound, b.bound);
      EXPECT_EQ(a.id, b.id);
      EXPECT_EQ(a.region.box, b.region.box);
      EXPECT_EQ(a.region.phases, b.region.phases);
      EXPECT_EQ(a.closer, b.closer);
      ASSERT_EQ(a.alive.size(), b.alive.size());
      for (std::size_t p = 0; p < a.alive.size(); ++p) {
        EXPECT_EQ(a.alive[p].member, b.alive[p].member);
        EXPECT_EQ(a.alive[p].other, b.alive[p].other);
        EXPECT_EQ(a.alive[p].bound, b.alive[p].bound);
        EXPECT_EQ(a.alive[p].lambda, b.alive[p].lambda);
        EXPECT_EQ(a.alive[p].share, b.alive[p].share);
      }
      EXPECT_TRUE(b.multipliers.slopes.empty());
      EXPECT_TRUE(b.closer_multipliers.empty());
    }
    EXPECT_EQ(EncodeRegionState(read, Task()), EncodeRegionState(state, Task()));
  }
}

TEST(RegionState, EveryTruncationAndAnyMoreIsRefused) {
  Stream stream(1, "truncation");
  const std::string whole = EncodeRegionState(RandomState(stream, 3), Task());
  RegionState state;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(Decode(whole.substr(0, size), state).ok()) << size;
  }
  EXPECT_FALSE(Decode(whole + '\0', state).ok());
}

// A search goes on only with what it left itself.
TEST(RegionState, OfAnotherTaskIsRefused) {
  Stream stream(2, "other tasks");
  const std::string bytes = EncodeRegionState(RandomState(stream, 4), Task());
  std::vector<SearchTask> others(7, Task());
  others[0].label = 0;
  others[1].members = kMembers - 1;
  others[2].member_error = 2e-12;
  others[3].network = Sha256Of("another network");
  others[4].domain = DomainKind::kSchema;
  others[5].root[0].lower = 0.5;
  others[6].label = 2;
  RegionState read;
  for (std::size_t n = 0; n < others.size(); ++n) {
    const Status status = DecodeRegionState(bytes, Shape(), others[n], read);
    ASSERT_FALSE(status.ok()) << n;
    EXPECT_EQ(status.error().kind, ErrorKind::kMismatch) << n;
  }
  EXPECT_FALSE(
      DecodeRegionState(bytes, Hidden({{HiddenLayer::Kind::kDense, 4}}, 3, 4), Task(), read).ok());
}

TEST(RegionState, ThatHasLostARegionOrHasOneTwiceIsRefused) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Stream stream(seed, "lost region");
    RegionState state = RandomState(stream, 3), read;
    const RegionNode node = state.open.back();
    state.open.pop_back();
    EXPECT_FALSE(Decode(EncodeRegionState(state, Task()), read).ok()) << "lost, seed " << seed;
    state.open.insert(state.open.end(), 2, node);
    EXPECT_FALSE(Decode(EncodeRegionState(state, Task()), read).ok()) << "twice, seed " << seed;
  }
}

TEST(RegionState, ThePairThatIsTheClassItselfIsRefused) {
  Stream stream(9, "class itself");
  RegionState state = RandomState(stream, 2), read;
  state.open.front().alive.front().other = kLabel;
  EXPECT_FALSE(Decode(EncodeRegionState(state, Task()), read).ok());
}

TEST(RegionState, LimitAndWithdrawKeepTheAccount) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Stream stream(seed, "withdraw");
    RegionState state = RandomState(stream, 5);
    RegionPair pair = state.open.back().alive.front();
    RegionPair lower = pair;
    lower.bound = 0.25;
    state.Limit(lower);
    EXPECT_LE(state.LargestBound(pair), 0.25);
    EXPECT_TRUE(state.account.Check(state.Waiting()).ok());
    pair.share = state.Withdraw(pair);
    EXPECT_EQ(state.LargestBound(pair), 0);
    EXPECT_FALSE(state.account.Check(state.Waiting()).ok()) << "it is in nobody's hands";
    std::vector<RegionPair> waiting = state.Waiting();
    waiting.push_back(pair);
    EXPECT_TRUE(state.account.Check(waiting).ok());
  }
}

// Without the journal's seal: whatever gets through is a state a search can go on with.
TEST(RegionState, MutatedBytesAreRefusedOrInRange) {
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "mutated state");
    std::string bytes = EncodeRegionState(RandomState(stream, 1 + seed % 3), Task());
    for (std::uint64_t edits = 1 + stream.Below(3); edits > 0; --edits) {
      const std::size_t at = stream.Below(bytes.size());
      switch (stream.Below(4)) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << stream.Below(8)));
          break;
        case 1:
          bytes[at] = static_cast<char>(stream.Below(256));
          break;
        case 2:
          bytes[at] = static_cast<char>(stream.Below(2) == 0 ? 0xff : 0x7f);
          break;
        default:
          bytes.erase(at, stream.Below(20));
          break;
      }
      if (bytes.empty()) break;
    }
    RegionState state;
    if (!Decode(bytes, state).ok()) continue;
    ++accepted;
    ExpectInRange(state);
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, 20) << "a test of refusals only";
}

TEST(RegionState, RandomBytesAreRefused) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Stream stream(seed, "random state");
    std::string bytes(stream.Below(400), '\0');
    for (char& byte : bytes) byte = static_cast<char>(stream.Below(256));
    RegionState state;
    EXPECT_FALSE(Decode(bytes, state).ok()) << "seed " << seed;
  }
}

TEST(RegionNode, TheLargestBoundAndThenTheOldestComesFirst) {
  RegionNode low, high, later;
  low.bound = 1, low.id = 1;
  high.bound = 2, high.id = 2;
  later.bound = 2, later.id = 3;
  EXPECT_TRUE(low < high);
  EXPECT_TRUE(low < later);
  EXPECT_TRUE(later < high);
  EXPECT_FALSE(high < later);
}

TEST(RegionNode, BytesCountWhatItHolds) {
  RegionNode node;
  const std::int64_t empty = node.Bytes();
  node.region.box = UnitBox(10);
  node.alive.resize(100);
  node.multipliers.slopes.resize(300);
  node.closer_multipliers.resize(700);
  EXPECT_GE(node.Bytes(), empty + 10 * 16 + 100 * 20 + 1000 * 4);
}

}  // namespace
}  // namespace lucid
