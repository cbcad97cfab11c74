// One training by several processes, here threads with queues between them: the bytes of the run do
// not depend on how many there are. tests/e2e/team_test.cc tries real processes under mpirun.
#include <gmock/gmock.h>

#include <filesystem>
#include <thread>

#include "base/files.h"
#include "ensemble/test_support.h"
#include "lucid/ensemble/ensemble.h"
#include "support/local_team.h"
#include "support/scratch_folder.h"

namespace lucid {
namespace {

using testing::HasSubstr;

class TeamTraining : public testing::Test {
 protected:
  TeamTraining() {
    options_.train.batch = 8;
    options_.train.expected_rows = 150;
    options_.train.epochs = 3;
    options_.threads = 1;
  }

  // What rank 0 gets; helpers may have data or options of their own.
  Result<TrainSummary> Train(int size, const std::string& run, std::stop_token stop = {}) {
    Post post(size);
    std::vector<std::jthread> helpers;
    for (int rank = 1; rank < size; ++rank) {
      helpers.emplace_back([&, rank] {
        LocalTeam team(post, rank);
        EnsembleOptions options = helper_options_.value_or(options_);
        options.team = &team;
        const Dataset& data = helper_data_ ? *helper_data_ : data_;
        const Status status = HelpTrainEnsemble(data, net_, options, "nowhere");
        if (!status.ok()) team.Send(0, GivingUp(team, status.error()));
      });
    }
    LocalTeam team(post, 0);
    EnsembleOptions options = options_;
    options.team = &team;
    return TrainEnsemble(data_, net_, options, At(run), {}, std::move(stop));
  }

  std::string Bytes(const std::string& run, const char* file) {
    return ReadTextFile(At(run + "/" + file), 1 << 30).value();
  }

  std::string At(const std::string& name) const { return root_ + "/" + name; }

  const std::string root_ = ScratchFolder();
  Dataset data_ = SmallDataset(150);
  Architecture net_ = Architecture::FromName("2x5", 3, 2).value();
  EnsembleOptions options_;
  std::optional<EnsembleOptions> helper_options_;
  std::optional<Dataset> helper_data_;
};

TEST_F(TeamTraining, TheBytesAreThoseOfOneProcess) {
  ASSERT_TRUE(TrainEnsemble(data_, net_, options_, At("alone")).ok());
  for (const int size : {1, 2, 5}) {
    const std::string run = "team" + std::to_string(size);
    const auto made = Train(size, run);
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->members, 150);
    EXPECT_TRUE(Bytes(run, kEnsembleFile) == Bytes("alone", kEnsembleFile)) << size;
    EXPECT_TRUE(Bytes(run, kNetworkFile) == Bytes("alone", kNetworkFile)) << size;
  }
}

// Helpers get the secret of the leader's run: they have no folder of their own.
TEST_F(TeamTraining, PrivateRunsToo) {
  options_.train = TrainOptions::Preset("private").value();
  options_.train.expected_rows = 150;
  options_.train.batch = 30;
  options_.train.epochs = 3;
  options_.train.rows_per_unit = 1;
  options_.seeded_noise = true;
  ASSERT_TRUE(TrainEnsemble(data_, net_, options_, At("alone")).ok());
  ASSERT_TRUE(Train(3, "team").ok());
  EXPECT_TRUE(Bytes("team", kEnsembleFile) == Bytes("alone", kEnsembleFile));

  options_.seeded_noise = false;
  const auto fresh = Train(3, "fresh");
  ASSERT_TRUE(fresh.ok()) << fresh.error().message;
  options_.secret_file = At("fresh/secret");
  ASSERT_TRUE(TrainEnsemble(data_, net_, options_, At("again")).ok());
  EXPECT_TRUE(Bytes("fresh", kEnsembleFile) == Bytes("again", kEnsembleFile));
}

// A stopped run goes on with another number of processes.
TEST_F(TeamTraining, ResumesWithAnotherNumber) {
  ASSERT_TRUE(TrainEnsemble(data_, net_, options_, At("alone")).ok());
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = Train(3, "run", stop.get_token());
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted) << stopped.error().message;
  options_.resume = true;
  for (const int size : {2, 4}) {
    const auto made = Train(size, "run");
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_TRUE(Bytes("run", kEnsembleFile) == Bytes("alone", kEnsembleFile)) << size;
  }
}

// What a helper has must be what the leader has: other rows, another order of them and other
// options are each refused by name, and nothing is trained.
TEST_F(TeamTraining, AHelperWithAnotherJobIsRefused) {
  helper_data_ = SmallDataset(149);
  EXPECT_THAT(Train(2, "rows").error().message,
              HasSubstr("rank 1: 'made in the test' holds other"));
  EXPECT_FALSE(std::filesystem::exists(At(std::string("rows/") + kManifestFile)));

  helper_data_ = data_;
  std::swap(helper_data_->train.y[0], helper_data_->train.y[1]);
  for (int k = 0; k < 3; ++k) {
    std::swap(helper_data_->train.x[k], helper_data_->train.x[3 + k]);
  }
  helper_data_->train_order = OrderDigest(TableKeys::Of(helper_data_->train));
  ASSERT_EQ(TableDigest(helper_data_->train), data_.train_digest);
  EXPECT_THAT(Train(2, "order").error().message, HasSubstr("stand in another order here"));

  helper_data_.reset();
  helper_options_ = options_;
  helper_options_->train.epochs = 4;
  EXPECT_THAT(Train(3, "epochs").error().message, HasSubstr("or the command is another one"));
}

TEST_F(TeamTraining, WhatCannotBeSharedIsRefused) {
  options_.shard = {1, 2};
  EXPECT_THAT(Train(2, "a").error().message, HasSubstr("leave the option shard out"));
  options_.shard = {};
  options_.trainer = "true";
  EXPECT_THAT(Train(2, "b").error().message, HasSubstr("the option trainer works in one process"));
}

}  // namespace
}  // namespace lucid
