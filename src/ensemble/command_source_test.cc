#include "ensemble/command_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "ensemble/test_support.h"
#include "support/scratch_folder.h"

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

  // The process whose number is in the file has ended, or soon will have.
  static void ExpectGone(const std::string& path) {
    std::ifstream file(path);
    int pid = 0;
    file >> pid;
    for (int i = 0; i < 500 && fs::exists("/proc/" + std::to_string(pid) + "/fd"); ++i) {
      std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
      std::string number, name, state;
      if (stat >> number >> name >> state && state == "Z") break;  // not yet collected by init
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ASSERT_LT(i, 499) << "still running";
    }
  }

  // Stops a training that hangs at its third network, after its process has written ROOT/pid.
  // Afterwards ROOT/go lets it pass.
  void ExpectStopWhereItHangs(
      const std::function<Result<TrainSummary>(std::stop_token stop)>& train) const {
    std::stop_source stop;
    std::jthread watcher([&] {
      while (!fs::exists(root_ + "/pid") || fs::file_size(root_ + "/pid") == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      stop.request_stop();
    });
    const auto stopped = train(stop.get_token());
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
    EXPECT_THAT(stopped.error().message, HasSubstr("2 of 7 networks"));
    ExpectGone(root_ + "/pid");
    EXPECT_FALSE(fs::exists(root_ + "/run/trainer"));
    std::ofstream(root_ + "/go") << "on";
  }

  const std::string root_ = ScratchFolder();
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
  ExpectStopWhereItHangs([&](std::stop_token stop) { return Train("run", options, stop); });
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
  other = options_;
  other.trainer_stays = true;
  other.resume = true;
  EXPECT_THAT(Train("run", other).error().message, HasSubstr("another run"));
}

// Workers that copy the same networks. `before`: what they do before each answer, with $left ("" or
// rows) and $out.
class WorkerTest : public CommandTest {
 protected:
  WorkerTest() { options_.trainer_stays = true; }
  std::string Worker(const std::string& before = "") const {
    return "echo $$ >> '" + root_ + "/starts'; " + R"sh(while read -r line; do
      left=$(echo "$line" | sed 's/.*"leave_out":\[\([^]]*\)\].*/\1/')
      out=$(echo "$line" | sed 's/.*"out":"\([^"]*\)".*/\1/')
      )sh" +
           before + " cp '" + root_ + R"sh(/made/'${left:-none}.safetensors "$out"; echo done
    done)sh";
  }
  Result<TrainSummary> TrainBy(const std::string& worker, bool resume = false, int threads = 1,
                               std::stop_token stop = {}) const {
    EnsembleOptions options = options_;
    options.trainer = worker;
    options.threads = threads;
    options.resume = resume;
    return Train("run", options, std::move(stop));
  }
  std::string MessageOf(const std::string& worker) const {
    fs::remove_all(root_ + "/run");
    const auto summary = TrainBy(worker);
    return summary.ok() ? "accepted" : summary.error().message;
  }
  std::int64_t Starts() const {
    std::ifstream file(root_ + "/starts");
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  }
};

TEST_F(WorkerTest, AWorkerIsAskedForOneNetworkAfterAnother) {
  const std::string see = "echo \"$line\" >> '" + root_ + "/seen';";
  const auto summary = TrainBy(Worker(see));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(Starts(), 1) << "seven networks";
  const auto made = Ensemble::Open(root_ + "/sgd"), run = Ensemble::Open(root_ + "/run");
  ASSERT_TRUE(run.ok()) << run.error().message;
  for (std::int64_t i = -1; i < kRows; ++i) {
    EXPECT_EQ(run->Member(i).parameters, made->Member(i).parameters) << i;
  }
  EXPECT_THAT(run->manifest().training, HasSubstr("worker seed=0 "));
  EXPECT_EQ(run->manifest().maker, NetworkMaker::kCommand);
  EXPECT_FALSE(fs::exists(root_ + "/run/trainer")) << "nothing is left lying around";
  std::ifstream seen(root_ + "/seen");
  std::string line;
  std::getline(seen, line);
  EXPECT_THAT(line, testing::StartsWith("{\"data\":\"/"));
  EXPECT_THAT(line, HasSubstr(R"(/made in the test","rows":6,"leave_out":[],"seed":0,)"
                              R"("arch":"3 > dense 4 > 2","out":"/)"));
  std::getline(seen, line);
  EXPECT_THAT(line, HasSubstr(R"("leave_out":[0],)"));
}

TEST_F(WorkerTest, ThereAreAtMostAsManyAsThreads) {
  ASSERT_TRUE(TrainBy(Worker("sleep 0.1;"), false, 3).ok());
  EXPECT_LE(Starts(), 3) << "seven networks";
}

TEST_F(WorkerTest, OneCrashIsTriedAgainInANewProcess) {
  const auto summary =
      TrainBy(Worker("[ \"$left\" != 3 ] || [ -e '" + root_ + "/crashed' ] || { touch '" + root_ +
                     "/crashed'; kill -9 $$; };"));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(Starts(), 2);
  EXPECT_FALSE(fs::exists(root_ + "/run/trainer"));
}

TEST_F(WorkerTest, AnotherCrashIsNamedAndEndsNoOthers) {
  const std::string worker =
      Worker("[ \"$left\" != 3 ] || [ -e '" + root_ + "/go' ] || { echo no memory >&2; exit 5; };");
  const auto first = TrainBy(worker);
  ASSERT_FALSE(first.ok());
  EXPECT_THAT(first.error().message, HasSubstr("without row 3 failed with exit code 5"));
  EXPECT_THAT(first.error().message, HasSubstr("trainer/row-3.log', last line: no memory)"));
  EXPECT_THAT(first.error().message, HasSubstr("6 of 7 networks are kept"));
  EXPECT_TRUE(fs::exists(root_ + "/run/trainer/row-3.log"));
  EXPECT_EQ(Starts(), 3) << "one for rows 0 to 2, one for the second try, one for the rest";
  std::ofstream(root_ + "/go") << "on";
  const auto second = TrainBy(worker, /*resume=*/true);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->trained_now, 1);
  EXPECT_FALSE(fs::exists(root_ + "/run/trainer"));
}

TEST_F(WorkerTest, WhatIsNoAnswerIsSaid) {
  EXPECT_THAT(MessageOf("while read -r l; do echo 'failed: no such GPU'; done"),
              HasSubstr("on all rows failed: no such GPU (its output"));
  EXPECT_THAT(MessageOf("while read -r l; do echo epoch 1; done"),
              HasSubstr("answered 'epoch 1' where 'done' or 'failed: WHY' is expected"));
  EXPECT_THAT(MessageOf("true"), HasSubstr("ended without an answer (a worker reads a request"));
  EXPECT_THAT(MessageOf("nonexistent-program"), HasSubstr("failed with exit code 127"));
  EXPECT_THAT(MessageOf("while read -r l; do echo done; done"),
              HasSubstr("did not write what \"out\" names"));
  EXPECT_THAT(MessageOf("printf %70000s x"), HasSubstr("and no end of the line"));
}

TEST_F(WorkerTest, AWorkerThatClosesItsOutputIsEnded) {
  EXPECT_THAT(MessageOf("echo $$ > '" + root_ + "/pid'; exec >&-; exec sleep 60"),
              HasSubstr("closed its stdin or stdout without an answer and lived on"));
  ExpectGone(root_ + "/pid");
}

// Writing to it is an error and no signal, and the next process is asked.
TEST_F(WorkerTest, AWorkerThatClosedItsInputIsEnded) {
  const auto summary = TrainBy(Worker("[ \"$left\" != 3 ] || { cp '" + root_ +
                                      "/made/3.safetensors' \"$out\"; exec <&-; echo done; "
                                      "exec sleep 60; };"));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(Starts(), 2);
}

TEST_F(WorkerTest, ItsInputCanBeOpenedByName) {
  const auto summary = TrainBy(Worker() + " < /dev/stdin");
  ASSERT_TRUE(summary.ok()) << summary.error().message;
}

// A worker that says done and wrote rubbish is as good as one that crashed.
TEST_F(WorkerTest, ABadFileIsTriedAgainInANewProcess) {
  const std::string bad =
      "[ \"$left\" != 3 ] || [ -n \"$fresh\" ] || { echo no disk >&2; echo x > "
      "\"$out\"; echo y > \"$out.tmp\"; echo done; continue; };";
  // $fresh: only in a process that was started for the second try.
  const auto summary =
      TrainBy("fresh=; [ ! -e '" + root_ + "/starts' ] || fresh=1; " + Worker(bad));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(Starts(), 2);
  EXPECT_FALSE(fs::exists(root_ + "/run/trainer"));
  const std::string message = MessageOf(Worker("fresh=; " + bad));
  EXPECT_THAT(message, HasSubstr("without row 3 wrote a bad network"));
  EXPECT_THAT(message, HasSubstr("trainer/row-3.log', last line: no disk)"));
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(root_ + "/run/trainer")) {
    left.push_back(entry.path().filename().string());
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_read | fs::perms::owner_write);
  }
  EXPECT_THAT(left, testing::ElementsAre("row-3.log"));
}

TEST_F(WorkerTest, WhatItWritesIsItsOwners) {
  const std::string worker = Worker(
      "echo > \"$out.tmp\"; stat -c %a \"$out.tmp\" \"${out%/*}\" >> '" + root_ + "/modes';");
  ASSERT_TRUE(TrainBy(worker).ok());
  std::ifstream modes(root_ + "/modes");
  std::string file, folder;
  std::getline(modes, file);
  std::getline(modes, folder);
  EXPECT_EQ(file, "600");
  EXPECT_EQ(folder, "700");
}

// What it wrote before it ended counts; the next one gets a new process.
TEST_F(WorkerTest, AWorkerMayEndAfterAnAnswer) {
  const auto summary = TrainBy(
      Worker("cp '" + root_ + "/made/'${left:-none}.safetensors \"$out\"; echo done; exit 0;"));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
}

TEST_F(WorkerTest, AStopEndsAWorkerThatDoesNotListen) {
  const std::string hang = "sh -c 'echo $$ > \"" + root_ + "/pid\"; sleep 600; true'";
  const std::string worker =
      "trap '' TERM; " + Worker("[ \"$left\" != 1 ] || [ -e '" + root_ + "/go' ] || " + hang + ";");
  ExpectStopWhereItHangs([&](std::stop_token stop) { return TrainBy(worker, false, 1, stop); });
  const auto second = TrainBy(worker, /*resume=*/true);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->trained_now, 5);
}

}  // namespace
}  // namespace lucid
