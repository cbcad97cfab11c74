#include "baselines/expected_accuracy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

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

}  // namespace
}  // namespace lucid
