#include <gtest/gtest.h>

#include <cmath>

#include "baselines/alibi_loss.h"
#include "baselines/test_support.h"
#include "lucid/baselines/private_training.h"

namespace lucid {
namespace {

TEST(Alibi, GradientIsTheSlopeOfTheLossWithTheTargetHeld) {
  const std::int64_t classes = 4;
  const Table table = RandomTable(20, 3, classes, 1);
  PrivacyNoise noise = PrivacyNoise::Create(1).value();
  const AlibiLoss loss(table, classes, 1.5, noise);
  Stream stream(3, "logits");
  for (std::int32_t row = 0; row < 20; ++row) {
    std::vector<double> logits(classes), gradient(classes), target(classes);
    for (double& z : logits) z = stream.Uniform(-3, 3);
    const auto softmax = [&](const std::vector<double>& z, std::int64_t c) {
      double total = 0;
      for (const double value : z) total += std::exp(value);
      return std::exp(z[c]) / total;
    };
    double total = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      total += target[c] = std::exp(loss.Evidence(row)[c]) * softmax(logits, c);
    }
    for (double& t : target) t /= total;
    const auto value = [&](const std::vector<double>& z) {
      double sum = 0;
      for (std::int64_t c = 0; c < classes; ++c) {
        sum -= target[c] * std::log(softmax(z, c) + 1e-10);
      }
      return sum;
    };
    loss.Gradient(row, logits, gradient);
    for (std::int64_t c = 0; c < classes; ++c) {
      auto up = logits, down = logits;
      up[c] += 1e-6;
      down[c] -= 1e-6;
      EXPECT_NEAR(gradient[c], (value(up) - value(down)) / 2e-6, 1e-8);
    }
  }
}

// |o - e_i|_1 / b of the label minus that of another class lies in [-2/b, 2/b] = [-eps, eps]: the
// posterior never knows more of a label than epsilon allows.
TEST(Alibi, EvidenceIsWithinEpsilonAndPointsToTheLabel) {
  const Table table = RandomTable(20'000, 1, 3, 2);
  for (const double epsilon : {0.1, 1.0, 4.0}) {
    PrivacyNoise noise = PrivacyNoise::Create(4).value();
    const AlibiLoss loss(table, 3, epsilon, noise);
    double sum = 0;
    for (std::int32_t row = 0; row < table.rows(); ++row) {
      const auto evidence = loss.Evidence(row);
      const std::int32_t label = table.y[row], other = (label + 1) % 3;
      const double ratio = evidence[label] - evidence[other];
      ASSERT_LE(std::abs(ratio), epsilon * (1 + 1e-12));
      sum += ratio;
    }
    EXPECT_GT(sum / static_cast<double>(table.rows()), 0.1 * epsilon * epsilon / 2);
  }
}

TEST(Alibi, LearnsAndForgetsAsEpsilonSays) {
  const Architecture architecture = Architecture::FromName("1x16", 2, 3).value();
  Table table = RandomTable(900, 2, 3, 7);
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    table.y[i] = table.row(i)[0] > 0.5f ? 2 : (table.row(i)[1] > 0.4f ? 1 : 0);
  }
  const auto accuracy = [&](double epsilon, std::uint64_t seed) {
    const AlibiOptions options{.train = {.epochs = 40, .batch = 32, .rate = 0.3, .seed = 1},
                               .epsilon = epsilon,
                               .noise_seed = seed};
    const auto network = TrainAlibi(architecture, table, options);
    EXPECT_TRUE(network.ok()) << network.error().message;
    return Accuracy(Evaluator(*network), table);
  };
  EXPECT_GT(accuracy(50, 1), 0.95);
  EXPECT_LT(accuracy(0.02, 1), 0.8);
  EXPECT_EQ(accuracy(1, 5), accuracy(1, 5));
}

// It trains plainly, however the run was trained that its options come from.
TEST(Alibi, TakesTheOptionsOfRunsThatClip) {
  const Architecture architecture = Architecture::FromName("1x4", 2, 2).value();
  const Table table = RandomTable(60, 2, 2, 1);
  for (const std::string preset : {"clipped", "private"}) {
    TrainOptions train = TrainOptions::Preset(preset).value();
    train.expected_rows = 60;
    train.epochs = 2;
    EXPECT_TRUE(train.standardise);
    train = ResolveOptions(train, architecture, {60, 1, false}).value();
    const auto network = TrainAlibi(architecture, table, {.train = train, .epsilon = 1});
    EXPECT_TRUE(network.ok()) << preset << ": " << network.error().message;
  }
}

TEST(Alibi, RefusesWhatItCannotDo) {
  const Architecture architecture = Architecture::FromName("1x4", 2, 2).value();
  const Table table = RandomTable(10, 2, 2, 1);
  for (const double epsilon : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_FALSE(TrainAlibi(architecture, table, {.epsilon = epsilon}).ok());
  }
  Table empty;
  empty.features = 2;
  EXPECT_FALSE(TrainAlibi(architecture, empty, {}).ok());
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = TrainAlibi(architecture, table, {}, stop.get_token());
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
}

}  // namespace
}  // namespace lucid
