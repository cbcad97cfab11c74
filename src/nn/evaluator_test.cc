#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lucid/nn/network.h"
#include "random/stream.h"
#include "support/exact_pass.h"

namespace lucid {
namespace {

Network RandomNetwork(const std::string& name, std::int64_t inputs, std::int64_t classes,
                      std::uint64_t seed, double scale = 1) {
  Network network{Architecture::FromName(name, inputs, classes).value(), {}};
  Stream stream(seed, "test network");
  for (std::int64_t i = 0; i < network.architecture.parameters(); ++i) {
    network.parameters.push_back(static_cast<float>(scale * stream.Normal()));
  }
  return network;
}

std::vector<float> RandomInput(std::int64_t inputs, Stream& stream) {
  std::vector<float> x(static_cast<std::size_t>(inputs));
  for (float& v : x) v = static_cast<float>(stream.Uniform());
  return x;
}

std::vector<Exact> ExactLogits(const Network& network, std::span<const float> x) {
  return Evaluate(network, x).pre.back();
}

TEST(Evaluator, ErrorBoundHoldsAgainstExactArithmeticAndIsNotVacuous) {
  for (const char* name : {"2x50", "4x30", "conv", "0x1", "1x7"}) {
    for (double scale : {0.1, 1.0, 30.0}) {
      const Network network = RandomNetwork(name, 12, 3, 5, scale);
      const Evaluator evaluator(network);
      Stream stream(9, name);
      double worst = 0;
      for (int i = 0; i < 50; ++i) {
        const std::vector<float> x = RandomInput(12, stream);
        const auto exact = ExactLogits(network, x);
        std::vector<double> logits(3);
        evaluator.Logits(x, logits);
        for (int c = 0; c < 3; ++c) {
          const Exact error = static_cast<Exact>(logits[c]) - exact[c];
          worst = std::max(worst, static_cast<double>(error < 0 ? -error : error));
        }
        const Decision decision = evaluator.Decide(x);
        Exact best = exact[decision.label], other = -1e300;
        for (int c = 0; c < 3; ++c) {
          if (c != decision.label && exact[c] > other) other = exact[c];
        }
        ASSERT_LE(std::abs(static_cast<double>(best - other - decision.confidence)),
                  evaluator.ConfidenceErrorBound());
      }
      ASSERT_LE(worst, evaluator.LogitErrorBound()) << name;
      EXPECT_GT(worst, 1e-6 * evaluator.LogitErrorBound())
          << name << ": so loose a bound is no bound";
    }
  }
}

// Worked by hand: relu(x0 - x1 + 0.5) and relu(x1) into two outputs.
TEST(Evaluator, SmallNetworkByHand) {
  Network network{Architecture::FromName("1x2", 2, 2).value(),
                  {1, -1, 0, 1, /*biases*/ 0.5f, 0, /*output*/ 2, 0, 0, 1, /*biases*/ 0, -1}};
  const Evaluator evaluator(network);
  std::vector<double> logits(2);
  evaluator.Logits(std::vector<float>{0.25f, 0.5f}, logits);
  EXPECT_EQ(logits[0], 2 * 0.25);
  EXPECT_EQ(logits[1], 0.5 - 1);
  const Decision decision = evaluator.Decide(std::vector<float>{0.25f, 0.5f});
  EXPECT_EQ(decision.label, 0);
  EXPECT_EQ(decision.confidence, 1.0);
}

TEST(Evaluator, TieGoesToTheSmallestClassWithConfidenceZero) {
  Network network{Architecture::FromName("0x1", 1, 3).value(), {1, 1, -1, 0, 0, 0}};
  const Decision decision = Evaluator(network).Decide(std::vector<float>{1.0f});
  EXPECT_EQ(decision.label, 0);
  EXPECT_EQ(decision.confidence, 0);
}

TEST(Evaluator, AccuracyCountsRightRows) {
  Network network{Architecture::FromName("0x1", 1, 2).value(), {0, 1, 0.5f, 0}};
  Table table{.features = 1, .x = {0, 1, 0.25f, 0.75f}, .y = {0, 1, 1, 1}};
  EXPECT_EQ(Accuracy(Evaluator(network), table), 0.75);
}

}  // namespace
}  // namespace lucid
