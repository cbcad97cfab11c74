// lucid status, and what lucid bound advises: from an unfinished training to a checked run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/command_test.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class StatusTest : public CommandTest {
 protected:
  nlohmann::json Status() {
    const Outcome outcome = Run("status r --json");
    EXPECT_EQ(outcome.code, 0) << outcome;
    return outcome.Json();
  }
};

TEST_F(StatusTest, FollowsARunFromTrainingToReport) {
  ASSERT_EQ(Run("data synth2d --rows 30 --seed 4 --out p").code, 0);
  ASSERT_EQ(Run("train --data p --out r --batch 8 --lr 0.2 --epochs 60 --arch 2x6").code, 0);
  nlohmann::json status = Status();
  EXPECT_EQ(status["stage"], "trained");
  EXPECT_EQ(status["members"], 30);
  EXPECT_EQ(status["promise"], "none");
  EXPECT_EQ(status["next"], "lucid bound r");

  const Outcome bound = Run("bound r");
  ASSERT_EQ(bound.code, 0) << bound;
  EXPECT_THAT(bound.err, HasSubstr("advice: have the proof checked"));
  EXPECT_THAT(bound.err,
              HasSubstr("promise labels, epsilon 0, guard exact: lucid serve r --guard"));
  EXPECT_THAT(Run("bound r --quiet").err, Not(HasSubstr("advice")));
  status = Status();
  EXPECT_EQ(status["stage"], "bounded");
  EXPECT_EQ(status["bounds"], "proved");
  EXPECT_EQ(status["classes"].size(), 2U);
  EXPECT_GT(status["classes"][0]["beta_upper"], 0);
  EXPECT_EQ(status["promise"], "labels");
  EXPECT_EQ(status["next"], "lucid-check r/certificate.json --run r");

  ASSERT_EQ(RunLucid({"r/certificate.json", "--run", "r"},
                     {.folder = folder_.path(), .program = LUCID_CHECK_PROGRAM})
                .code,
            0);
  status = Status();
  EXPECT_EQ(status["stage"], "checked");
  EXPECT_EQ(status["next"], "lucid evaluate r");
  ASSERT_EQ(Run("evaluate r --methods none,scalar").code, 0);
  EXPECT_EQ(Status()["evaluation"], "there");
  EXPECT_EQ(Status()["next"], "lucid audit r");

  const Outcome text = Run("status r");
  EXPECT_THAT(text.out, HasSubstr("bounds       proved and checked"));
  EXPECT_THAT(text.out, HasSubstr("guards       scalar"));
  EXPECT_THAT(text.out, HasSubstr("promise      labels"));
}

TEST_F(StatusTest, CountsTheNetworksOfAnUnfinishedTraining) {
  ASSERT_EQ(Run("data synth2d --rows 6 --seed 4 --out p").code, 0);
  // A command that gives every network but that without row 3.
  ASSERT_EQ(Run("train --data p --out own --epochs 2 --arch 1x4").code, 0);
  std::ofstream(folder_ / "trainer.sh")
      << "[ \"$LUCID_LEAVE_OUT\" != 3 ] || exit 1\ncp own/network.safetensors \"$LUCID_OUT\"\n";
  const Outcome failed =
      RunLucid({"train", "--data", "p", "--out", "r", "--arch", "1x4", "--threads", "1",
                "--unchecked-trainer", "--trainer", "sh trainer.sh"},
               {.folder = folder_.path()});
  EXPECT_EQ(failed.code, 2) << failed;
  const nlohmann::json status = Status();
  EXPECT_EQ(status["stage"], "training");
  EXPECT_EQ(status["networks"]["of"], 7);
  EXPECT_GE(status["networks"]["there"], 4);
  EXPECT_LT(status["networks"]["there"], 7);
  EXPECT_THAT(status["next"].get<std::string>(), HasSubstr("--resume"));
}

TEST_F(StatusTest, WhatIsNoRunIsSaidToBeNone) {
  EXPECT_EQ(Run("status nowhere").code, 2);
  fs::create_directories(folder_ / "empty");
  const Outcome outcome = Run("status empty");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("holds no run"));
}

}  // namespace
}  // namespace lucid::test
