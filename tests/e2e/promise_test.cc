// Declared bounds, decisions about them, the privacy card and the game `deployed`, as a user meets
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "support/command_test.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;

class PromiseCommands : public CommandTest {
 protected:
  void SetUp() override {
    for (const char* command :
         {"data synth2d --rows 400 --seed 4 --out p",
          "train --data p --out r --preset private --train-epsilon 1 --expected-rows 400 --arch "
          "2x6 --members 12 --seed 918273645"}) {
      const Outcome outcome = Run(command);
      ASSERT_EQ(outcome.code, 0) << outcome;
      last_ = outcome.out;
    }
  }
  std::string last_;
};

TEST_F(PromiseCommands, TrainingSaysWhichPromiseIsKept) {
  EXPECT_THAT(last_, HasSubstr("promise full: (epsilon 1, delta 1e-06) for each row"));
  EXPECT_THAT(last_, HasSubstr("promise labels: no, nothing is certified yet"));
}

// Only a person knows whether rows decided a schema; the file may say so, and says nothing here.
TEST_F(PromiseCommands, ASchemaThatDoesNotSayWhoDecidedItIsMentioned) {
  const std::string path = folder_ / "p/schema.csv", signature = "# declared = true\n";
  std::string schema = ReadBytes(path);
  ASSERT_TRUE(schema.ends_with(signature)) << schema;
  const std::string command =
      "train --data p --arch 2x6 --members 2 --preset private --train-epsilon 1 "
      "--expected-rows 400 --out ";
  const auto words = HasSubstr("schema.csv does not say who decided it");
  const Outcome declared = Run(command + "signed");
  EXPECT_EQ(declared.code, 0);
  EXPECT_THAT(declared.err, testing::Not(words));
  schema.resize(schema.size() - signature.size());
  WriteBytes(path, schema);
  const Outcome unmarked = Run(command + "unmarked");
  EXPECT_EQ(unmarked.code, 0);
  EXPECT_THAT(unmarked.err, words);
  const Outcome plain = Run("train --data p --arch 2x6 --members 2 --out plain");
  EXPECT_EQ(plain.code, 0);
  EXPECT_THAT(plain.err, testing::Not(words));
}

// A bound above every confidence is proved, one far below what leaks is refuted by a witness.
TEST_F(PromiseCommands, ADeclaredBoundIsProvedRefutedOrOpen) {
  const Outcome proved = Run("bound r --declare 1000 --json");
  ASSERT_EQ(proved.code, 0) << proved;
  nlohmann::json certificate = proved.Json();
  EXPECT_EQ(certificate["declared"]["outcome"], "proved");
  EXPECT_EQ(certificate["declared"]["way"], "after looking");
  EXPECT_EQ(certificate["declared"]["r"], 1000);
  const Outcome check = RunLucid({folder_ / "r/certificate.json", "--run", folder_ / "r"},
                                 {.program = LUCID_CHECK_PROGRAM});
  EXPECT_EQ(check.code, 0) << check;

  const Outcome refuted = Run("bound r --declare 1e-9 --time-limit 60s");
  ASSERT_EQ(refuted.code, 1) << refuted;
  EXPECT_THAT(refuted.out, HasSubstr("after looking): refuted"));
  EXPECT_THAT(refuted.out, HasSubstr("witness: class"));
  certificate = ReadJson(folder_ / "r/certificate.json");
  EXPECT_EQ(certificate["declared"]["outcome"], "refuted");
  const nlohmann::json after_refuted = certificate;

  const auto attempts = ReadJson(folder_ / "r/manifest.json")["attempts"];
  ASSERT_EQ(attempts.size(), 2);
  EXPECT_EQ(attempts[0]["outcome"], "proved");
  EXPECT_EQ(attempts[1]["outcome"], "refuted");

  // The run's own bound: whatever the outcome, exit code, words and file agree.
  const Outcome own = Run("bound r --time-limit 60s");
  certificate = ReadJson(folder_ / "r/certificate.json");
  const std::string outcome = certificate["declared"]["outcome"];
  EXPECT_EQ(certificate["declared"]["way"], "declared");
  // The promise is about the run's own bound, which bounds that stayed may have proved already.
  bool was_proved = true;
  for (std::size_t c = 0; c < after_refuted["classes"].size(); ++c) {
    was_proved = was_proved && after_refuted["classes"][c]["beta_upper"].get<double>() <=
                                   certificate["declared"]["bounds"][c].get<double>();
  }
  EXPECT_EQ(after_refuted["promise"], was_proved ? "labels+full" : "full");
  EXPECT_EQ(own.code, outcome == "proved" ? 0 : outcome == "refuted" ? 1 : 3) << own;
  EXPECT_EQ(certificate["promise"], outcome == "proved" ? "labels+full" : "full");
  EXPECT_THAT(own.out, HasSubstr("declared): " + outcome));
  EXPECT_EQ(ReadJson(folder_ / "r/manifest.json")["attempts"].size(), 2);

  const Outcome optimum = Run("bound r --optimum --gap 0.5 --time-limit 60s --json");
  ASSERT_EQ(optimum.code, 0) << optimum;
  EXPECT_TRUE(optimum.Json()["declared"].is_null());
  EXPECT_EQ(Run("bound r --optimum --declare 1").code, 2);
}

// What may be published: nothing that is made from the data.
TEST_F(PromiseCommands, TheCardHoldsOptionsOnly) {
  const Outcome first = Run("report r --card --json");
  ASSERT_EQ(first.code, 0) << first;
  const nlohmann::json card = first.Json();
  EXPECT_EQ(card["promise"], "full");
  EXPECT_EQ(card["epsilon"], 1);
  EXPECT_EQ(card["r"], 0.05);
  EXPECT_EQ(card["unit"], "row");
  EXPECT_EQ(card["service"].get<std::string>().size(), 32);
  ASSERT_EQ(Run("bound r --declare 1000").code, 0);
  EXPECT_EQ(Run("report r --card --json").out, first.out) << "whatever is certified";
  const auto manifest = ReadJson(folder_ / "r/manifest.json");
  const std::string said = first.out + ReadBytes(folder_ / "r/card.html");
  EXPECT_EQ(said.find("918273645"), std::string::npos) << "the seed";
  for (const auto& [name, hash] : manifest["hashes"].items()) {
    EXPECT_EQ(said.find(hash.get<std::string>().substr(0, 12)), std::string::npos) << name;
  }
}

// Both worlds are made anew, with fresh secrets; E = 1 allows an AUC of 0.73 at most. The white box
// repeats the training.
TEST_F(PromiseCommands, TheDeployedGameIsHeldByAPrivateRun) {
  for (const char* epsilon : {"0.2", "1", "3"}) {
    const std::string run = std::string("r") + epsilon;
    ASSERT_EQ(Run("train --data p --out " + run + " --preset private --train-epsilon " + epsilon +
                  " --expected-rows 400 --arch 2x6 --members 12")
                  .code,
              0);
    const Outcome outcome = Run("audit " + run +
                                " --access scalar --attacks gap,noise,region,white-box --epsilon 0 "
                                "--games deployed --deployed 12 --json");
    ASSERT_EQ(outcome.code, 0) << outcome;
    int deployed = 0;
    const nlohmann::json json = outcome.Json();
    for (const auto& row : json["rows"]) {
      if (row["world"] != "deployed") continue;
      ++deployed;
      EXPECT_EQ(row["claimed"], std::stod(epsilon));
      EXPECT_EQ(row["delta"], 1e-6);
      EXPECT_EQ(row["covered"], true);
      EXPECT_EQ(row["holds"], true) << row;
    }
    EXPECT_GE(deployed, 2) << "region is played where services answer differently";
    std::vector<std::string> checks;
    for (const auto& check : json["checks"]) {
      checks.push_back(check["check"]);
      EXPECT_EQ(check["holds"], true) << check;
    }
    EXPECT_THAT(checks, testing::ElementsAre("replay", "contribution", "coins", "noise", "sigma",
                                             "draws", "bounds"));
  }
}

// Two servers for every guess, each on a run of its own with a secret of its own; the world without
// the unit is made from the plain file.
TEST_F(PromiseCommands, TheDeployedGameOverHttpIsHeldByAPrivateRun) {
  ASSERT_EQ(Run("data schema p/train.csv --label label --out first").code, 0);
  const std::string schema = ReadBytes(folder_ / "first/schema.csv"), mark = "declared = false";
  ASSERT_NE(schema.find(mark), std::string::npos);
  WriteBytes(folder_ / "signed.csv",
             std::string(schema).replace(schema.find(mark), mark.size(), "declared = true"));
  ASSERT_EQ(Run("data schema p/train.csv --label label --declared signed.csv --out d").code, 0);
  const Outcome trained = Run(
      "train --data d --out h --preset private --train-epsilon 1 --expected-rows 300 --arch 2x6 "
      "--members 12");
  ASSERT_EQ(trained.code, 0) << trained;
  EXPECT_EQ(trained.out.find("after looking"), std::string::npos);
  const Outcome outcome =
      Run("audit h --access scalar --attacks gap,region --epsilon 0 --games deployed --deployed 6 "
          "--http --json");
  ASSERT_EQ(outcome.code, 0) << outcome;
  const nlohmann::json json = outcome.Json();
  EXPECT_EQ(json["notes"].dump().find("held fixed"), std::string::npos) << json["notes"];
  std::set<std::string> played;
  for (const auto& row : json["rows"]) {
    EXPECT_EQ(row["claimed"], 1);
    EXPECT_EQ(row["holds"], true) << row;
    if (row["attack"] == "gap") played.insert(row["access"]);
  }
  EXPECT_THAT(played, testing::ElementsAre("scalar", "scalar over http"));
}

// Whoever discards a run because of what it gave has looked.
TEST_F(PromiseCommands, ARunThatReplacesAnotherWasChosenAfterLooking) {
  const std::string train =
      "train --data p --preset private --train-epsilon 1 --expected-rows 400 --arch 2x6 --members "
      "2 ";
  const Outcome second = Run(train + "--replaces r --out second");
  ASSERT_EQ(second.code, 0) << second;
  EXPECT_THAT(second.out, HasSubstr("the choice of this run instead of run "));
  EXPECT_THAT(second.out, HasSubstr("chosen after looking"));
  EXPECT_THAT(Run("report second --card --json").Json()["statement"].get<std::string>(),
              HasSubstr("chosen after looking"));
  EXPECT_EQ(Run(train + "--replaces nothing --out third").code, 2);
}

// A bound that was made by looking, and a secret that was not the run's, end an audit with 1.
TEST_F(PromiseCommands, AnAuditFindsBoundsThatAreNotDeclaredOnes) {
  const std::string audit = "audit r --access scalar --attacks white-box --epsilon 0";
  ASSERT_EQ(Run(audit).code, 0);
  nlohmann::ordered_json manifest =
      nlohmann::ordered_json::parse(ReadBytes(folder_ / "r/manifest.json"));
  manifest["declared"]["median_hex"] = "0x1p-3";
  manifest["declared"]["median"] = 0.125;
  manifest["declared"]["bound"] = 0.125 * manifest["declared"]["r"].get<double>();
  WriteBytes(folder_ / "r/manifest.json", manifest.dump(2));
  const Outcome outcome = Run(audit);
  EXPECT_EQ(outcome.code, 1) << outcome;
  EXPECT_THAT(outcome.out, HasSubstr("bounds        DOES NOT HOLD"));
}

}  // namespace
}  // namespace lucid::test
