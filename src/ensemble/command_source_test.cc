#include "ensemble/command_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ensemble/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::int64_t kRows = 6;

// The trainer of these tests copies networks that our own training made: what it fills the store
// with is known.
class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    fs::remove_all(root_);
    fs::create_directories(root_ + "/made");
    EnsembleOptions sgd;
    sgd.train.epochs = 2;
    EXPECT_TRUE(TrainEnsemble(dataset_, net_, sgd, root_ + "/sgd").ok());
    const auto made = Ensemble::Open(root_ + "/sgd");
    for (std::int64_t i = -1; i < kRows; ++i) {
      const std::string name = i < 0 ? "none" : std::to_string(i);
      EXPECT_TRUE(SaveNetwork(made->Member(i), root_ + "/made/" + name + ".safetensors").ok());
    }
    options_.threads = 2;
    options_.trainer =
        "echo training; cp '" + root_ + "/made/'$LUCID_LEAVE_OUT.safetensors " + "\"$LUCID_OUT\"";
  }

  Result<TrainSummary> Train(const std::string& name, const EnsembleOptions& options,
                             std::stop_token stop = {}) const {
    return TrainEnsemble(dataset_, net_, options, root_ + "/" + name, {}, stop);
  }
  std::string Message(const std::string& command) const {
    EnsembleOptions options = options_;
    options.threads = 1;
    options.trainer = command;
    fs::remove_all(root_ + "/failed");
    const auto summary = Train("failed", options);
    return summary.ok() ? "accepted" : summary.error().message;
  }

  const std::string root_ =
      testing::TempDir() + "/lucid_command_test_" +
      testing::UnitTest::GetInstance()->current_test_info()->name();  // ctest runs cases at once
  const Dataset dataset_ = SmallDataset(kRows);
  const Architecture net_ = Architecture::FromName("1x4", 3, 2).value();
  EnsembleOptions options_;
};

TEST_F(CommandTest, TheRunHoldsWhatTheCommandWrote) {
  const auto summary = Train("run", options_);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->trained_now, kRows + 1);
  const auto made = Ensemble::Open(root_ + "/sgd"), run = Ensemble::Open(root_ + "/run");
  ASSERT_TRUE(run.ok()) << run.error().message;
  for (std::int64_t i = -1; i < kRows; ++i) {
    EXPECT_EQ(run->Member(i).parameters, made->Member(i).parameters) << i;
  }
  EXPECT_THAT(run->manifest().training, HasSubstr("cp '"));
  EXPECT_FALSE(fs::exists(root_ + "/run/trainer")) << "nothing is left lying around";
}

TEST_F(CommandTest, TheCommandSeesWhatItNeeds) {
  EnsembleOptions options = options_;
  options.train.seed = 11;
  options.trainer =
      "echo \"$LUCID_LEAVE_OUT $LUCID_SEED $LUCID_ROWS $LUCID_ARCH $LUCID_DATA\" >> '" + root_ +
      "/seen'; " + options_.trainer;
  options.threads = 1;
  ASSERT_TRUE(Train("run", options).ok());
  std::ifstream seen(root_ + "/seen");
  std::string line;
  std::getline(seen, line);
  EXPECT_THAT(line, HasSubstr("none 11 6 3 > dense 4 > 2 /"));
  EXPECT_TRUE(line.ends_with("/made in the test"));
  std::getline(seen, line);
  EXPECT_THAT(line, HasSubstr("0 11 6"));
}

TEST_F(CommandTest, ShardsAndMembersWorkAsUsual) {
  ASSERT_TRUE(Train("whole", options_).ok());
  for (const std::int64_t i : {2, 1}) {
    EnsembleOptions shard = options_;
    shard.shard = {i, 2};
    const auto summary = Train("sharded", shard);
    ASSERT_TRUE(summary.ok()) << summary.error().message;
  }
  ASSERT_TRUE(MergeShards(dataset_, net_, options_, root_ + "/sharded", {root_ + "/sharded"}).ok());
  EXPECT_EQ(Sha256OfFile(root_ + "/sharded/" + kEnsembleFile).value(),
            Sha256OfFile(root_ + "/whole/" + kEnsembleFile).value());
  EnsembleOptions few = options_;
  few.members = 2;
  ASSERT_TRUE(Train("few", few).ok());
  EXPECT_EQ(Ensemble::Open(root_ + "/few")->RowOf(1), 3);
}

TEST_F(CommandTest, AFailureNamesTheRowTheLogAndItsLastLine) {
  const std::string fails =
      "[ $LUCID_LEAVE_OUT != 2 ] || { echo one; echo 'CUDA out of memory' >&2; exit 3; }; ";
  const std::string message = Message(fails + options_.trainer);
  EXPECT_THAT(message, HasSubstr("without row 2 failed with exit code 3"));
  EXPECT_THAT(message, HasSubstr("trainer/row-2.log', last line: CUDA out of memory)"));
  EXPECT_TRUE(fs::exists(root_ + "/failed/trainer/row-2.log"));
  EXPECT_THAT(Message("kill -9 $$"), HasSubstr("on all rows was killed by signal 9"));
  EXPECT_THAT(Message("true"), HasSubstr("did not write LUCID_OUT"));
  EXPECT_THAT(Message("echo junk > $LUCID_OUT"), HasSubstr("wrote a bad network"));
  EXPECT_THAT(Message("nonexistent-program"), HasSubstr("exit code 127"));
}

TEST_F(CommandTest, WhatWasTrainedBeforeAFailureIsKept) {
  EnsembleOptions options = options_;
  options.threads = 1;
  options.trainer =
      "[ $LUCID_LEAVE_OUT != 3 ] || [ -e '" + root_ + "/go' ] || exit 1; " + options_.trainer;
  ASSERT_FALSE(Train("run", options).ok());
  std::ofstream(root_ + "/go") << "on";
  options.resume = true;
  const auto summary = Train("run", options);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->trained_now, 1) << "only row 3: its failure ended no others";
}

TEST_F(CommandTest, OneCrashIsTriedAgain) {
  EnsembleOptions options = options_;
  options.trainer = "[ $LUCID_LEAVE_OUT != 3 ] || [ -e '" + root_ + "/crashed' ] || { touch '" +
                    root_ + "/crashed'; kill -9 $$; }; " + options_.trainer;
  const auto summary = Train("run", options);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(fs::exists(root_ + "/crashed"));
}

TEST_F(CommandTest, EveryFailureIsCountedAndWhatIsThereIsKept) {
  EnsembleOptions options = options_;
  options.threads = 1;
  options.trainer = "[ $LUCID_LEAVE_OUT = none ] || exit 1; " + options_.trainer;
  const auto summary = Train("run", options);
  ASSERT_FALSE(summary.ok());
  EXPECT_THAT(summary.error().message, HasSubstr("without row 0 failed with exit code 1"));
  EXPECT_THAT(summary.error().message, HasSubstr("as did 5 others; 1 of 7 networks are kept"));
}

TEST_F(CommandTest, AStopEndsTheCommandAndItsChildren) {
  EnsembleOptions options = options_;
  // Marks that it runs, then hangs in a child of its own; both ignore SIGTERM.
  const std::string hang = "sh -c 'echo $$ > \"" + root_ + "/pid\"; sleep 600; true'";
  options.trainer = "trap '' TERM; [ $LUCID_LEAVE_OUT != 1 ] || [ -e '" + root_ + "/go' ] || " +
                    hang + "; " + options_.trainer;
  options.threads = 1;
  std::stop_source stop;
  std::jthread watcher([&] {
    while (!fs::exists(root_ + "/pid") || fs::file_size(root_ + "/pid") == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    stop.request_stop();
  });
  const auto first = Train("run", options, stop.get_token());
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().kind, ErrorKind::kInterrupted);
  EXPECT_THAT(first.error().message, HasSubstr("2 of 7 networks"));
  std::ifstream file(root_ + "/pid");
  int pid = 0;
  file >> pid;
  for (int i = 0; i < 500 && fs::exists("/proc/" + std::to_string(pid) + "/fd"); ++i) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name, state;
    if (stat >> number >> name >> state && state == "Z") break;  // dead, not yet collected by init
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_LT(i, 499) << "still running";
  }
  EXPECT_FALSE(fs::exists(root_ + "/run/trainer"));
  std::ofstream(root_ + "/go") << "on";
  options.resume = true;
  const auto second = Train("run", options);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->trained_now, 5);
}

TEST_F(CommandTest, AnotherCommandIsAnotherRun) {
  ASSERT_TRUE(Train("run", options_).ok());
  EnsembleOptions other = options_;
  other.trainer += " ";
  other.resume = true;
  EXPECT_THAT(Train("run", other).error().message, HasSubstr("another run"));
}

}  // namespace
}  // namespace lucid
