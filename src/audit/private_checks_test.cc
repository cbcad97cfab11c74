// Every fault of a private training that docs/evaluation.md names is planted, and found.
#include "audit/private_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "ensemble/reference.h"
#include "guard/draw_source.h"
#include "lucid/guard/guard.h"
#include "support/planted_faults.h"
#include "train/group_trainer.h"
#include "train/test_support.h"

namespace lucid {
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
  // What is stated is what `told` would keep.
  std::vector<std::string> Failures(const TrainPlan& plan, const TrainOptions& options,
                                    const TrainOptions& told) const {
    const PrivacyStatement stated = PrivacyOf(told, architecture_).value();
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
  std::vector<std::string> Failures(const TrainPlan& plan, const TrainOptions& options) const {
    return Failures(plan, options, options_);
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
  // Nor if they also agree about what noise that is.
  EXPECT_THAT(Failures(Plan(options), options, options), ElementsAre("sigma"));
}

TEST_F(PrivateChecks, InputsAsTheyAreHold) {
  TrainOptions options = options_;
  options.standardise = false;
  options.moments_variance = 0;
  options_ = ResolveOptions(options, architecture_, {200, 1, false}).value();
  EXPECT_THAT(Failures(Plan(options_)), IsEmpty());
}

TEST_F(PrivateChecks, ConvolutionsOnStandardisedInputsHold) {
  architecture_ = Architecture::FromName("conv", 5, 2).value();
  TrainOptions options = options_;
  options.epochs = 4;
  options_ = ResolveOptions(options, architecture_, {200, 1, false}).value();
  EXPECT_THAT(Failures(Plan(options_)), IsEmpty());
}

TEST_F(PrivateChecks, MomentsWithoutNoiseAreFound) {
  TrainPlan plan = Plan(options_);
  PlanWithFaults::ForgetNoiseOfMoments(plan);
  EXPECT_THAT(Failures(plan), ElementsAre("replay"));
}

// The manifest and the trainer agree about too little noise of the moments.
TEST_F(PrivateChecks, LessNoiseOfMomentsThanEpsilonNeedsIsFound) {
  // So little noise that there is no bracket; then some three times too little.
  for (const std::uint64_t divisor : {1'000'000, 100, 4}) {
    TrainOptions options = options_;
    options.moments_variance /= divisor;
    EXPECT_THAT(Failures(Plan(options), options), ElementsAre("sigma")) << divisor;
    EXPECT_THAT(Failures(Plan(options), options, options), ElementsAre("sigma")) << divisor;
  }
}

// A unit whose rows are equal, and half of whose inputs are 1, adds exactly what is charged.
TEST_F(PrivateChecks, AUnitThatAddsAllThatIsChargedHolds) {
  architecture_ = Architecture::FromName("2x8", 2, 2).value();
  table_ = RandomTable(200, 2, 2, 3);
  for (std::int64_t i = 0; i < table_.rows(); ++i) {
    table_.unit_ids.push_back(std::to_string(i / 5));
    if (i / 5 != 7) continue;
    table_.x[static_cast<std::size_t>(2 * i)] = 1;
    table_.x[static_cast<std::size_t>(2 * i + 1)] = 0;
  }
  TrainOptions options = options_;
  options.rows_per_unit = 5;
  options_ = ResolveOptions(options, architecture_, {200, 5, true}).value();
  EXPECT_THAT(Failures(Plan(options_)), IsEmpty());
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
  const TrainPlan plan(architecture_, table_, PlanWithFaults::KeysByPosition(table_), options_,
                       Secret::FromSeed(kSecret));
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

// Guards whose draws do not know the bounds: one draw meets both.
TEST_F(PrivateChecks, TwoBoundsWithOneDrawAreFound) {
  const GuardKey key = GuardKey::Random();
  const Mechanism mechanism = Mechanism::Create(MechanismKind::kPaper, 0, 2).value();
  const std::vector<double> low = {1, 1}, high = {2, 2};
  const auto guard_with = [&](const std::vector<double>& bounds) {
    const auto draws = std::make_shared<DrawSource>(
        key, Sha256Of("network"), NoisedSet{GuardKind::kScalar, bounds, {}, {}}, mechanism);
    return [draws, &mechanism](std::span<const float> x) {
      return mechanism.Answer(0, /*noised=*/true, draws->For(x));
    };
  };
  EXPECT_TRUE(CheckDraws(guard_with(low), guard_with(high), table_, 2).holds);
  EXPECT_FALSE(CheckDraws(guard_with(low), guard_with(low), table_, 2).holds);
}

}  // namespace
}  // namespace lucid
