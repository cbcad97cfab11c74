// `mpirun lucid train` with the real programs: the bytes of one process for any number of them,
// whoever is killed, and one clear line where something is wrong.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <random>

#include "e2e/team_fixture.h"

namespace lucid::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TeamTest : public TeamFixture {
 protected:
  TeamTest() { EXPECT_EQ(Run("data synth2d --rows 200 --out points").code, 0); }
  bool Same(const std::string& a, const std::string& b) {
    return ReadBytes(folder_ / (a + "/ensemble.safetensors")) ==
           ReadBytes(folder_ / (b + "/ensemble.safetensors"));
  }

  const std::string train_ = "train --data points --arch 2x8 --batch 20 --epochs 30 --seed 3 ";
};

TEST_F(TeamTest, TheBytesAreThoseOfOneProcess) {
  ASSERT_EQ(Run(train_ + "--out alone").code, 0);
  for (const int processes : {1, 2, 4}) {
    const std::string run = "run" + std::to_string(processes);
    const Outcome made = RunTeam(processes, train_ + "--json --out " + run);
    ASSERT_EQ(made.code, 0) << made;
    EXPECT_EQ(made.Json()["members"], 200) << made;  // and so only one of them printed
    EXPECT_TRUE(Same("alone", run)) << processes;
  }
  // The run is a run.
  EXPECT_EQ(Run("bound run4 --time-limit 60s").code, 0);
}

TEST_F(TeamTest, WhatIsWrongIsSaidOnce) {
  const auto said_once = [](const Outcome& outcome, const std::string& words) {
    EXPECT_NE(outcome.code, 0);
    EXPECT_FALSE(outcome.timed_out);
    const std::size_t first = outcome.err.find(words);
    EXPECT_NE(first, std::string::npos) << words << outcome;
    EXPECT_EQ(first, outcome.err.rfind(words)) << outcome;
  };
  said_once(RunTeam(2, "report r"), "'lucid report' works in one process: start it without mpirun");
  said_once(RunTeam(3, "train --dada points"), "unknown option '--dada'");
  said_once(RunTeam(3, "train --data nowhere --out r"), "'nowhere' is not a data directory");
}

// A machine without the data, or with another program, is refused before anything is trained. Both
// "machines" are this one: a script gives each rank a command of its own.
TEST_F(TeamTest, AMachineThatDiffersIsRefused) {
  ASSERT_EQ(Run("data synth2d --rows 200 --seed 9 --out others").code, 0);
  const std::string program = LUCID_PROGRAM " ";
  const Outcome data = RunTwo(program + train_ + "--out r", program +
                                                   "train --data others --arch 2x8 "
                                                   "--batch 20 --epochs 30 --seed 3 --out r");
  EXPECT_NE(data.code, 0);
  EXPECT_THAT(data.err, HasSubstr("'others' holds other data here than at the leader"));
  EXPECT_THAT(data.err, HasSubstr("rank 1 on "));
  EXPECT_FALSE(fs::exists(folder_ / "r/manifest.json"));
  const Outcome absent =
      RunTwo(program + train_ + "--out r", program + "train --data absent --arch 2x8 --out r");
  EXPECT_NE(absent.code, 0);
  EXPECT_THAT(absent.err, HasSubstr("rank 1 on "));
  EXPECT_THAT(absent.err, HasSubstr("'absent' is not a data directory"));
  const Outcome build =
      RunTwo(program + train_ + "--out r", OtherBuild() + " " + train_ + "--out r");
  EXPECT_NE(build.code, 0);
  EXPECT_THAT(build.err, HasSubstr("and not the leader's build"));
}

// A process that dies before it has met the others, or is another program: MPI alone would wait.
TEST_F(TeamTest, ProcessesThatDoNotMeetEndTheJob) {
  WriteBytes(folder_ / "each",
             "#!/bin/sh\nif [ \"$OMPI_COMM_WORLD_RANK\" = 0 ]; then\n  exec env LUCID_MPI_TIMEOUT=2 "
             LUCID_PROGRAM " " + train_ + "--out r\nfi\nexec sleep 600\n");
  RunOptions options = Options();
  options.timeout = 100;
  const Outcome outcome = RunLucid(
      Words("--allow-run-as-root --oversubscribe --bind-to none -n 2 /bin/sh each"), options);
  EXPECT_FALSE(outcome.timed_out) << outcome;
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("have not met within 2 s"));
}

// Whether the leader works on the run, which it does when all processes have met: MPI itself may
// wait for ever for a process that dies before.
bool IsAtWork(const std::string& folder) {
  const pid_t leader = ProcessOfRank(folder, 0);
  if (leader < 0) return false;
  std::error_code code;
  for (fs::directory_iterator file("/proc/" + std::to_string(leader) + "/fd", code), end;
       !code && file != end; file.increment(code)) {
    std::error_code gone;
    if (fs::read_symlink(file->path(), gone).string().starts_with(folder + "/run/")) return true;
  }
  return false;
}

// Whichever rank is killed, at whatever moment of the work: the job ends, and another number of
// processes goes on to the same bytes. A job that ends before its rank is killed is made anew.
TEST_F(TeamTest, AKilledRankLosesNothing) {
  const std::string train = "train --data points --arch 2x30 --batch 20 --epochs 400 --seed 3 ";
  const Outcome alone = Run(train + "--out alone");
  ASSERT_EQ(alone.code, 0);
  const std::string folder = fs::canonical(folder_.path());
  std::mt19937 random(std::random_device{}());
  int killed = 0;
  for (int round = 0; killed < 4; ++round) {
    ASSERT_LT(round, 40) << "jobs end too early to kill one of their processes";
    const int processes = 2 + round % 3;
    Process job(Team(processes, train + "--resume --out run"), Options());
    const int victim = static_cast<int>(random() % static_cast<unsigned>(processes));
    ASSERT_TRUE(WaitFor([&] { return IsAtWork(folder) || job.Ended(); }, 60));
    SleepSeconds(alone.seconds * static_cast<double>(random() % 100) / 200);
    const pid_t pid = ProcessOfRank(folder, victim);
    if (pid > 0 && ::kill(pid, SIGKILL) == 0) ++killed;
    const Outcome outcome = job.Wait();
    EXPECT_FALSE(outcome.timed_out) << "rank " << victim << " of " << processes << outcome;
    if (outcome.code == 0) fs::remove_all(folder_ / "run");
  }
  const Outcome rest = RunTeam(3, train + "--resume --out run");
  ASSERT_EQ(rest.code, 0) << rest;
  EXPECT_TRUE(Same("alone", "run"));
}

}  // namespace
}  // namespace lucid::test
