// lucid audit end to end: the leak is real, every guard closes it, and a certificate that claims
// too much is found out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "lucid/certificate/certificate.h"
#include "support/command_test.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;

class AuditCommand : public CommandTest {
 protected:
  // 60 rows whose members differ visibly from N.
  void SetUp() override {
    ASSERT_EQ(Run("data synth2d --rows 60 --seed 4 --out p").code, 0);
    ASSERT_EQ(Run("train --data p --out r --batch 8 --lr 0.2 --epochs 40 --arch 2x6").code, 0);
    const Outcome bound = Run("bound r --time-limit 60s --index");
    ASSERT_EQ(bound.code, 0) << bound;
  }
};

TEST_F(AuditCommand, TheLeakIsRealAndEveryGuardClosesIt) {
  const Outcome outcome =
      Run("audit r --access none,scalar,exact,naive-noise --epsilon 0,1 --json");
  ASSERT_EQ(outcome.code, 0) << outcome;
  const nlohmann::json json = outcome.Json();
  EXPECT_EQ(json, ReadJson(folder_ / "r/audit.json"));
  EXPECT_EQ(json["holds"], true);
  int open = 0, closed = 0;
  for (const auto& row : json["rows"]) {
    EXPECT_EQ(row["holds"], true) << row;
    if (row["world"] != "leave-one-out") continue;
    if (row["attack"] != "distinguisher" && row["attack"] != "averaging") continue;
    if (row["access"] == "none") {
      EXPECT_EQ(row["auc"], 1) << row;
      EXPECT_TRUE(row["claimed"].is_null());
      open += row["epsilon_lower"] > 1;
    } else if (row["epsilon"] == 0) {
      // Uniform answers: a coin. 0.15 are six standard errors of 480 guesses, four of 60.
      EXPECT_NEAR(row["auc"].get<double>(), 0.5, row["attack"] == "averaging" ? 0.3 : 0.15) << row;
      EXPECT_EQ(row["epsilon_lower"], 0);
      ++closed;
    }
  }
  EXPECT_GE(open, 1);
  EXPECT_EQ(closed, 2 * 3);
}

// Who can write the file can seal any claim; the attack does not believe it.
TEST_F(AuditCommand, ACertificateThatClaimsTooMuchIsFoundOut) {
  Certificate certificate = LoadCertificate(folder_ / "r/certificate.json").value();
  for (ClassBound& bound : certificate.classes) {
    bound.beta_upper = bound.beta_lower = 0;
    bound.witness.reset();
  }
  ASSERT_TRUE(SaveCertificate(certificate, folder_ / "forged.json").ok());
  const std::string command = "audit r --access scalar --attacks distinguisher --epsilon 0";
  EXPECT_EQ(Run(command).code, 0);
  const Outcome outcome = Run(command + " --certificate forged.json");
  EXPECT_EQ(outcome.code, 1) << outcome;
  EXPECT_THAT(outcome.out, HasSubstr("DOES NOT HOLD"));
}

// No game, no chance: a bound that is a tenth too low is found out by the probabilities themselves.
TEST_F(AuditCommand, EveryBoundBelowALeakIsFoundOutInTheWhiteBox) {
  const Certificate truth = LoadCertificate(folder_ / "r/certificate.json").value();
  const auto audit = [&](double c) {
    Certificate certificate = truth;
    for (ClassBound& bound : certificate.classes) {
      bound.beta_upper = c * bound.beta_lower;
      bound.beta_lower = 0;  // who forges a bound keeps no witness against it
      bound.witness.reset();
    }
    EXPECT_TRUE(SaveCertificate(certificate, folder_ / "forged.json").ok());
    return Run(
        "audit r --access scalar --attacks white-box --epsilon 0,1 --certificate "
        "forged.json");
  };
  for (const double c : {0.9, 0.5, 0.2, 0.03}) {
    const Outcome outcome = audit(c);
    EXPECT_EQ(outcome.code, 1) << c << outcome;
    EXPECT_THAT(outcome.out, HasSubstr("DOES NOT HOLD"));
    EXPECT_THAT(outcome.out, HasSubstr("inf"));
  }
  for (const ClassBound& bound : truth.classes) {
    ASSERT_LE(bound.beta_upper, 1.05 * bound.beta_lower) << "or 1.05 is no true bound";
  }
  EXPECT_EQ(audit(1.05).code, 0);
  EXPECT_EQ(Run("audit r --access scalar,exact,naive-noise --attacks white-box --epsilon 0,1").code,
            0);
}

// The other world is really made, from the file without the row. The paper's promise does not cover
// it, the attacker wins, and the audit says so without calling it a broken claim.
TEST_F(AuditCommand, LabelsDoNotCoverTheDeployedGame) {
  const Outcome outcome = Run(
      "audit r --access scalar,exact --games deployed --attacks gap,region --epsilon 0 --deployed "
      "20 --json");
  ASSERT_EQ(outcome.code, 0) << outcome;
  int lost = 0;
  const nlohmann::json json = outcome.Json();
  for (const auto& row : json["rows"]) {
    EXPECT_EQ(row["world"], "deployed");
    EXPECT_EQ(row["covered"], false);
    EXPECT_TRUE(row["claimed"].is_null());
    if (row["attack"] != "region") continue;
    EXPECT_GT(row["auc"], 0.9) << row;
    EXPECT_EQ(row["lost"], true) << row;
    ++lost;
  }
  EXPECT_EQ(lost, 2);
  const Outcome text =
      Run("audit r --access exact --games deployed --attacks region --epsilon 0 --deployed 20");
  EXPECT_EQ(text.code, 0) << text;
  EXPECT_THAT(text.out, HasSubstr("NOT COVERED by labels: the worlds are told apart"));
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos) << "no colours in a pipe";
}

// A data folder that was made of a plain file: schema and split are made anew without the unit, and
// the spatial guard is told apart as well. Where no plain file is known the audit says so.
TEST_F(AuditCommand, TheDeployedGameBeginsWithThePlainFile) {
  ASSERT_EQ(Run("data schema p/train.csv --label label --out d").code, 0);
  ASSERT_EQ(Run("train --data d --out s --batch 8 --lr 0.2 --epochs 40 --arch 2x6").code, 0);
  const Outcome bound = Run("bound s --time-limit 60s");
  ASSERT_EQ(bound.code, 0) << bound;
  const std::string audit = " --games deployed --attacks region --epsilon 0 --deployed 4 --json";
  const auto notes_of = [](const Outcome& outcome) { return outcome.Json()["notes"].dump(); };
  const Outcome plain = Run("audit s --access scalar,spatial,exact" + audit);
  ASSERT_EQ(plain.code, 0) << plain;
  EXPECT_THAT(notes_of(plain), testing::Not(HasSubstr("held fixed")));
  std::set<std::string> lost;
  const nlohmann::json json = plain.Json();
  for (const auto& row : json["rows"]) {
    EXPECT_EQ(row["world"], "deployed");
    if (row["lost"] == true) lost.insert(row["access"]);
  }
  EXPECT_THAT(lost, testing::ElementsAre("exact", "scalar", "spatial"));
  EXPECT_THAT(notes_of(Run("audit r --access scalar" + audit)),
              HasSubstr("schema and split are held fixed: 'p' does not say of which plain file"));
  WriteBytes(folder_ / "p/train.csv", ReadBytes(folder_ / "p/train.csv") + "0.5,0.5,1\n");
  EXPECT_THAT(notes_of(Run("audit s --access scalar" + audit)), HasSubstr("is no longer the file"));
}

// The same over HTTP, with servers on both sides.
TEST_F(AuditCommand, TheDeployedGameIsLostOverHttpToo) {
  const Outcome outcome = Run(
      "audit r --access scalar --games deployed --attacks region --epsilon 0,1 --deployed 6 --http "
      "--json");
  ASSERT_EQ(outcome.code, 0) << outcome;
  int lost = 0;
  const nlohmann::json json = outcome.Json();
  for (const auto& row : json["rows"]) {
    if (row["access"] != "scalar over http") continue;
    EXPECT_EQ(row["covered"], false);
    EXPECT_GT(row["auc"], 0.9) << row;
    ++lost;
  }
  EXPECT_EQ(lost, 2);
}

TEST_F(AuditCommand, OnlyTheNamedGamesArePlayed) {
  const auto worlds = [&](const std::string& games) {
    const Outcome outcome =
        Run("audit r --access exact --attacks gap,distinguisher --epsilon 0 " + games + " --json");
    EXPECT_EQ(outcome.code, 0) << outcome;
    std::set<std::string> played;
    const nlohmann::json json = outcome.Json();
    for (const auto& row : json["rows"]) played.insert(row["world"]);
    return played;
  };
  using Worlds = std::set<std::string>;
  EXPECT_EQ(worlds(""), (Worlds{"leave-one-out", "re-certified", "train-test"}));
  EXPECT_EQ(worlds("--games leave-one-out"), Worlds{"leave-one-out"});
  EXPECT_EQ(worlds("--games train-test"), Worlds{"train-test"});
  EXPECT_EQ(worlds("--games leave-one-out,train-test,deployed --deployed 2"),
            (Worlds{"leave-one-out", "train-test", "deployed"}));
  EXPECT_EQ(Run("audit r --games magic").code, 2);
}

TEST_F(AuditCommand, WordsForWhatIsWrong) {
  const auto refused = [&](const std::string& arguments) {
    const Outcome outcome = Run("audit " + arguments);
    EXPECT_EQ(outcome.code, 2) << outcome;
    return outcome.err;
  };
  EXPECT_THAT(refused("r --attacks magic"), HasSubstr("'magic'"));
  EXPECT_THAT(refused("r --access magic"), HasSubstr("'magic'"));
  EXPECT_THAT(refused("r --epsilon -1"), HasSubstr("-1"));
  EXPECT_THAT(refused("r --targets 0"), HasSubstr("targets is 0"));
  EXPECT_THAT(refused("r --access exact --certificate absent.json"),
              HasSubstr("needs 'absent.json'"));
  EXPECT_THAT(refused("r --latency-floor 2ms"), HasSubstr("goes with --http"));
  EXPECT_THAT(refused("r --connections 2"), HasSubstr("goes with --http"));
  EXPECT_THAT(refused("r --http --connections 0"), HasSubstr("not from 1 to 1000"));
  EXPECT_THAT(refused("r --api-key-file f"), HasSubstr("goes with --url"));
  EXPECT_THAT(refused("r --url ftp://x"), HasSubstr("is not http://HOST:PORT"));
  EXPECT_THAT(refused("r --url http://127.0.0.1:1"), HasSubstr("cannot be reached"));
  EXPECT_THAT(refused("r --url http://127.0.0.1:1 --http"), HasSubstr("attacked by itself"));
}

// Rows that say which game was played; one against the other is comparable.
TEST_F(AuditCommand, EveryAccessPlaysTheGamesItCan) {
  const Outcome outcome =
      Run("audit r --epsilon 1 --json --targets 20 --retrain 4 --access "
          "none,exact,naive-noise,naive-idp,dpsgd,alibi");
  ASSERT_EQ(outcome.code, 0) << outcome;
  std::map<std::string, std::set<std::string>> worlds;  // of an access
  const nlohmann::json json = outcome.Json();
  for (const auto& row : json["rows"]) {
    if (row["attack"] == "timing") {
      EXPECT_TRUE(row["world"].is_null());
      continue;
    }
    const std::string access = row["access"], world = row["world"];
    worlds[access].insert(world);
    const double queries = row["queries"];
    const bool trained = access == "dpsgd" || access == "alibi";
    EXPECT_EQ(row["delta"], access == "dpsgd" ? 1e-5 : 0) << row;
    // What is claimed: queries compose, a private network is private whatever is asked, and
    // nothing is promised of labels' DP, of N, or where the region is not the theorem's.
    if (access == "dpsgd") {
      EXPECT_EQ(row["claimed"], 1) << row;
    } else if (access == "naive-noise" ||
               (!trained && access != "none" && world == "leave-one-out")) {
      EXPECT_EQ(row["claimed"], queries) << row;
    } else {
      EXPECT_TRUE(row["claimed"].is_null()) << row;
    }
  }
  using Worlds = std::set<std::string>;
  const Worlds both = {"leave-one-out", "train-test"};
  EXPECT_EQ(worlds["none"], both);
  EXPECT_EQ(worlds["exact"], (Worlds{"leave-one-out", "re-certified", "train-test"}));
  EXPECT_EQ(worlds["naive-noise"], both);
  EXPECT_EQ(worlds["naive-idp"], both);
  EXPECT_EQ(worlds["dpsgd"], (Worlds{"retrained", "train-test"}));
  EXPECT_EQ(worlds["alibi"], (Worlds{"retrained", "train-test"}));
}

// The same leak and the same guard, through the server that users run.
TEST_F(AuditCommand, OverHttpTheLeakIsRealAndClosed) {
  const Outcome outcome =
      Run("audit r --http --latency-floor 2ms --connections 3 --access none,exact --epsilon 0,1 "
          "--attacks gap,distinguisher,timing --json");
  ASSERT_EQ(outcome.code, 0) << outcome;
  int open = 0, closed = 0, timed = 0, floored = 0;
  const nlohmann::json json = outcome.Json();
  for (const auto& row : json["rows"]) {
    EXPECT_EQ(row["holds"], true) << row;
    const std::string access = row["access"];
    timed += row["attack"] == "timing" && access.ends_with(" over http");
    floored += access.ends_with(" over http, floor 2 ms");
    if (row["attack"] != "distinguisher" || !access.ends_with(" over http")) continue;
    if (access == "none over http") {
      EXPECT_EQ(row["auc"], 1) << row;
      ++open;
    } else if (row["epsilon"] == 0) {
      // 0.3 are four standard errors of 60 guesses.
      EXPECT_NEAR(row["auc"].get<double>(), 0.5, 0.3) << row;
      ++closed;
    }
  }
  EXPECT_EQ(open, 1);
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(timed, 2);
  EXPECT_EQ(floored, 2);
}

// A server that somebody else runs: with its key, without it, and when it has had enough.
TEST_F(AuditCommand, AServerElsewhereIsAttackedByItsUrl) {
  for (const char* id : {"calm", "hasty"}) {
    const std::string rate = id == std::string("hasty") ? " --rate 1 --burst 3" : "";
    const Outcome made = Run(std::string("keys create --file keys.toml --id ") + id + rate);
    ASSERT_EQ(made.code, 0) << made;
    WriteBytes(folder_ / id, made.out);
  }
  Process server(
      Words("serve r --unchecked --key-file guard.key --listen 127.0.0.1:0 --admin 127.0.0.1:0 "
            "--api-keys keys.toml --ready-file ready"),
      {.folder = folder_.path()});
  ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(folder_ / "ready"); }, 30));
  const std::string url = "http://" + ReadJson(folder_ / "ready")["listen"].get<std::string>();
  const std::string command = "audit r --json --attacks gap,timing --url " + url;

  const Outcome outcome = Run(command + " --api-key-file calm");
  ASSERT_EQ(outcome.code, 0) << outcome;
  const nlohmann::json rows = outcome.Json()["rows"];
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0]["access"], url);
  EXPECT_EQ(rows[0]["world"], "train-test");
  EXPECT_TRUE(rows[0]["claimed"].is_null());
  EXPECT_EQ(rows[1]["attack"], "timing");

  const auto refused = [&](const std::string& arguments) {
    const Outcome refusal = Run(command + arguments);
    EXPECT_EQ(refusal.code, 2) << refusal;
    EXPECT_EQ(std::ranges::count(refusal.err, '\n'), 1) << refusal;
    return refusal.err;
  };
  EXPECT_THAT(refused(" --quiet"), HasSubstr("401"));
  EXPECT_THAT(refused(" --quiet --api-key-file hasty"), HasSubstr("429"));
}

}  // namespace
}  // namespace lucid::test
