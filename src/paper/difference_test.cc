#include "paper/difference.h"

#include <gtest/gtest.h>

#include "pair/test_support.h"

namespace lucid {
namespace {

// Networks by hand: for each layer and neuron its weights, then the layer's biases.
Network Make(const Architecture& architecture, std::vector<float> parameters) {
  EXPECT_EQ(architecture.parameters(), std::ssize(parameters));
  return {architecture, std::move(parameters)};
}

Network OneNeuron(float weight, float bias, float output_weight, float output_bias) {
  return Make(Hidden({{.units = 1}}, 1, 2), {weight, bias, output_weight, 0, output_bias, 0});
}

HyperNetwork Between(const Network& a, const Network& b) {
  HyperNetwork hyper(a);
  hyper.Include(b.parameters);
  return hyper;
}

DifferenceBounds OnUnitBox(const Network& network, const HyperNetwork& hyper) {
  const Box box = UnitBox(network.architecture.inputs());
  return PropagateDifferences(network, hyper, IntervalBounds(HyperNetwork(network), box));
}

TEST(Difference, BiasIntervalCounts) {
  // N: z = relu(x), P: z = relu(x - 0.3), confidence z - 0.5. By hand: I_w = [0, 0] everywhere, so
  // I_z^ = I_b = [-0.3, -0.3], I_z = [-0.3, 0], and the output differs by 1 * I_z = [-0.3, 0].
  // Without I_b all of it would be [0, 0].
  const Network n = OneNeuron(1, 0, 1, -0.5), p = OneNeuron(1, -0.3F, 1, -0.5);
  const DifferenceBounds found = OnUnitBox(n, HyperNetwork(p));
  const double shift = -0.3F;
  EXPECT_EQ(found.pre[0][0], (Interval{shift, shift}));
  EXPECT_EQ(found.post[0][0], (Interval{shift, 0}));
  EXPECT_EQ(found.pre[1][0], (Interval{shift, 0}));
  EXPECT_EQ(found.pre[1][1], (Interval{0, 0}));
}

TEST(Difference, WholeWeightIntervalCounts) {
  // Hidden: N z = relu(x), b# = [-1/4, 1/4], so I_z = [-1/4, 1/4] and z + I_z = [-1/4, 5/4].
  // Output: w = 1, w# = [1/2, 2], so I_w = [-1/2, 1]. By hand
  //   w I_z         = [-1/4, 1/4]
  //   I_w (z + I_z) = [min(-5/8, -1/4), max(1/8, 5/4)] = [-5/8, 5/4]
  //   sum           = [-7/8, 3/2].
  // With the upper end of I_w alone it would be [-1/2, 3/2], with the lower one [-7/8, 3/8].
  const Network n = OneNeuron(1, 0, 1, 0);
  const HyperNetwork hyper = Between(OneNeuron(1, -0.25, 0.5, 0), OneNeuron(1, 0.25, 2, 0));
  EXPECT_EQ(OnUnitBox(n, hyper).pre[1][0], (Interval{-0.875, 1.5}));
  // Either single end would be wrong: these members are at -5/8 and at 3/2 for x = 1.
  const Exact at_one = Evaluate(n, Point{1}).pre[1][0];
  const Network low = OneNeuron(1, -0.25, 0.5, 0), high = OneNeuron(1, 0.25, 2, 0);
  EXPECT_EQ(static_cast<double>(Evaluate(low, Point{1}).pre[1][0] - at_one), -0.625);
  EXPECT_EQ(static_cast<double>(Evaluate(high, Point{1}).pre[1][0] - at_one), 1.5);
}

TEST(Difference, DeadNeuronOfNCountsWithItsOutputZero) {
  // N: z^ = x - 2 in [-2, -1], so z = 0. The same hidden neuron in P; output w = 1, w# = [1/2,
  // 3/2]. By hand: I_z = [0, 0]; I_w (0 + I_z) = [0, 0]; nothing is left. With z^ for z: [-1, 1].
  const Network n = OneNeuron(1, -2, 1, 0);
  const HyperNetwork same = Between(OneNeuron(1, -2, 0.5, 0), OneNeuron(1, -2, 1.5, 0));
  EXPECT_EQ(OnUnitBox(n, same).pre[1][0], (Interval{0, 0}));
  // b# = [-2, -1/2]: I_z = [0, 3/2]. By hand: w I_z = [0, 3/2], I_w (0 + I_z) = [-1/2, 1/2] *
  // [0, 3/2] = [-3/4, 3/4], sum [-3/4, 9/4]. With z^ for z: [-1/2, 1/2] * [-2, 1/2] = [-1, 1] and
  // the sum [-1, 5/2].
  const HyperNetwork wakes = Between(OneNeuron(1, -2, 0.5, 0), OneNeuron(1, -0.5, 1.5, 0));
  const DifferenceBounds found = OnUnitBox(n, wakes);
  EXPECT_EQ(found.post[0][0], (Interval{0, 1.5}));
  EXPECT_EQ(found.pre[1][0], (Interval{-0.75, 2.25}));
}

TEST(Difference, AliveNeuronCountsWithItsOutputNotItsSum) {
  // N: z^ = 4x - 1 in [-1, 3], z in [0, 3]; P the same; I_w = [0, 1]. By hand I_w z = [0, 3]. With
  // z^ for z it would be [-1, 3]; with an upper bound of z below 3 it would be unsound.
  const Network n = OneNeuron(4, -1, 1, 0);
  EXPECT_EQ(OnUnitBox(n, Between(n, OneNeuron(4, -1, 2, 0))).pre[1][0], (Interval{0, 3}));
}

TEST(Difference, RunningExampleOfThePaper) {
  // z_11 = -x1 + x2 against z#_11 = -x1 + [1, 1.1] x2 + [0, 0.1]: z_11 <= z#_11 <= z_11 + 0.2.
  // The text gives only the result [-0.02, 0] for z_12: any neuron one weight of which lies in
  // [w - 0.02, w] has it; here w = 1.
  const Architecture architecture = Hidden({{.units = 2}}, 2, 2);
  const Network n = Make(architecture, {-1, 1, 1, 1, 0, 0, 1, 0, 0, 1, 0, 0});
  const Network other = Make(architecture, {-1, 1.1F, 0.98F, 1, 0.1F, 0, 1, 0, 0, 1, 0, 0});
  const DifferenceBounds found = OnUnitBox(n, Between(n, other));
  // The floats nearest to 1.1, 0.1 and 0.98 are not quite these numbers.
  EXPECT_EQ(found.post[0][0].lower, 0);
  EXPECT_GE(found.post[0][0].upper, (static_cast<double>(1.1F) - 1) + static_cast<double>(0.1F));
  EXPECT_NEAR(found.post[0][0].upper, 0.2, 1e-7);
  EXPECT_EQ(found.post[0][1], (Interval{static_cast<double>(0.98F) - 1, 0}));
  EXPECT_NEAR(found.post[0][1].lower, -0.02, 1e-7);
}

TEST(Difference, IsZeroFromANetworkToItself) {
  Stream stream(3, "difference to itself");
  for (const Architecture& architecture : SmallArchitectures()) {
    const Network n = RandomNetwork(architecture, stream);
    for (const auto& layer : OnUnitBox(n, HyperNetwork(n)).pre) {
      for (const Interval& unit : layer) EXPECT_EQ(unit, (Interval{0, 0}));
    }
  }
}

class DifferenceOf : public testing::TestWithParam<Architecture> {};
INSTANTIATE_TEST_SUITE_P(Small, DifferenceOf, testing::ValuesIn(SmallArchitectures()));

TEST_P(DifferenceOf, EveryNetworkInsideIsContained) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + GetParam().Canonical());
    Stream stream(seed, "difference");
    const Network n = RandomNetwork(GetParam(), stream);
    const double spread = std::exp2(stream.Uniform(-12, -1));
    const MemoryMembers members(RandomMembers(n, 3, spread, stream));
    const HyperNetwork hyper = HyperNetwork::Of(members, Everyone(members));
    const Box box = stream.Below(2) == 0 ? UnitBox(GetParam().inputs())
                                         : RandomBox(GetParam().inputs(), stream);
    const bool linear = stream.Below(2) == 0;
    const HyperNetwork point(n);
    const DifferenceBounds found = PropagateDifferences(
        n, hyper, linear ? LinearBounds(point, box) : IntervalBounds(point, box));
    for (int i = 0; i < 6; ++i) {
      const Network p = i < 3 ? members.Member(i) : RandomInside(hyper, stream);
      ASSERT_TRUE(hyper.Contains(p.parameters));
      for (const Point& x : PointsToTry(i % 2 == 0 ? n : p, box, stream)) {
        const ExactValues of_n = Evaluate(n, x), of_p = Evaluate(p, x);
        for (std::size_t m = 0; m < of_n.pre.size(); ++m) {
          for (std::size_t k = 0; k < of_n.pre[m].size(); ++k) {
            ASSERT_TRUE(Holds(found.pre[m][k], of_p.pre[m][k] - of_n.pre[m][k])) << m << " " << k;
            ASSERT_TRUE(Holds(found.post[m][k], of_p.post[m][k] - of_n.post[m][k]))
                << m << " " << k;
          }
        }
      }
    }
  }
}

TEST_P(DifferenceOf, ShrinksWithTheSubset) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "difference subset");
    const Network n = RandomNetwork(GetParam(), stream);
    const MemoryMembers members(RandomMembers(n, 4, 0.05, stream));
    const DifferenceBounds small = OnUnitBox(n, HyperNetwork::Of(members, {1, 3}));
    const DifferenceBounds large = OnUnitBox(n, HyperNetwork::Of(members, {0, 1, 3}));
    for (std::size_t m = 0; m < small.pre.size(); ++m) {
      for (std::size_t k = 0; k < small.pre[m].size(); ++k) {
        EXPECT_TRUE(Within(small.pre[m][k], large.pre[m][k]));
        EXPECT_TRUE(Within(small.post[m][k], large.post[m][k]));
      }
    }
  }
}

TEST(Difference, OverflowWidensInsteadOfNarrowing) {
  const Architecture architecture =
      Hidden(std::vector<HiddenLayer>(9, HiddenLayer{.units = 2}), 1, 2);
  const auto size = static_cast<std::size_t>(architecture.parameters());
  const Network n{architecture, std::vector<float>(size, 3e38F)};
  HyperNetwork hyper(n);
  hyper.Include(std::vector<float>(size, -3e38F));
  for (const auto& layer : OnUnitBox(n, hyper).pre) {
    // The network of zeros is inside and differs by -N, the network itself by nothing.
    for (const Interval& unit : layer) {
      EXPECT_TRUE(unit.Contains(0));
      EXPECT_LT(unit.lower, -1e38);
    }
  }
}

}  // namespace
}  // namespace lucid
