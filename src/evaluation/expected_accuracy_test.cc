#include "evaluation/expected_accuracy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "certificate/test_support.h"
#include "lucid/evaluation/evaluation.h"
#include "pair/test_support.h"
#include "random/stream.h"

namespace lucid {
namespace {

Table TableOf(std::vector<float> x, std::vector<std::int32_t> y) {
  Table table;
  table.features = 1;
  table.x = std::move(x);
  table.y = std::move(y);
  return table;
}

std::vector<std::int64_t> EachItsOwn(const Table& table) {
  std::vector<std::int64_t> own(table.y.size());
  std::iota(own.begin(), own.end(), 0);
  return own;
}

// Mean and variance over every combination of answers, weighted by its probability.
RightAnswers ByEnumeration(const Table& table, std::span<const AccessDecision> decisions,
                           const AnswerLaw& law, std::span<const std::int64_t> same,
                           std::int32_t classes) {
  std::int64_t combinations = 1;
  for (std::int64_t i = 0; i < table.rows(); ++i) combinations *= classes;
  double mean = 0, square = 0;
  for (std::int64_t code = 0; code < combinations; ++code) {
    double probability = 1, right = 0;
    std::vector<std::int32_t> answers;
    std::int64_t rest = code;
    for (std::int64_t i = 0; i < table.rows(); ++i, rest /= classes) {
      answers.push_back(static_cast<std::int32_t>(rest % classes));
      const bool is_label = answers[i] == decisions[i].label;
      if (same[i] != i) {
        probability *= answers[i] == answers[same[i]] ? 1 : 0;
      } else if (!decisions[i].noised) {
        probability *= is_label ? 1 : 0;
      } else {
        probability *= is_label ? law.predicted : law.each_other;
      }
      right += answers[i] == table.y[i];
    }
    mean += probability * right;
    square += probability * right * right;
  }
  return {mean, square - mean * mean, 0};
}

TEST(ExpectedAccuracy, EqualsTheSumOverAllAnswers) {
  // Rows 0, 2 and 4 are one input with labels of their own; 1 and 5 are confident.
  const Table table = TableOf({0.1f, 0.2f, 0.1f, 0.3f, 0.1f, 0.4f}, {0, 1, 2, 2, 0, 0});
  const std::vector<AccessDecision> decisions = {{0, true}, {1, false}, {0, true},
                                                 {1, true}, {0, true},  {1, false}};
  const AnswerLaw law{0.5, 0.25};
  const auto equal = EqualInputs(table);
  EXPECT_THAT(equal, testing::ElementsAre(0, 1, 0, 3, 0, 5));
  for (const auto& same : {equal, EachItsOwn(table)}) {
    const RightAnswers right = CountRightAnswers(table, decisions, law, same);
    const RightAnswers expected = ByEnumeration(table, decisions, law, same, 3);
    EXPECT_NEAR(right.expected, expected.expected, 1e-12);
    EXPECT_NEAR(right.variance, expected.variance, 1e-12);
  }
  EXPECT_EQ(CountRightAnswers(table, decisions, law, equal).largest, 2);
}

TEST(ExpectedAccuracy, ASampleOfTheRightLawPassesAndOfAnotherFails) {
  Table table = TableOf(std::vector<float>(400), std::vector<std::int32_t>(400, 1));
  const std::vector<AccessDecision> decisions(400, AccessDecision{1, true});
  const auto own = EachItsOwn(table);
  const RightAnswers right = CountRightAnswers(table, decisions, {0.6, 0.4}, own);
  const auto sample = [&](double truth) {
    Stream stream(3, "sample");
    return SampleAccuracy(table, right, 50, [&](std::int64_t, std::int64_t) {
      return stream.Uniform() < truth ? 1 : 0;
    });
  };
  const auto good = sample(0.6);
  ASSERT_TRUE(good.ok()) << good.error().message;
  EXPECT_NEAR(good->standard_error, std::sqrt(0.24 / 20'000), 1e-12);
  EXPECT_NEAR(good->accuracy, 0.6, 5 * good->standard_error);
  // 0.03 are 8.7 standard errors.
  const auto bad = sample(0.57);
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().kind, ErrorKind::kInternal);
}

TEST(ExpectedAccuracy, WithoutNoiseEverySampleMustBeEqual) {
  const Table table = TableOf({0.1f, 0.2f}, {0, 1});
  const std::vector<AccessDecision> decisions = {{0, false}, {0, false}};
  const auto own = EachItsOwn(table);
  const RightAnswers right = CountRightAnswers(table, decisions, {0.5, 0.5}, own);
  EXPECT_EQ(right.expected, 1);
  EXPECT_EQ(right.variance, 0);
  EXPECT_TRUE(SampleAccuracy(table, right, 3, [](auto, auto) { return 0; }).ok());
  EXPECT_FALSE(SampleAccuracy(table, right, 3, [](auto, std::int64_t i) {
                 return static_cast<std::int32_t>(i);
               }).ok());
}

// The mechanism's answers one by one: utility 1 for the predicted class and 0 for the others, so
// each class has weight e^(eps u / 2); the probability of the right one is added up.
double BySimulation(const Evaluator& network, const Certificate& certificate, const Table& test,
                    double epsilon) {
  const auto classes = static_cast<std::int32_t>(certificate.classes.size());
  double right = 0;
  for (std::int64_t i = 0; i < test.rows(); ++i) {
    const Decision decision = network.Decide(test.row(i));
    std::vector<double> weights;
    weights.reserve(static_cast<std::size_t>(classes));
    for (std::int32_t c = 0; c < classes; ++c) {
      weights.push_back(std::exp(epsilon * (c == decision.label ? 1 : 0) / 2));
    }
    if (decision.confidence - certificate.network_error >
        certificate.classes[decision.label].beta_upper) {
      weights.assign(weights.size(), 0);
      weights[decision.label] = 1;
    }
    double sum = 0;
    for (const double weight : weights) sum += weight;
    right += weights[test.y[i]] / sum;
  }
  return right / static_cast<double>(test.rows());
}

Table RandomTable(std::int64_t features, std::int32_t classes, std::int64_t rows, Stream& stream) {
  Table table;
  table.features = features;
  for (std::int64_t i = 0; i < rows * features; ++i) {
    table.x.push_back(static_cast<float>(stream.Uniform()));
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    table.y.push_back(static_cast<std::int32_t>(stream.Below(static_cast<std::uint64_t>(classes))));
  }
  return table;
}

TEST(ScalarAccuracy, EqualsTheMechanismAnswerByAnswer) {
  for (const std::int32_t classes : {2, 3, 4}) {
    SCOPED_TRACE(testing::Message() << "seed 11, " << classes << " classes");
    Stream stream(11, "accuracy", static_cast<std::uint64_t>(classes));
    Network network = RandomNetwork(Hidden({{HiddenLayer::Kind::kDense, 5}}, 3, classes), stream);
    Balance(network, stream);
    const Evaluator evaluator(network);
    const Table test = RandomTable(3, classes, 200, stream);
    Certificate certificate = CertificateFor(network);
    for (const double beta : {0.0, 0.05, 0.2, 100.0, kInfinity}) {
      for (ClassBound& bound : certificate.classes) {
        bound.beta_upper = beta * (1 + 0.5 * bound.label);
      }
      for (const double epsilon : {0.0, 0.2, 1.0, 8.0}) {
        EXPECT_NEAR(ScalarAccuracy(evaluator, certificate, test, epsilon).value(),
                    BySimulation(evaluator, certificate, test, epsilon), 1e-12);
      }
    }
    // Everything is noised: with eps = 0 every class is as likely.
    EXPECT_NEAR(ScalarAccuracy(evaluator, certificate, test, 0).value(), 1.0 / classes, 1e-12);
    for (ClassBound& bound : certificate.classes) bound.beta_upper = 0;
    certificate.network_error = 0;
    EXPECT_NEAR(ScalarAccuracy(evaluator, certificate, test, 0).value(), Accuracy(evaluator, test),
                1e-12);
  }
}

// f = x - 0.5 exactly: the input whose confidence equals beta + error is noised, the next is not.
TEST(ScalarAccuracy, NoisesUpToTheBoundIncludingTheForwardError) {
  const Network network = HandMade("1 > dense 1 > 2", {1, 0, 1, 0, -0.5F, 0});
  Certificate certificate = CertificateFor(network);
  certificate.network_error = 0.125;
  certificate.classes[0].beta_upper = 0.125;
  const Evaluator evaluator(network);
  const auto at = [&](float x) {
    return ScalarAccuracy(evaluator, certificate, {1, {x}, {0}, {}, 0}, 0).value();
  };
  EXPECT_EQ(at(0.75F), 0.5);
  EXPECT_EQ(at(std::nextafter(0.75F, 1.0F)), 1);
}

}  // namespace
}  // namespace lucid
