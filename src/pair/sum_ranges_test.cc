#include "pair/sum_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "pair/test_support.h"

namespace lucid {
namespace {

// Wide enough for several phases to be open, two hidden layers or more.
std::vector<Architecture> Architectures() {
  using enum HiddenLayer::Kind;
  return {
      Hidden({{kDense, 6}, {kDense, 4}}, 3, 2),
      Hidden({{kDense, 9}, {kDense, 3}, {kDense, 3}}, 5, 3),
      Hidden({{kConv, 2, 3, 1}, {kConv, 3, 2, 2}, {kDense, 3}}, 8, 2),
  };
}

struct Pair {
  Pair(const Architecture& architecture, double distance, Stream& stream)
      : network(RandomNetwork(architecture, stream)),
        member(NearTo(network, distance, stream)),
        box(stream.Below(3) == 0 ? RandomBox(architecture.inputs(), stream)
                                 : UnitBox(architecture.inputs())) {}
  std::int64_t units() const { return network.architecture.layers()[1].outputs; }

  Network network, member;
  Box box;
};

TEST(SumRanger, HoldsEverySumAndDifferenceWhateverTheNumberOfNodes) {
  for (const Architecture& architecture : Architectures()) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + architecture.Canonical());
      Stream stream(seed, "sum ranges");
      const Pair pair(architecture, seed % 3 == 0 ? 0.5 : 0.02, stream);
      SumRanger ranger(pair.network, pair.box);
      ASSERT_EQ(ranger.units(), pair.units());
      ranger.Enter(pair.member.parameters);
      for (const std::int64_t nodes : {0, 6, 400}) {
        std::vector<Interval> sums, differences;
        for (std::int64_t k = 0; k < pair.units(); ++k) {
          sums.push_back(ranger.NetworkSum(k, nodes));
          differences.push_back(ranger.MemberDifference(k, nodes));
        }
        for (int round = 0; round < 8; ++round) {
          for (const Point& x :
               PointsToTry(round % 2 == 0 ? pair.network : pair.member, pair.box, stream)) {
            const auto ours = Evaluate(pair.network, x).pre[1];
            const auto theirs = Evaluate(pair.member, x).pre[1];
            for (std::int64_t k = 0; k < pair.units(); ++k) {
              ASSERT_TRUE(Holds(sums[k], ours[k])) << "unit " << k << ", nodes " << nodes;
              ASSERT_TRUE(Holds(differences[k], theirs[k] - ours[k]))
                  << "unit " << k << ", nodes " << nodes;
            }
          }
        }
      }
    }
  }
}

TEST(SumRanger, MoreNodesGiveNarrowerRangesDownToTheTruth) {
  int narrower = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "narrow ranges");
    const Pair pair(Architectures()[0], 0.05, stream);
    SumRanger ranger(pair.network, pair.box);
    ranger.Enter(pair.member.parameters);
    for (const bool member : {false, true}) {
      const std::int64_t k = static_cast<std::int64_t>(seed % 4);
      const auto range = [&](std::int64_t nodes) {
        return member ? ranger.MemberDifference(k, nodes) : ranger.NetworkSum(k, nodes);
      };
      const Interval one = range(0), some = range(40), many = range(4000);
      EXPECT_TRUE(Within(some, one));
      EXPECT_TRUE(Within(many, some));
      narrower += many.Width() < 0.95 * one.Width();
      // What inputs really give: corners, kinks and a grid; the range is hardly wider.
      Interval seen{std::numeric_limits<double>::infinity(),
                    -std::numeric_limits<double>::infinity()};
      constexpr int kSteps = 32;
      for (int a = 0; a <= kSteps; ++a) {
        for (int b = 0; b <= kSteps; ++b) {
          for (int c = 0; c <= kSteps; ++c) {
            Point x;
            const int steps[] = {a, b, c};
            for (int j = 0; j < 3; ++j) {
              const Interval side = pair.box[j];
              x.push_back(side.lower + (side.upper - side.lower) * steps[j] / kSteps);
            }
            const Exact ours = Evaluate(pair.network, x).pre[1][k];
            const auto value =
                static_cast<double>(member ? Evaluate(pair.member, x).pre[1][k] - ours : ours);
            seen = {std::min(seen.lower, value), std::max(seen.upper, value)};
          }
        }
      }
      // Only N's phases are cut: where the member's alone is open, a sliver's width is left.
      EXPECT_LT(many.Width(), (member ? 1.4 : 1.05) * seen.Width() + 1e-9);
    }
  }
  EXPECT_GT(narrower, 5) << "branching shows nowhere";
}

TEST(SumRanger, GivesTheSameBitsAfterAnyOtherUnitAndMember) {
  Stream stream(7, "same bits");
  const Pair pair(Architectures()[1], 0.05, stream);
  SumRanger fresh(pair.network, pair.box), used(pair.network, pair.box);
  used.Enter(RandomNetwork(pair.network.architecture, stream).parameters);
  used.MemberDifference(1, 50);
  used.NetworkSum(0, 50);
  fresh.Enter(pair.member.parameters);
  used.Enter(pair.member.parameters);
  EXPECT_EQ(used.MemberDifference(2, 100), fresh.MemberDifference(2, 100));
  EXPECT_EQ(used.NetworkSum(2, 100), fresh.NetworkSum(2, 100));
}

TEST(SumRanger, WeightsThatOverflowGiveNoRangeRatherThanANarrowOne) {
  Stream stream(3, "overflow");
  Pair pair(Architectures()[0], 0.05, stream);
  std::ranges::fill(pair.network.parameters, 3e38F);
  // Floats cannot make sums of 1e280 in two layers; a box can.
  std::ranges::fill(pair.box, Interval{0, 1e260});
  SumRanger ranger(pair.network, pair.box);
  EXPECT_EQ(ranger.NetworkSum(0, 100).upper, std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace lucid
