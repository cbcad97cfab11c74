// `mpirun lucid bound` with the real programs: the bounds and the proof of one process for any
// number of them, whoever is killed, and one clear line where something is wrong.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <random>

#include "e2e/team_fixture.h"

namespace lucid::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TeamBoundTest : public TeamFixture {
 protected:
  TeamBoundTest() {
    EXPECT_EQ(Run("data synth2d --rows 120 --out points").code, 0);
    EXPECT_EQ(Run("train --data points --arch 2x10 --batch 20 --epochs 60 --seed 3 --out run").code,
              0);
  }
  // What must not depend on the number of processes: all but seconds and the command.
  nlohmann::json Findings(const std::string& certificate) {
    const nlohmann::json all = ReadJson(folder_ / certificate);
    nlohmann::json found = {{"classes", all["classes"]}};
    if (all.contains("declared")) found["declared"] = all["declared"];
    for (auto& one : found["classes"]) one.erase("seconds");
    return found;
  }
  std::string Proof(const std::string& certificate) {
    return ReadBytes(folder_ / (certificate + ".proof"));
  }
};

TEST_F(TeamBoundTest, TheBoundsAndTheProofAreThoseOfOneProcess) {
  for (const std::string how : {"--gap 0.01", "--declare 0.05", "--declare 3"}) {
    fs::remove(folder_ / "alone");  // else what is better in it stays
    const Outcome alone = Run("bound run --out alone --threads 1 " + how);
    for (const int processes : {1, 2, 4}) {
      const std::string out = "by" + std::to_string(processes);
      const Outcome made =
          RunTeam(processes, "bound run --threads 1 --json " + how + " --out " + out);
      ASSERT_EQ(made.code, alone.code) << made;
      // Only one of them printed. (Open MPI 5 itself writes there, too, if the job ends with 1
      // or 3.)
      const auto first = made.out.find("\"classes\"");
      EXPECT_NE(first, std::string::npos) << made;
      EXPECT_EQ(first, made.out.rfind("\"classes\"")) << made;
      EXPECT_EQ(Findings("alone"), Findings(out)) << how << " " << processes;
      EXPECT_TRUE(Proof("alone") == Proof(out)) << how << " " << processes;
      fs::remove(folder_ / out);
    }
  }
}

TEST_F(TeamBoundTest, TheRunsOwnFilesAreThoseOfOneProcess) {
  const std::string bound = "bound run --threads 1 --spatial --spatial-limit 1h --leaves 200";
  const char* const files[] = {"run/index.safetensors", "run/index.proof", "run/spatial.lucid",
                               "run/spatial.proof"};
  ASSERT_EQ(Run(bound).code, 0);
  std::vector<std::string> alone;
  for (const char* const file : files) alone.push_back(ReadBytes(folder_ / file));
  for (const int processes : {1, 2, 4}) {
    fs::remove(folder_ / "run/certificate.json");
    for (const char* const file : files) fs::remove(folder_ / file);
    const Outcome made = RunTeam(processes, bound);
    ASSERT_EQ(made.code, 0) << made;
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_TRUE(alone[i] == ReadBytes(folder_ / files[i])) << files[i] << " by " << processes;
    }
  }
  const Outcome checked = RunLucid(Words("run/certificate.json --run run"),
                                   {.folder = folder_.path(), .program = LUCID_CHECK_PROGRAM});
  EXPECT_EQ(checked.code, 0) << checked;
}

// The paper's engine: rank 0 keeps the queue of subsets, the others bound and split them.
TEST_F(TeamBoundTest, ThePapersEngineGivesTheCertificateOfOneProcess) {
  const std::string bound = "bound run --engine milp --gap 0.05 --threads 1 --time-limit 1h ";
  const Outcome alone = Run(bound + "--out alone");
  ASSERT_EQ(alone.code, 0) << alone;
  EXPECT_GT(Findings("alone")["classes"][0]["counters"]["milps"], 1);
  for (const int processes : {1, 2, 4}) {
    const std::string out = "by" + std::to_string(processes);
    const Outcome made = RunTeam(processes, bound + "--out " + out);
    ASSERT_EQ(made.code, 0) << made;
    EXPECT_EQ(Findings("alone"), Findings(out)) << processes;
  }
}

// A machine without the run, with another one, or with another build of the program.
TEST_F(TeamBoundTest, AMachineThatDiffersIsRefused) {
  ASSERT_EQ(Run("train --data points --arch 2x10 --batch 20 --epochs 60 --seed 4 --out other").code,
            0);
  const std::string program = LUCID_PROGRAM " ", bound = "bound run --out c";
  const auto refused = [&](const std::string& there, const std::string& words) {
    const Outcome outcome = RunTwo(program + bound, there);
    EXPECT_NE(outcome.code, 0);
    EXPECT_FALSE(outcome.timed_out);
    EXPECT_THAT(outcome.err, HasSubstr("rank 1 on "));
    EXPECT_THAT(outcome.err, HasSubstr(words));
    EXPECT_FALSE(fs::exists(folder_ / "c"));
  };
  refused(program + "bound absent", "absent");
  refused(program + "bound other", "what is here is not what the leader works on");
  refused(OtherBuild() + " " + bound, "and not the leader's build");
}

// Whichever rank is killed, at whatever moment: the job ends, and what is there is a state from
// which another number of processes, or one without MPI, goes on to bounds that are proved.
TEST_F(TeamBoundTest, AKilledRankLeavesAStateToGoOnFrom) {
  // So many inputs that the search takes some seconds.
  constexpr int kInputs = 13;
  std::mt19937 data(5);
  std::string schema = "column,kind,offset,divisor,categories\n", names, rows;
  for (int j = 0; j < kInputs; ++j) {
    schema += "f" + std::to_string(j) + ",numeric,0,1,\n";
    names += "f" + std::to_string(j) + ",";
  }
  for (int i = 0; i < 60; ++i) {
    int sum = static_cast<int>(data() % 60) - 30;
    for (int j = 0; j < kInputs; ++j) {
      const int value = static_cast<int>(data() % 100);
      sum += 2 * j < kInputs ? value : -value;
      rows += "0." + std::to_string(value) + ",";
    }
    rows += sum > 0 ? "c1\n" : "c0\n";
  }
  fs::create_directory(folder_ / "wide");
  WriteBytes(folder_ / "wide/schema.csv", schema + "label,label,,,c0|c1\n");
  WriteBytes(folder_ / "wide/train.csv", names + "label\n" + rows);
  ASSERT_EQ(
      Run("train --data wide --arch 2x24 --batch 20 --epochs 60 --seed 3 --out wide-run").code, 0);
  const std::string bound = "bound wide-run --gap 0.1 --threads 1 ";
  const Outcome alone =
      RunLucid(Words(bound + "--out alone"), {.folder = folder_.path(), .timeout = 300});
  ASSERT_EQ(alone.code, 0) << alone;
  const std::string folder = fs::canonical(folder_.path());
  std::mt19937 random(std::random_device{}());
  int killed = 0;
  for (int round = 0; killed < 5; ++round) {
    ASSERT_LT(round, 60) << "jobs end too early to kill one of their processes";
    const int processes = 2 + round % 3;
    Process job(Team(processes, bound + "--resume --out killed"), Options());
    const int victim = static_cast<int>(random() % static_cast<unsigned>(processes));
    // Processes meet before the proof is begun; MPI itself may wait for ever for one that dies.
    const auto at_work = [&] {
      for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().filename().string().starts_with("killed.proof.part")) return true;
      }
      return false;
    };
    ASSERT_TRUE(WaitFor([&] { return at_work() || job.Ended(); }, 60));
    SleepSeconds(alone.seconds * static_cast<double>(random() % 100) / 100);
    const pid_t pid = ProcessOfRank(folder, victim);
    if (pid > 0 && ::kill(pid, SIGKILL) == 0) ++killed;
    const Outcome outcome = job.Wait();
    EXPECT_FALSE(outcome.timed_out) << "rank " << victim << " of " << processes << outcome;
    std::printf("rank %d of %d killed after its job's %.2f s; state: %s\n", victim, processes,
                outcome.seconds, fs::exists(folder_ / "killed.journal") ? "saved" : "none yet");
    if (round % 4 == 3) {  // this process alone, for a moment
      EXPECT_THAT(Run(bound + "--resume --time-limit 50ms --out killed").code,
                  testing::AnyOf(0, 3));
    }
  }
  const Outcome rest = RunTeam(3, bound + "--resume --out killed");
  ASSERT_EQ(rest.code, 0) << rest;
  const nlohmann::json whole = ReadJson(folder_ / "alone"), resumed = ReadJson(folder_ / "killed");
  for (std::size_t c = 0; c < 2; ++c) {
    const double upper = whole["classes"][c]["beta_upper"];
    EXPECT_NEAR(resumed["classes"][c]["beta_upper"], upper, 0.12 * upper);
    EXPECT_EQ(resumed["classes"][c]["status"], "gap");
  }
  const Outcome checked = RunLucid(Words("killed --run wide-run"),
                                   {.folder = folder_.path(), .program = LUCID_CHECK_PROGRAM});
  EXPECT_EQ(checked.code, 0) << checked;
}

}  // namespace
}  // namespace lucid::test
