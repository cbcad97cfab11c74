#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "baselines/example_gradients.h"
#include "baselines/test_support.h"
#include "lucid/baselines/private_training.h"
#include "train/plan.h"

namespace lucid {
namespace {

DpSgdOptions SmallOptions(double epsilon, std::optional<std::uint64_t> noise_seed) {
  return {.train = {.epochs = 3, .batch = 20, .rate = 0.2, .seed = 4},
          .epsilon = epsilon,
          .clip = 0.7,
          .noise_seed = noise_seed};
}

// The algorithm as the recipe states it, one example at a time in double, with the same coins and
// the same noise.
std::vector<double> Reference(const Architecture& architecture, const Table& table,
                              const DpSgdOptions& options) {
  TrainOptions train = options.train;
  train.method = TrainOptions::Method::kPrivate;
  train.epsilon = options.epsilon;
  train.delta = options.delta;
  train.clip = options.clip;
  train.expected_rows = table.rows();
  train = ResolveOptions(train, architecture, {table.rows(), 1, false}).value();
  const TrainPlan plan(architecture, table, train, Secret::FromSeed(*options.noise_seed));
  PlanReader reader(plan);
  const CrossEntropy loss(table);
  const double batch = static_cast<double>(options.train.batch);
  const double grid = static_cast<double>(plan.clipping()->grid);
  std::vector<double> weights = Widen(plan.initial());
  for (std::int64_t step = 0; step < plan.steps(); ++step) {
    std::vector<double> sum(weights.size());
    for (const std::int32_t row : reader.Rows(step)) {
      const auto gradient = GradientOf(architecture, weights, table, row, loss);
      const double scale = std::min(1.0, options.clip / NormOf(gradient));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += scale * gradient[i];
    }
    const auto noise = reader.Noise(step);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const double g = (sum[i] + grid * noise[i]) / batch;
      weights[i] -= options.train.rate * (g + options.train.weight_decay * weights[i]);
    }
  }
  return weights;
}

TEST(DpSgd, EqualsTheRecipeStepByStep) {
  for (const char* name : {"5 > dense 6 > 3", "5 > conv 2 width 3 stride 1 > dense 4 > 2"}) {
    const Architecture architecture = Architecture::FromCanonical(name).value();
    const Table table = RandomTable(130, 5, architecture.classes(), 9);
    const DpSgdOptions options = SmallOptions(8, 17);
    const auto trained = TrainDpSgd(architecture, table, options);
    ASSERT_TRUE(trained.ok()) << trained.error().message;
    EXPECT_EQ(trained->steps, 20);  // ceil(3 * 130 / 20)
    EXPECT_NEAR(trained->rate, 20.0 / 130, 1e-15);
    const auto expected = Reference(architecture, table, options);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(trained->network.parameters[i], expected[i], 1e-3) << name << " at " << i;
    }
  }
}

TEST(DpSgd, SpendsWhatItClaims) {
  const Architecture architecture = Architecture::FromName("1x4", 3, 2).value();
  const Table table = RandomTable(200, 3, 2, 1);
  for (const double epsilon : {0.05, 1.0, 10.0}) {
    const auto trained = TrainDpSgd(architecture, table, SmallOptions(epsilon, 1)).value();
    const auto loss = PrivacyLossOf({trained.rate, trained.sigma, trained.steps}, 1e-5).value();
    EXPECT_LE(loss.epsilon, epsilon);
    EXPECT_GT(loss.epsilon, 0.999 * epsilon);
  }
}

TEST(DpSgd, ASeedRepeatsItAndEntropyDoesNot) {
  const Architecture architecture = Architecture::FromName("1x4", 3, 2).value();
  const Table table = RandomTable(60, 3, 2, 1);
  const auto train = [&](std::optional<std::uint64_t> seed) {
    return TrainDpSgd(architecture, table, SmallOptions(1, seed)).value().network.parameters;
  };
  EXPECT_EQ(train(3), train(3));
  EXPECT_NE(train(3), train(4));
  EXPECT_NE(train({}), train({}));
}

TEST(DpSgd, LearnsWithLittleNoise) {
  const Architecture architecture = Architecture::FromName("1x16", 2, 2).value();
  Table table = RandomTable(1000, 2, 2, 3);
  for (std::int64_t i = 0; i < table.rows(); ++i) table.y[i] = table.row(i)[0] > 0.5f ? 1 : 0;
  DpSgdOptions options = SmallOptions(50, 2);
  options.train.epochs = 40;
  const auto trained = TrainDpSgd(architecture, table, options).value();
  EXPECT_GT(Accuracy(Evaluator(trained.network), table), 0.95);
}

TEST(DpSgd, ABatchLargerThanTheDataIsAllOfIt) {
  const Architecture architecture = Architecture::FromName("1x4", 3, 2).value();
  DpSgdOptions options = SmallOptions(1, 1);
  options.train.batch = 1000;
  const auto trained = TrainDpSgd(architecture, RandomTable(60, 3, 2, 1), options).value();
  EXPECT_EQ(trained.rate, 1);
  EXPECT_EQ(trained.steps, 3);
}

TEST(DpSgd, RefusesWhatItCannotDo) {
  const Architecture architecture = Architecture::FromName("1x4", 3, 2).value();
  const Table table = RandomTable(60, 3, 2, 1);
  const auto message = [&](auto change) {
    DpSgdOptions options = SmallOptions(1, 1);
    change(options);
    const auto result = TrainDpSgd(architecture, table, options);
    return result.ok() ? std::string("accepted") : result.error().message;
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](auto& o) { o.epsilon = 0; }), HasSubstr("epsilon is 0"));
  EXPECT_THAT(message([](auto& o) { o.delta = 1; }), HasSubstr("delta is 1"));
  EXPECT_THAT(message([](auto& o) { o.clip = std::nan(""); }), HasSubstr("clip is nan"));
  EXPECT_THAT(message([](auto& o) { o.train.epochs = 0; }), HasSubstr("epochs is 0"));
  EXPECT_THAT(message([](auto& o) {
                o.epsilon = 0.02;
                o.conversion = Conversion::kClassic;
              }),
              HasSubstr("the classic accountant"));
}

}  // namespace
}  // namespace lucid
