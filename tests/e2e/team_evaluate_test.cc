// `mpirun lucid evaluate` and `mpirun lucid audit` with the real programs: the figures of one
// process for any number of them.
#include <gmock/gmock.h>

#include <set>

#include "e2e/team_fixture.h"

namespace lucid::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TeamEvaluateTest : public TeamFixture {
 protected:
  TeamEvaluateTest() {
    EXPECT_EQ(Run("data synth2d --rows 60 --seed 4 --out points").code, 0);
    EXPECT_EQ(Run("train --data points --out run --batch 8 --lr 0.2 --epochs 40 --arch 2x6").code,
              0);
    EXPECT_EQ(Run("bound run --index").code, 0);
  }
  // All but the command, times, and what is drawn anew each time.
  static nlohmann::json Figures(nlohmann::json all) {
    static const std::set<std::string> kOther = {
        "access_us_p50",    "access_us_p99",          "access_queries", "training_seconds",
        "sampled_accuracy", "sampled_standard_error", "welch_t"};
    all.erase("command");
    nlohmann::json rows = nlohmann::json::array();
    for (nlohmann::json& row : all["rows"]) {
      if (row.value("attack", "") == "timing") continue;
      for (const std::string& name : kOther) row.erase(name);
      rows.push_back(row);
    }
    all["rows"] = rows;
    return all;
  }
};

TEST_F(TeamEvaluateTest, TheFiguresAreThoseOfOneProcess) {
  const std::string evaluate =
      "evaluate run --epsilon 0,1 --repeats 2 --seeded-noise --epochs 5 --threads 1 --json "
      "--methods none,scalar,exact,naive-noise,naive-idp,dpsgd,alibi";
  const Outcome alone = Run(evaluate);
  ASSERT_EQ(alone.code, 0) << alone;
  for (const int processes : {1, 2, 4}) {
    fs::remove_all(folder_ / "run/baselines");  // else nothing would be trained
    const Outcome made = RunTeam(processes, evaluate + " --out by" + std::to_string(processes));
    ASSERT_EQ(made.code, 0) << made;
    EXPECT_EQ(Figures(alone.Json()),
              Figures(ReadJson(folder_ / ("by" + std::to_string(processes)))))
        << processes;
  }
}

TEST_F(TeamEvaluateTest, WhatHasNothingToShareIsSaid) {
  const Outcome made = RunTeam(2, "evaluate run --methods none,scalar");
  EXPECT_EQ(made.code, 0) << made;
  EXPECT_THAT(made.err, HasSubstr("nothing to share"));
}

// With so large an epsilon nothing is drawn but N's own label, so that games are the same, too.
TEST_F(TeamEvaluateTest, TheAuditIsThatOfOneProcess) {
  const std::string audit =
      "audit run --access none,scalar,exact --epsilon 60 --targets 40 --threads 1 --deployed 2 "
      "--json";
  const Outcome alone = Run(audit + " --out alone");
  for (const int processes : {1, 2, 4}) {
    const std::string out = "by" + std::to_string(processes);
    const Outcome made = RunTeam(processes, audit + " --out " + out);
    ASSERT_EQ(made.code, alone.code) << made;
    const nlohmann::json a = ReadJson(folder_ / "alone"), b = ReadJson(folder_ / out);
    EXPECT_GT(a["rows"].size(), 20U);
    EXPECT_EQ(Figures(a), Figures(b)) << processes;
  }
}

// Networks that are trained anew are drawn anew. That they are trained elsewhere, too, shows in
// nothing.
TEST_F(TeamEvaluateTest, TheGamesWithTrainingsEnd) {
  const Outcome made =
      RunTeam(3,
              "audit run --access dpsgd,alibi --epsilon 1 --targets 20 --retrain 4 "
              "--threads 1 --attacks gap,distinguisher --json");
  ASSERT_EQ(made.code, 0) << made;
  EXPECT_THAT(made.out, HasSubstr("retrained"));
}

// Worlds without a unit that begin with the plain file: a process makes several of them.
TEST_F(TeamEvaluateTest, WorldsFromThePlainFileAreMadeByAll) {
  ASSERT_EQ(Run("data synth2d --rows 160 --seed 4 --out p").code, 0);
  ASSERT_EQ(Run("data schema p/train.csv --label label --out d").code, 0);
  ASSERT_EQ(Run("train --data d --out plain --batch 8 --epochs 40 --arch 2x6 --seed 1").code, 0);
  ASSERT_EQ(Run("bound plain --time-limit 60s").code, 0);
  const Outcome made = RunTeam(2,
                               "audit plain --access exact --games deployed --attacks region "
                               "--epsilon 0 --deployed 8 --threads 1 --out by2");
  ASSERT_EQ(made.code, 0) << made;
  EXPECT_TRUE(ReadJson(folder_ / "by2")["notes"].empty()) << "the plain file was found by all";
}

// A machine with another run is refused.
TEST_F(TeamEvaluateTest, AMachineThatDiffersIsRefused) {
  ASSERT_EQ(Run("train --data points --out other --batch 8 --epochs 41 --arch 2x6").code, 0);
  const std::string program = LUCID_PROGRAM " ";
  for (const std::string command : {"evaluate", "audit"}) {
    const Outcome outcome = RunTwo(program + command + " run", program + command + " other");
    EXPECT_NE(outcome.code, 0);
    EXPECT_FALSE(outcome.timed_out);
    EXPECT_THAT(outcome.err, HasSubstr("rank 1 on "));
    EXPECT_THAT(outcome.err, HasSubstr("what is here is not what the leader works on"));
  }
}

}  // namespace
}  // namespace lucid::test
