#include "pair/neuron_bounds.h"

#include <gtest/gtest.h>

#include <cmath>

#include "pair/test_support.h"

namespace lucid {
namespace {

using Bounds = NeuronBounds (*)(const HyperNetwork&, const Box&);

Network Make(const Architecture& architecture, std::vector<float> parameters) {
  return {architecture, std::move(parameters)};
}

struct Case {
  Network network;
  MemoryMembers members;
  HyperNetwork hyper;
  Box box;
};

// A network, members around it at a random distance, their hyper-network and a box.
Case RandomCase(const Architecture& architecture, Stream& stream) {
  Network network = RandomNetwork(architecture, stream);
  const double spread = std::exp2(stream.Uniform(-12, -1));
  MemoryMembers members(RandomMembers(network, 3, spread, stream));
  HyperNetwork hyper = HyperNetwork::Of(members, Everyone(members));
  Box box = stream.Below(2) == 0 ? UnitBox(architecture.inputs())
                                 : RandomBox(architecture.inputs(), stream);
  return {std::move(network), std::move(members), std::move(hyper), std::move(box)};
}

class BoundsOf : public testing::TestWithParam<Architecture> {};
INSTANTIATE_TEST_SUITE_P(Small, BoundsOf, testing::ValuesIn(SmallArchitectures()));

TEST_P(BoundsOf, EveryNetworkInsideIsContained) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + GetParam().Canonical());
    Stream stream(seed, "neuron bounds");
    const Case made = RandomCase(GetParam(), stream);
    const NeuronBounds interval = IntervalBounds(made.hyper, made.box);
    const NeuronBounds linear = LinearBounds(made.hyper, made.box);
    for (int i = 0; i < 6; ++i) {
      const Network p = i < 3 ? made.members.Member(i) : RandomInside(made.hyper, stream);
      ASSERT_TRUE(made.hyper.Contains(p.parameters));
      for (const Point& x : PointsToTry(p, made.box, stream)) {
        const ExactValues values = Evaluate(p, x);
        for (std::size_t m = 0; m < values.pre.size(); ++m) {
          for (std::size_t k = 0; k < values.pre[m].size(); ++k) {
            ASSERT_TRUE(Holds(interval.pre[m][k], values.pre[m][k])) << m << " " << k;
            ASSERT_TRUE(Holds(linear.pre[m][k], values.pre[m][k])) << m << " " << k;
            ASSERT_TRUE(Holds(
                linear.Post(GetParam(), static_cast<std::int64_t>(m), static_cast<std::int64_t>(k)),
                values.post[m][k]));
          }
        }
      }
    }
  }
}

TEST_P(BoundsOf, OutputUpperBoundIsAboveEveryNetworkInside) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + GetParam().Canonical());
    Stream stream(seed, "output bound");
    const Case made = RandomCase(GetParam(), stream);
    // Differences of two outputs, and any other combination with few bits.
    std::vector<double> c(static_cast<std::size_t>(GetParam().classes()), 0.0);
    if (stream.Below(2) == 0) {
      c.front() = 1, c.back() = -1;
    } else {
      for (double& value : c) value = std::round(stream.Uniform(-2, 2) * 64) / 64;
    }
    for (Bounds bounds : {&IntervalBounds, &LinearBounds}) {
      const NeuronBounds neurons = bounds(made.hyper, made.box);
      const double upper = OutputUpperBound(made.hyper, neurons, c);
      Interval simple;
      for (std::size_t k = 0; k < c.size(); ++k) simple = simple + c[k] * neurons.pre.back()[k];
      EXPECT_LE(upper, simple.upper);
      for (int i = 0; i < 6; ++i) {
        const Network p = i < 3 ? made.members.Member(i) : RandomInside(made.hyper, stream);
        for (const Point& x : PointsToTry(p, made.box, stream)) {
          const std::vector<Exact> outputs = Evaluate(p, x).pre.back();
          Exact sum = 0;
          for (std::size_t k = 0; k < c.size(); ++k) sum += static_cast<Exact>(c[k]) * outputs[k];
          ASSERT_TRUE(sum <= static_cast<Exact>(upper)) << static_cast<double>(sum) - upper;
        }
      }
    }
  }
}

TEST_P(BoundsOf, LinearIsNeverWiderThanInterval) {
  double linear_width = 0, interval_width = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "linear against interval");
    const Case made = RandomCase(GetParam(), stream);
    const NeuronBounds interval = IntervalBounds(made.hyper, made.box);
    const NeuronBounds linear = LinearBounds(made.hyper, made.box);
    for (std::size_t m = 0; m < interval.pre.size(); ++m) {
      for (std::size_t k = 0; k < interval.pre[m].size(); ++k) {
        EXPECT_TRUE(Within(linear.pre[m][k], interval.pre[m][k]));
        EXPECT_LE(linear.pre[m][k].lower, linear.pre[m][k].upper);
        linear_width += linear.pre[m][k].Width();
        interval_width += interval.pre[m][k].Width();
      }
    }
  }
  EXPECT_LT(linear_width, 0.99 * interval_width);
}

// With interval bounds this is a theorem: every operation is monotone, its rounding too. (Linear
// bounds choose a slope per neuron by the triangle's area, and may choose worse for less.)
TEST_P(BoundsOf, IntervalBoundsShrinkWithTheSubsetAndTheBox) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "subset bounds");
    const Case made = RandomCase(GetParam(), stream);
    const Box unit = UnitBox(GetParam().inputs());
    const NeuronBounds small = IntervalBounds(HyperNetwork::Of(made.members, {0, 2}), made.box);
    const NeuronBounds large = IntervalBounds(made.hyper, unit);
    for (std::size_t m = 0; m < small.pre.size(); ++m) {
      for (std::size_t k = 0; k < small.pre[m].size(); ++k) {
        EXPECT_TRUE(Within(small.pre[m][k], large.pre[m][k]));
      }
    }
  }
}

TEST_P(BoundsOf, BoundsOfOneNetworkAtOnePointAreItsValues) {
  Stream stream(5, "one point");
  const Network n = RandomNetwork(GetParam(), stream);
  const Point x = RandomPoint(UnitBox(GetParam().inputs()), stream);
  Box box;
  for (const double value : x) box.push_back(Interval::Point(value));
  const ExactValues values = Evaluate(n, x);
  for (Bounds bounds : {&IntervalBounds, &LinearBounds}) {
    const NeuronBounds found = bounds(HyperNetwork(n), box);
    for (std::size_t m = 0; m < values.pre.size(); ++m) {
      for (std::size_t k = 0; k < values.pre[m].size(); ++k) {
        EXPECT_TRUE(Holds(found.pre[m][k], values.pre[m][k]));
        EXPECT_LE(found.pre[m][k].Width(), 1e-13);
      }
    }
  }
}

TEST(IntervalBounds, ByHand) {
  // x in [0,1]^2. z1^ = [1/2, 1] x1 - x2 + [0, 1/4]: [-1, 5/4], z1 in [0, 5/4].
  // z2^ = -x1 - [1, 2] x2 + 1: [-2, 1], z2 in [0, 1]. o1 = [-1, 1] z1 + 2 z2: [-5/4, 13/4]; o2 = 0.
  const Architecture architecture = Hidden({{.units = 2}}, 2, 2);
  HyperNetwork hyper(Make(architecture, {0.5, -1, -1, -2, 0, 1, -1, 2, 0, 0, 0, 0}));
  hyper.Include(Make(architecture, {1, -1, -1, -1, 0.25, 1, 1, 2, 0, 0, 0, 0}).parameters);
  const NeuronBounds found = IntervalBounds(hyper, UnitBox(2));
  EXPECT_EQ(found.pre[0][0], (Interval{-1, 1.25}));
  EXPECT_EQ(found.pre[0][1], (Interval{-2, 1}));
  EXPECT_EQ(found.Post(architecture, -1, 1), (Interval{0, 1}));
  EXPECT_EQ(found.Post(architecture, 0, 0), (Interval{0, 1.25}));
  EXPECT_EQ(found.pre[1][0], (Interval{-1.25, 3.25}));
  EXPECT_EQ(found.Post(architecture, 1, 0), found.pre[1][0]) << "no ReLU on the outputs";
  EXPECT_EQ(found.pre[1][1], (Interval{0, 0}));
}

TEST(LinearBounds, ByHand) {
  // z1 = relu(x - 1/2), z2 = relu(x); o1 = z1 - z2/2, o2 = z2 - z1. On [0,1] z2 = x, and the chord
  // of z1 is x/2: o1 <= x/2 - x/2 = 0, which is attained at 0 and at 1 (interval: 1/2). The slope
  // of z1 below is 0 (the triangles are equal): o1 >= -x/2 >= -1/2 (interval: the same), and o2
  // <= x - 0 <= 1, o2 >= x - x/2 >= 0 (interval: -1/2).
  const Architecture architecture = Hidden({{.units = 2}}, 1, 2);
  const HyperNetwork hyper(Make(architecture, {1, 1, -0.5, 0, 1, -0.5, -1, 1, 0, 0}));
  const NeuronBounds found = LinearBounds(hyper, UnitBox(1));
  EXPECT_NEAR(found.pre[1][0].upper, 0, 1e-14);
  EXPECT_GE(found.pre[1][0].upper, 0);
  EXPECT_EQ(found.pre[1][0].lower, -0.5);
  EXPECT_NEAR(found.pre[1][1].lower, 0, 1e-14);
  EXPECT_LE(found.pre[1][1].lower, 0);
  EXPECT_EQ(found.pre[1][1].upper, 1);
}

TEST(OutputUpperBound, FormsTheDifferenceBeforeBounding) {
  // Two equal outputs, o1 = o2 = relu(x - 1/2) + relu(x) + 1/4: their difference is 0 for one
  // network, though each ranges over [1/4, 7/4]. If each weight of o1 may be 1/8 larger, it is at
  // most (x/2 + x) / 8 <= 3/16.
  const Architecture architecture = Hidden({{.units = 2}}, 1, 2);
  HyperNetwork hyper(Make(architecture, {1, 1, -0.5, 0, 1, 1, 1, 1, 0.25, 0.25}));
  const std::vector<double> difference = {1, -1};
  const auto bound = [&] {
    return OutputUpperBound(hyper, LinearBounds(hyper, UnitBox(1)), difference);
  };
  EXPECT_NEAR(bound(), 0, 1e-14);
  hyper.Include(Make(architecture, {1, 1, -0.5, 0, 1.125, 1.125, 1, 1, 0.25, 0.25}).parameters);
  EXPECT_NEAR(bound(), 0.1875, 1e-14);
  EXPECT_GE(bound(), 0.1875);
}

TEST(LinearBounds, OverflowGivesInfiniteBoundsAndNoNan) {
  // 3e38 to the tenth power is beyond double. Both signs, and zeros beside infinities.
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "overflow");
    const Architecture architecture =
        Hidden(std::vector<HiddenLayer>(9, HiddenLayer{.units = 3}), 2, 2);
    Network n{architecture, {}}, other = n;
    for (std::int64_t i = 0; i < architecture.parameters(); ++i) {
      n.parameters.push_back(static_cast<float>(static_cast<int>(stream.Below(3)) - 1) * 3e38F);
      other.parameters.push_back(stream.Below(4) == 0 ? 0 : n.parameters.back());
    }
    HyperNetwork hyper(n);
    hyper.Include(other.parameters);
    for (Bounds bounds : {&IntervalBounds, &LinearBounds}) {
      const NeuronBounds found = bounds(hyper, UnitBox(2));
      for (const Network& p : {n, other}) {
        for (const Point& x : {Point{0, 0}, Point{1, 0}, Point{0, 1}, Point{1, 1}}) {
          // Exact has the range (rounding: one part in 2^110, which the bounds' own rounding
          // of one part in 2^52 covers unless a sum cancels; nothing here is that close).
          const ExactValues values = Evaluate(p, x);
          for (std::size_t m = 0; m < values.pre.size(); ++m) {
            for (std::size_t k = 0; k < values.pre[m].size(); ++k) {
              ASSERT_TRUE(Holds(found.pre[m][k], values.pre[m][k])) << m << " " << k;
            }
          }
        }
      }
      EXPECT_FALSE(std::isnan(OutputUpperBound(hyper, found, std::vector<double>{1, -1})));
    }
  }
}

// A network of dense layers by hand: weights [neuron][input] and biases of each layer in turn.
Network Stack(std::int64_t inputs,
              const std::vector<std::pair<std::int64_t, std::vector<float>>>& layers) {
  std::vector<HiddenLayer> hidden;
  std::vector<float> parameters;
  for (const auto& [units, values] : layers) {
    hidden.push_back({.units = units});
    parameters.insert(parameters.end(), values.begin(), values.end());
  }
  hidden.pop_back();
  return Make(Hidden(hidden, inputs, layers.back().first), parameters);
}

TEST(LinearBounds, CoefficientsOfBothSignsBeyondDoubleDoNotCancel) {
  // z = relu(2x - 3/2) 2^-126, two copies of it scaled by (2^127)^9 and by 2^126 (2^127)^8; the
  // output is their difference: 2^1016 - 2^1015 at x = 1. Backwards the coefficients are still
  // finite above z and become inf and -inf when they meet there. The lower slope of z is 0: NaN
  // taken for "not positive" would leave a bound of 0.
  const float s = 0x1p-126F, a = 0x1p127F, b = 0x1p126F;
  std::vector<std::pair<std::int64_t, std::vector<float>>> layers = {{1, {2 * s, -1.5F * s}},
                                                                     {2, {a, b, 0, 0}}};
  for (int i = 0; i < 8; ++i) layers.push_back({2, {a, 0, 0, a, 0, 0}});
  layers.push_back({2, {1, -1, 0, 0, 0, 0}});
  const Network n = Stack(1, layers);
  const NeuronBounds found = LinearBounds(HyperNetwork(n), UnitBox(1));
  const Exact at_one = Evaluate(n, Point{1}).pre.back()[0];
  EXPECT_EQ(static_cast<double>(at_one), 0x1p1015);
  EXPECT_TRUE(Holds(found.pre.back()[0], at_one));
  const double upper = OutputUpperBound(HyperNetwork(n), found, std::vector<double>{1, -1});
  EXPECT_GE(upper, 0x1p1015);
}

TEST(LinearBounds, NeuronsBelowTheSlackOfRoundingKeepTheirChord) {
  // z_a = 2^-1043 x and z_b = 2^-1043 (1 - x) after seven layers; h = relu(z_a - z_b) has u - l =
  // 2^-1042, far below the 2^-960 of Up and Down: u / (u - l) cannot be computed. Scaled by
  // (2^127)^8 the output is 2^-27 at x = 1.
  const float tiny = 0x1p-149F, a = 0x1p127F;
  std::vector<std::pair<std::int64_t, std::vector<float>>> layers = {{2, {tiny, -tiny, 0, tiny}}};
  for (int i = 0; i < 6; ++i) layers.push_back({2, {tiny, 0, 0, tiny, 0, 0}});
  layers.push_back({1, {1, -1, 0}});
  for (int i = 0; i < 8; ++i) layers.push_back({1, {a, 0}});
  layers.push_back({2, {1, -1, 0, 0}});
  const Network n = Stack(1, layers);
  const NeuronBounds found = LinearBounds(HyperNetwork(n), UnitBox(1));
  for (const double x : {0.0, 0.5, 1.0}) {
    const ExactValues values = Evaluate(n, Point{x});
    for (std::size_t m = 0; m < values.pre.size(); ++m) {
      for (std::size_t k = 0; k < values.pre[m].size(); ++k) {
        EXPECT_TRUE(Holds(found.pre[m][k], values.pre[m][k])) << m << " " << k;
      }
    }
  }
  EXPECT_EQ(static_cast<double>(Evaluate(n, Point{1}).pre.back()[0]), 0x1p-27);
}

}  // namespace
}  // namespace lucid
