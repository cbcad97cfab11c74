#include "lucid/train/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lucid {
namespace {

TEST(TrainOptions, DefaultsAreThePapers) {
  const TrainOptions options;
  EXPECT_EQ(options.epochs, 50);
  EXPECT_EQ(options.batch, 1024);
  EXPECT_EQ(options.rate, 0.1);
  EXPECT_EQ(options.weight_decay, 1e-5);
  EXPECT_EQ(options.schedule, TrainOptions::Schedule::kConstant);
  EXPECT_TRUE(options.Validate().ok());
  EXPECT_EQ(TrainOptions::Preset("paper")->Canonical(), options.Canonical());
  EXPECT_EQ(TrainOptions::Preset("stable")->schedule, TrainOptions::Schedule::kCosine);
  EXPECT_FALSE(TrainOptions::Preset("fast").ok());
}

TEST(TrainOptions, EveryFieldIsInTheKey) {
  const std::string base = TrainOptions().Canonical();
  const auto differs = [&](auto change) {
    TrainOptions options;
    change(options);
    return options.Canonical() != base;
  };
  EXPECT_TRUE(differs([](auto& o) { o.epochs = 49; }));
  EXPECT_TRUE(differs([](auto& o) { o.batch = 1000; }));
  EXPECT_TRUE(differs([](auto& o) { o.rate = std::nextafter(0.1, 1.0); }));
  EXPECT_TRUE(differs([](auto& o) { o.weight_decay = 0; }));
  EXPECT_TRUE(differs([](auto& o) { o.schedule = TrainOptions::Schedule::kCosine; }));
  EXPECT_TRUE(differs([](auto& o) { o.momentum = 0.9; }));
  EXPECT_TRUE(differs([](auto& o) { o.average_epochs = 5; }));
  EXPECT_TRUE(differs([](auto& o) { o.seed = 1; }));
}

// The text is hashed into run keys: a run of yesterday, or of another machine, must give it again.
TEST(TrainOptions, CanonicalTextIsPinned) {
  EXPECT_EQ(TrainOptions().Canonical(),
            "sgd epochs=50 batch=1024 rate=0x1.999999999999ap-4 "
            "weight_decay=0x1.4f8b588e368f1p-17 schedule=constant momentum=0x0p+0 "
            "average_epochs=0 seed=0");
}

TEST(TrainOptions, CanonicalTextIsReadBack) {
  TrainOptions options;
  EXPECT_EQ(TrainOptions::FromCanonical(options.Canonical()).value().Canonical(),
            options.Canonical());
  options = {.epochs = 7,
             .batch = 100,
             .rate = std::nextafter(0.1, 1.0),
             .weight_decay = 0,
             .schedule = TrainOptions::Schedule::kCosine,
             .momentum = 0.9,
             .average_epochs = 3,
             .seed = std::numeric_limits<std::uint64_t>::max()};
  const TrainOptions read = TrainOptions::FromCanonical(options.Canonical()).value();
  EXPECT_EQ(read.Canonical(), options.Canonical());
  EXPECT_EQ(read.seed, options.seed);
  for (const std::string& text :
       {std::string(), std::string("imported 12"), std::string("command seed=0 true"),
        options.Canonical() + " ", options.Canonical().substr(0, 40)}) {
    EXPECT_FALSE(TrainOptions::FromCanonical(text).ok()) << text;
  }
}

TEST(TrainOptions, StandardisedInputsAreInTheKeyWhereTheyCount) {
  TrainOptions options = TrainOptions::Preset("private").value();
  EXPECT_TRUE(options.standardise) << "the recipe of many rows";
  options.expected_rows = 3000;
  options = ResolveOptions(options, Architecture::FromName("2x8", 7, 2).value(), {3000, 1, false})
                .value();
  EXPECT_GT(options.moments_variance, 0);
  const std::string text = options.Canonical();
  EXPECT_THAT(text, testing::HasSubstr(" standardise=1 moments_variance="));
  const TrainOptions read = TrainOptions::FromCanonical(text).value();
  EXPECT_TRUE(read.standardise);
  EXPECT_EQ(read.moments_variance, options.moments_variance);
  // What the moments cost is taken from the steps, and charged.
  TrainOptions without = read;
  without.standardise = false;
  const Architecture net = Architecture::FromName("2x8", 7, 2).value();
  without = ResolveOptions(without, net, {3000, 1, false}).value();
  EXPECT_GT(read.noise_variance, without.noise_variance);
  EXPECT_EQ(without.moments_variance, 0);
  const PrivacyStatement stated = PrivacyOf(read, net).value();
  EXPECT_LE(stated.spent, read.epsilon);
  EXPECT_NEAR(stated.moments_sigma, 20 / read.epsilon, 1e-3);
  TrainOptions cheaper = read;
  cheaper.moments_variance /= 4;
  EXPECT_GT(PrivacyOf(cheaper, net)->spent, read.epsilon);
  cheaper.moments_variance = 0;
  EXPECT_FALSE(PrivacyOf(cheaper, net).ok());
  // Large epsilons have noise of the moments that leaves the steps something.
  TrainOptions large = read;
  large.epsilon = 500;
  EXPECT_TRUE(ResolveOptions(large, net, {3000, 1, false}).ok());
  // A run of before has no such field, and one without it has the text of before.
  options.standardise = false;
  EXPECT_THAT(options.Canonical(), testing::Not(testing::HasSubstr("standardise")));
  EXPECT_FALSE(TrainOptions::FromCanonical(options.Canonical()).value().standardise);
  TrainOptions plain;
  plain.standardise = true;
  EXPECT_FALSE(plain.Validate().ok());
  EXPECT_FALSE(RecipeFor(read, kFewRows - 1).standardise);
  EXPECT_TRUE(RecipeFor(plain, kFewRows).standardise);
  TrainOptions noisy = read;
  noisy.epsilon = 0.2;
  EXPECT_FALSE(RecipeFor(noisy, 4999).standardise) << "rows times epsilon below 1,000";
  EXPECT_EQ(RecipeFor(noisy, 4999).rate, 4);
  EXPECT_TRUE(RecipeFor(noisy, 5000).standardise);
  EXPECT_EQ(RecipeFor(noisy, 5000).rate, 1);
}

TEST(TrainOptions, NonsenseIsNamed) {
  const auto message = [](auto change) {
    TrainOptions options;
    change(options);
    const Status status = options.Validate();
    return status.ok() ? std::string("accepted") : status.error().message;
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](auto& o) { o.epochs = 0; }), HasSubstr("epochs is 0"));
  EXPECT_THAT(message([](auto& o) { o.batch = -1; }), HasSubstr("batch is -1"));
  EXPECT_THAT(message([](auto& o) { o.rate = 0; }), HasSubstr("lr"));
  EXPECT_THAT(message([](auto& o) { o.rate = std::numeric_limits<double>::quiet_NaN(); }),
              HasSubstr("nan"));
  EXPECT_THAT(message([](auto& o) { o.momentum = 1; }), HasSubstr("momentum"));
  EXPECT_THAT(message([](auto& o) { o.weight_decay = -1; }), HasSubstr("weight-decay"));
  EXPECT_THAT(message([](auto& o) { o.average_epochs = 51; }), HasSubstr("average-epochs"));
}

}  // namespace
}  // namespace lucid
