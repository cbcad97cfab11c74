#include "guard/packed_networks.h"

#include <gtest/gtest.h>

#include <hwy/targets.h>
#include <cmath>

#include "guard/test_support.h"

namespace lucid {
namespace {

// What numbers are equal to: themselves, and every NaN to every NaN.
void ExpectSame(std::span<const double> actual, std::span<const double> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t c = 0; c < actual.size(); ++c) {
    if (std::isnan(expected[c])) {
      EXPECT_TRUE(std::isnan(actual[c]));
    } else {
      EXPECT_EQ(actual[c], expected[c]);
    }
  }
}

std::vector<float> RandomInput(std::int64_t inputs, Stream& stream) {
  std::vector<float> x;
  for (std::int64_t j = 0; j < inputs; ++j) {
    const std::uint64_t kind = stream.Below(4);  // zeros and ones are what encoded data has most
    x.push_back(kind == 0 ? 0.0F : kind == 1 ? 1.0F : static_cast<float>(stream.Uniform()));
  }
  return x;
}

// Architectures whose layers end anywhere within a vector, or need several parts.
std::vector<Architecture> Shapes() {
  using enum HiddenLayer::Kind;
  std::vector<Architecture> shapes = SmallArchitectures();
  for (const std::int64_t units : {1, 2, 7, 8, 31, 32, 33, 50, 67, 131}) {
    shapes.push_back(Hidden({{kDense, units}, {kDense, 9}}, 5, 2 + units % 5));
  }
  shapes.push_back(Hidden({{kConv, 6, 3, 1}, {kConv, 37, 3, 2}, {kDense, 2}}, 20, 3));
  shapes.push_back(Hidden({{kConv, 3, 3, 1}, {kConv, 5, 4, 1}, {kDense, 3}}, 150, 2));
  return shapes;
}

void ExpectEvaluatorsNumbers(std::uint64_t seed) {
  PassMemory memory;  // one for all: it has to fit whatever comes
  for (const Architecture& architecture : Shapes()) {
    SCOPED_TRACE(architecture.Canonical());
    Stream stream(seed, "packed networks");
    PackedNetworks packed(architecture, 3);
    std::vector<Evaluator> evaluators;
    for (int i = 0; i < 3; ++i) {
      Network network{architecture, {}};
      for (std::int64_t p = 0; p < architecture.parameters(); ++p) {
        network.parameters.push_back(static_cast<float>(stream.Normal()));
      }
      ASSERT_TRUE(packed.Set(i, network.parameters).ok());
      evaluators.emplace_back(network);
    }
    std::vector<double> expected(static_cast<std::size_t>(architecture.classes()));
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<float> x = RandomInput(architecture.inputs(), stream);
      if (repeat == 18) x[0] = std::numeric_limits<float>::quiet_NaN();
      if (repeat == 19) x[0] = std::numeric_limits<float>::infinity();
      packed.SetInput(x, memory);
      for (const int i : {2, 0, 1, 0}) {
        evaluators[i].Logits(x, expected);
        ExpectSame(packed.Logits(i, memory), expected);
        const Decision decision = DecisionOf(packed.Logits(i, memory));
        EXPECT_EQ(decision.label, evaluators[i].Decide(x).label);
        if (repeat < 18) {
          EXPECT_EQ(decision.confidence, evaluators[i].Decide(x).confidence);
        }
      }
    }
  }
}

TEST(PackedNetworksTest, GivesTheEvaluatorsNumbers) { ExpectEvaluatorsNumbers(1); }

TEST(PackedNetworksTest, GivesTheEvaluatorsNumbersWithTheBaselinesInstructions) {
  hwy::SetSupportedTargetsForTest(HWY_STATIC_TARGET);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  ExpectEvaluatorsNumbers(2);
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(PackedNetworksTest, TheSmallestOfTiedClassesWins) {
  EXPECT_EQ(LabelOf(std::vector{1.0, 2.0, 2.0}), 1);
  EXPECT_EQ(LabelOf(std::vector{0.0, -0.0}), 0);
  EXPECT_EQ(DecisionOf(std::vector{1.0, 2.0, 2.0}).confidence, 0);
}

TEST(PackedNetworksTest, RefusesParametersThatAreNotFinite) {
  const Architecture architecture = SmallArchitectures().front();
  PackedNetworks packed(architecture, 1);
  std::vector<float> parameters(static_cast<std::size_t>(architecture.parameters()), 1.0F);
  EXPECT_TRUE(packed.Set(0, parameters).ok());
  parameters.back() = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(packed.Set(0, parameters).ok());
}

}  // namespace
}  // namespace lucid
