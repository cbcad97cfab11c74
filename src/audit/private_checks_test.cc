// Every fault of a private training that docs/evaluation.md names is planted, and found.
#include "audit/private_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ensemble/reference.h"
#include "lucid/guard/guard.h"
#include "train/group_trainer.h"
#include "train/test_support.h"

namespace lucid {

// What a faulty trainer would do, beside a manifest that states the truth.
class PlanWithFaults {
 public:
  static void ScaleNoise(TrainPlan& plan, double factor) {
    for (std::int32_t& x : plan.noise_) x = static_cast<std::int32_t>(x * factor);
  }
  static void ClipHigher(TrainPlan& plan, float factor) { plan.clipping_->clip *= factor; }
  // All steps have the units of the first one.
  static void ShareCoinsOfSteps(TrainPlan& plan) {
    const std::vector<std::int32_t> first(
        plan.lists_.begin(), plan.lists_.begin() + static_cast<std::ptrdiff_t>(plan.starts_[1]));
    plan.lists_.clear();
    for (std::size_t step = 0; step + 1 < plan.starts_.size(); ++step) {
      plan.starts_[step] = plan.lists_.size();
      plan.lists_.insert(plan.lists_.end(), first.begin(), first.end());
    }
    plan.starts_.back() = plan.lists_.size();
  }
  // All steps have the noise of the first one.
  static void ShareNoise(TrainPlan& plan) {
    const auto size = static_cast<std::size_t>(plan.architecture().parameters());
    for (std::size_t i = size; i < plan.noise_.size(); ++i) plan.noise_[i] = plan.noise_[i % size];
  }
};

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class PrivateChecks : public testing::Test {
 protected:
  static constexpr std::uint64_t kSecret = 7;

  PrivateChecks() : table_(RandomTable(200, 5, 2, 3)) {
    TrainOptions options = TrainOptions::Preset("private").value();
    options.expected_rows = 200;
    options.batch = 50;
    options.epochs = 10;
    options_ = ResolveOptions(options, architecture_, {200, 1, false}).value();
  }

  TrainPlan Plan(const TrainOptions& options) const {
    return TrainPlan(architecture_, table_, options, Secret::FromSeed(kSecret));
  }
  Network Trained(const TrainPlan& plan) const {
    Network network{architecture_, {}};
    network.parameters.resize(static_cast<std::size_t>(architecture_.parameters()));
    const std::int64_t none = kNoRow;
    EXPECT_TRUE(GroupTrainer(plan, AvailableInstructionSets().front())
                    .Train(std::span(&none, 1), network.parameters)
                    .ok());
    return network;
  }
  // The names of the checks that fail for what this plan trains, beside a manifest with `options`.
  std::vector<std::string> Failures(const TrainPlan& plan, const TrainOptions& options) const {
    const PrivacyStatement stated = PrivacyOf(options_, architecture_).value();
    const Secret secret = Secret::FromSeed(kSecret);
    const auto checks =
        CheckPrivateTraining({Trained(plan), table_, options, stated, secret, plan}, {}, {});
    EXPECT_TRUE(checks.ok());
    std::vector<std::string> failed;
    for (const AuditCheck& check : *checks) {
      if (!check.holds) failed.push_back(check.check);
    }
    return failed;
  }
  std::vector<std::string> Failures(const TrainPlan& plan) const {
    return Failures(plan, options_);
  }

  Architecture architecture_ = Architecture::FromName("2x8", 5, 2).value();
  Table table_;
  TrainOptions options_;
};

TEST_F(PrivateChecks, AHonestTrainingHolds) { EXPECT_THAT(Failures(Plan(options_)), IsEmpty()); }

// Units of several rows, averages and a momentum are replayed as well.
TEST_F(PrivateChecks, UnitsOfSeveralRowsHold) {
  for (std::int64_t i = 0; i < table_.rows(); ++i) table_.unit_ids.push_back(std::to_string(i / 3));
  TrainOptions options = options_;
  options.rows_per_unit = 3;
  options.average_epochs = 2;
  options.momentum = 0.5;
  options_ = ResolveOptions(options, architecture_, {200, 3, true}).value();
  EXPECT_THAT(Failures(Plan(options_)), IsEmpty());
}

TEST_F(PrivateChecks, LessNoiseThanStatedIsFound) {
  TrainPlan plan = Plan(options_);
  PlanWithFaults::ScaleNoise(plan, 0.9);
  EXPECT_THAT(Failures(plan), ElementsAre("replay", "noise"));
}

// The manifest and the trainer agree about too little noise: no replay finds that.
TEST_F(PrivateChecks, LessNoiseThanEpsilonNeedsIsFound) {
  TrainOptions options = options_;
  options.noise_variance =
      static_cast<std::uint64_t>(0.81 * static_cast<double>(options_.noise_variance));
  EXPECT_THAT(Failures(Plan(options), options), ElementsAre("sigma"));
}

TEST_F(PrivateChecks, NoiseThatStepsShareIsFound) {
  TrainPlan plan = Plan(options_);
  PlanWithFaults::ShareNoise(plan);
  EXPECT_THAT(Failures(plan), ElementsAre("replay", "noise"));
}

TEST_F(PrivateChecks, UnitsThatAreClippedTwiceAsHighAreFound) {
  TrainPlan plan = Plan(options_);
  PlanWithFaults::ClipHigher(plan, 2);
  EXPECT_THAT(Failures(plan), ElementsAre("replay", "contribution"));
}

TEST_F(PrivateChecks, CoinsThatStepsShareAreFound) {
  TrainPlan plan = Plan(options_);
  PlanWithFaults::ShareCoinsOfSteps(plan);
  EXPECT_THAT(Failures(plan), ElementsAre("replay", "coins"));
}

// Keys that are positions: T is no longer a function of the set of units.
TEST_F(PrivateChecks, APlanByPositionIsFound) {
  TableKeys keys = TableKeys::Of(table_);
  for (std::size_t i = 0; i < keys.rows.size(); ++i) {
    keys.rows[i] = keys.units[i] = Sha256Of(std::to_string(i));
  }
  const TrainPlan plan(architecture_, table_, keys, options_, Secret::FromSeed(kSecret));
  EXPECT_THAT(Failures(plan), ElementsAre("replay"));
}

TEST_F(PrivateChecks, AnotherSecretThanTheRunsIsFound) {
  const TrainPlan plan(architecture_, table_, options_, Secret::FromSeed(kSecret + 1));
  EXPECT_THAT(Failures(plan), ElementsAre("replay"));
}

// The bound is what leaks, not a share of N's confidence.
TEST_F(PrivateChecks, BoundsMadeFromMembersAreFound) {
  Manifest manifest;
  std::string schema = "column,kind,offset,divisor,categories\n";
  for (int i = 0; i < 5; ++i) schema += "x" + std::to_string(i) + ",numeric,0,1,\n";
  manifest.schema = Schema::Parse(schema + "y,label,,,a|b\n", "schema.csv").value();
  const TrainPlan plan = Plan(options_);
  const Network network = Trained(plan);
  manifest.declared = DeclareBounds(network, manifest.schema, 0.05, std::nullopt);
  EXPECT_TRUE(CheckDeclaredBounds(network, manifest, std::nullopt).holds);
  // A member that leaves the first row out, and the confidence at which it disagrees with N.
  Network member = network;
  const std::int64_t row = 0;
  ASSERT_TRUE(GroupTrainer(plan, AvailableInstructionSets().front())
                  .Train(std::span(&row, 1), member.parameters)
                  .ok());
  const Evaluator in(network), out(member);
  double leak = 0;
  Stream stream(1, "inputs");
  for (int i = 0; i < 20'000; ++i) {
    std::vector<float> x(5);
    for (float& value : x) value = static_cast<float>(stream.Uniform());
    const Decision decision = in.Decide(x);
    if (out.Decide(x).label != decision.label) leak = std::max(leak, decision.confidence);
  }
  ASSERT_GT(leak, 0);
  manifest.declared->median = leak / manifest.declared->r;
  EXPECT_FALSE(CheckDeclaredBounds(network, manifest, std::nullopt).holds);
}

TEST_F(PrivateChecks, TwoBoundsWithOneDrawAreFound) {
  Stream first(1, "draws"), second(2, "draws"), same(1, "draws");
  const auto coin = [](Stream& stream) {
    return [&stream](std::span<const float>) { return static_cast<std::int32_t>(stream.Below(2)); };
  };
  EXPECT_TRUE(CheckDraws(coin(first), coin(second), table_, 2).holds);
  Stream again(1, "draws");
  EXPECT_FALSE(CheckDraws(coin(same), coin(again), table_, 2).holds);
}

}  // namespace
}  // namespace lucid
