#include "check/exact.h"

#include <gtest/gtest.h>

#include "certificate/test_support.h"

namespace lucid {
namespace {

TEST(Exact, LiesWithinTheErrorBoundOfTheEvaluator) {
  for (const char* architecture : {"3 > 2", "4 > dense 9 > dense 7 > 3", "2 > dense 30 > 2",
                                   "9 > conv 3 width 3 stride 2 > conv 2 width 2 stride 1 > "
                                   "dense 4 > 3"}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const Network network = RandomNetwork(architecture, seed);
      const Evaluator evaluator(network);
      std::vector<double> computed(static_cast<std::size_t>(network.architecture.classes()));
      Stream stream(seed, "exact test");
      for (int i = 0; i < 20; ++i) {
        std::vector<float> x(static_cast<std::size_t>(network.architecture.inputs()));
        for (float& value : x) value = static_cast<float>(stream.Uniform());
        const std::vector<mpq_class> exact = ExactLogits(network, x);
        evaluator.Logits(x, computed);
        for (std::size_t k = 0; k < exact.size(); ++k) {
          EXPECT_LE(abs(exact[k] - mpq_class(computed[k])), mpq_class(evaluator.LogitErrorBound()))
              << architecture << " seed " << seed;
        }
        const Decision decision = evaluator.Decide(x);
        ASSERT_EQ(ExactLabel(exact), decision.label) << "a tie has probability 0";
        EXPECT_LE(abs(ExactMargin(exact, decision.label) - mpq_class(decision.confidence)),
                  mpq_class(evaluator.ConfidenceErrorBound()));
      }
    }
  }
}

TEST(Exact, SeesWhatDoublesCannot) {
  // 2^60 x + 1 - 2^60 x in this order loses the 1.
  Network network{Architecture::FromCanonical("2 > 2").value(), {0x1p60F, -0x1p60F, 0, 0, 1, 0.5F}};
  const std::vector<float> x = {1, 1};
  const std::vector<mpq_class> exact = ExactLogits(network, x);
  EXPECT_EQ(exact[0], 1);
  EXPECT_EQ(exact[1], mpq_class(1, 2));
  std::vector<double> computed(2);
  Evaluator(network).Logits(x, computed);
  EXPECT_NE(computed[0], 1);
}

TEST(Exact, LabelIsTheSmallestOfEqualOnes) {
  const std::vector<mpq_class> logits = {mpq_class(1), mpq_class(2), mpq_class(2)};
  EXPECT_EQ(ExactLabel(logits), 1);
  EXPECT_EQ(ExactMargin(logits, 1), 0);
  EXPECT_EQ(ExactMargin(logits, 2), 0);
  EXPECT_EQ(ExactMargin(logits, 0), -1);
}

TEST(Exact, RoundsDown) {
  EXPECT_EQ(RoundedDown(mpq_class(1, 2)), 0.5);
  EXPECT_EQ(RoundedDown(mpq_class(-1, 2)), -0.5);
  for (const mpq_class& value : {mpq_class(1, 3), mpq_class(-1, 3), mpq_class(2, 3)}) {
    const double down = RoundedDown(value);
    EXPECT_LT(mpq_class(down), value);
    EXPECT_GT(mpq_class(std::nextafter(down, kInfinity)), value);
  }
}

}  // namespace
}  // namespace lucid
