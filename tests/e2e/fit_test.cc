// lucid fit end to end: one plain CSV becomes a run that is checked, measured and can be served.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <random>

#include "lucid/certificate/receipt.h"
#include "lucid/ensemble/ensemble.h"
#include "support/command_test.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class FitTest : public CommandTest {
 protected:
  // People as a spreadsheet has them: an id, a date, a constant, a remark and a label in words. Who
  // is ill is a function of age, job and score.
  void WritePeople(const std::string& name, char separator, int missing = 0) {
    std::mt19937_64 random(7);
    const auto below = [&random](int n) {
      return static_cast<int>(random() % static_cast<unsigned>(n));
    };
    const std::vector<std::string> jobs = {"clerk", "nurse", "cook"};
    std::string text = "id;person;visit;age;job;score;region;remark;result\n";
    int row = 0;
    for (int person = 0; person < 120; ++person) {
      for (int n = 1 + below(3); n > 0; --n, ++row) {
        const int age = 20 + below(60), job = below(3), score = below(1000);
        const bool ill = age / 80.0 + score / 1000.0 + (job == 2 ? 0.5 : 0) > 1.35;
        const bool lacks = missing-- > 0;
        text += fmt::format("{};p{};{}.{}.2024;{};{};0.{:03};EU;remark {};{}\n", 1000 + row, person,
                            1 + below(28), 1 + below(12), lacks ? "" : std::to_string(age),
                            jobs[static_cast<std::size_t>(job)], score, row, ill ? "ill" : "well");
      }
    }
    std::ranges::replace(text, ';', separator);
    WriteBytes(folder_ / name, text);
  }
  // Of the folder `run`, beside those of another run.
  void ExpectNetworksAsIn(const std::string& other) {
    for (const std::string name : {"ensemble.safetensors", "network.safetensors"}) {
      EXPECT_TRUE(ReadBytes(folder_ / ("run/" + name)) ==
                  ReadBytes(folder_ / fmt::format("{}/{}", other, name)))
          << name;
    }
  }
};

TEST_F(FitTest, MakesARunThatIsCheckedMeasuredAndAnswersTheSameFile) {
  WritePeople("people.csv", ';');
  const std::string fit =
      "fit people.csv --label result --unit person --expected-rows 200 --seed 1 --out run";
  const Outcome made = Run(fit + " --json");
  ASSERT_EQ(made.code, 0) << made;
  for (const char* words : {"'id' is left out: an id", "'visit' is left out: dates",
                            "'region' is left out: constant", "'remark' is left out"}) {
    EXPECT_THAT(made.err, HasSubstr(words));
  }
  const nlohmann::json json = made.Json();
  EXPECT_EQ(json["promise"], "labels");
  EXPECT_EQ(json["kept"], true);
  EXPECT_EQ(json["bounds"], "proved and checked");
  EXPECT_GT(json["test_accuracy"], json["majority_share"]);
  EXPECT_EQ(json["guards"][0]["guard"], "none");
  EXPECT_GE(json["guards"].size(), 4U);
  EXPECT_EQ(StandingOf(folder_ / "run/certificate.json").value(), Standing::kChecked);
  EXPECT_TRUE(fs::exists(folder_ / "run/report.html"));
  EXPECT_TRUE(Ensemble::Open(folder_ / "run").ok());
  // lucid-check, another program, says the same.
  const Outcome checked = RunLucid(Words("run/certificate.json --run run"),
                                   {.folder = folder_.path(), .program = LUCID_CHECK_PROGRAM});
  EXPECT_EQ(checked.code, 0) << checked;
  EXPECT_THAT(checked.out, HasSubstr("accepted at level proof"));

  // The commands that it names: labels of the file as it is, and a server. Other separators and
  // columns in another order are the same rows.
  const Outcome labels = Run(json["predict"].get<std::string>().substr(6) + " --names");
  ASSERT_EQ(labels.code, 0) << labels;
  EXPECT_EQ(std::ranges::count(labels.out, '\n'),
            std::ranges::count(ReadBytes(folder_ / "people.csv"), '\n'));
  EXPECT_THAT(labels.out, HasSubstr("\nwell\n"));
  WritePeople("people.tsv", '\t');
  const std::string guard = json["guard"];
  const Outcome tabs = Run("predict run --input people.tsv --clip --names --guard " + guard);
  EXPECT_EQ(tabs.out, labels.out) << tabs;
  Process server(Words(json["serve"].get<std::string>().substr(6) +
                       " --listen 127.0.0.1:0 --admin 127.0.0.1:0 --ready-file ready"),
                 {.folder = folder_.path()});
  EXPECT_TRUE(WaitFor([&] { return fs::exists(folder_ / "ready"); }, 30)) << server.Err();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait().code, 0);

  // Once more: nothing is made again, and the answer is the same.
  const std::string certificate = ReadBytes(folder_ / "run/certificate.json");
  const Outcome again = Run(fit + " --json");
  EXPECT_EQ(again.out, made.out) << again;
  EXPECT_EQ(ReadBytes(folder_ / "run/certificate.json"), certificate);
  // Another question in the same folder.
  const Outcome other = Run("fit people.csv --label job --out run");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err,
              HasSubstr("was begun with another value of --label ('result', now 'job')"));
}

// Killed at random moments it goes on, and ends with the networks of a fit that nobody disturbed.
TEST_F(FitTest, GoesOnAfterAKill) {
  WritePeople("people.csv", ',');
  const std::string fit =
      "fit people.csv --label result --unit person --expected-rows 200 --seed 1 --json --out ";
  const Outcome whole = Run(fit + "whole");
  ASSERT_EQ(whole.code, 0) << whole;
  // Kills at random moments; a run that ended first is made anew.
  std::random_device device;
  int killed = 0;
  for (int attempt = 0; attempt < 100 && killed < 6; ++attempt) {
    Process process(Words(fit + "run"), {.folder = folder_.path()});
    SleepSeconds(whole.seconds * (device() % 1000) / 1000 * 0.8);
    process.Signal(SIGKILL);
    if (process.Wait().signal == SIGKILL) {
      ++killed;
    } else {
      fs::remove_all(folder_ / "run");
    }
  }
  EXPECT_EQ(killed, 6);
  const Outcome last = Run(fit + "run");
  ASSERT_EQ(last.code, 0) << last;
  ExpectNetworksAsIn("whole");
  EXPECT_EQ(last.Json()["bounds"], "proved and checked");
  EXPECT_EQ(last.Json()["promise"], "labels");
  EXPECT_TRUE(fs::exists(folder_ / "run/report.html"));
}

// The same, killed when a stage has said its first word, one stage after the other.
TEST_F(FitTest, GoesOnAfterAKillInEveryStage) {
  WritePeople("people.csv", ',');
  const std::string fit =
      "fit people.csv --label result --unit person --expected-rows 200 --seed 1 --json --out ";
  const Outcome whole = Run(fit + "whole");
  ASSERT_EQ(whole.code, 0) << whole;
  for (int stage = 1; stage <= 5; ++stage) {
    SCOPED_TRACE(stage);
    Process process(Words(fit + "run"), {.folder = folder_.path()});
    const std::string word = fmt::format("{}/6 ", stage);
    EXPECT_TRUE(WaitFor(
        [&] { return process.Err().find(word) != std::string::npos || process.Ended(); }, 60));
    process.Signal(SIGKILL);
    EXPECT_EQ(process.Wait().signal, SIGKILL);
    // Whatever is there is whole.
    const Outcome status = Run("status run");
    EXPECT_TRUE(status.code == 0 || stage == 1) << status;
  }
  const Outcome last = Run(fit + "run");
  ASSERT_EQ(last.code, 0) << last;
  ExpectNetworksAsIn("whole");
  EXPECT_EQ(last.Json()["bounds"], "proved and checked");
  EXPECT_TRUE(fs::exists(folder_ / "run/report.html"));
}

// The command that a fit which ran out of time names goes on with its search, whatever its seed,
// and what it proves is about the same inputs.
TEST_F(FitTest, BoundGoesOnWhereFitRanOutOfTime) {
  WritePeople("people.csv", ',');
  const Outcome made = Run(
      "fit people.csv --label result --unit person --expected-rows 200 --seed 1 --time-limit 1ms "
      "--out run");
  ASSERT_EQ(made.code, 0) << made;
  ASSERT_THAT(made.err, HasSubstr("lucid bound run --resume goes on"));
  const auto before = ReadJson(folder_ / "run/certificate.json");
  EXPECT_EQ(before["domain"], "schema");
  const Outcome more = Run("bound run --resume --time-limit 5m");
  ASSERT_EQ(more.code, 0) << more;
  EXPECT_THAT(more.err, Not(HasSubstr("begins anew")));
  EXPECT_THAT(more.err, HasSubstr("domain schema: only inputs that records encode to"));
  const auto after = ReadJson(folder_ / "run/certificate.json");
  EXPECT_EQ(after["domain"], "schema");
  bool tighter = false;
  for (std::size_t c = 0; c < 2; ++c) {
    const double old = before["classes"][c]["beta_upper"].is_number()
                           ? before["classes"][c]["beta_upper"].get<double>()
                           : 1e300;
    EXPECT_LE(after["classes"][c]["beta_upper"], old);
    tighter = tighter || after["classes"][c]["beta_upper"] < old;
  }
  EXPECT_TRUE(tighter);
  // Nothing that is asked for later makes it worse, unless other inputs are asked for by name.
  EXPECT_THAT(Run("bound run --time-limit 1ms").code, testing::AnyOf(0, 3));
  EXPECT_EQ(ReadJson(folder_ / "run/certificate.json")["classes"][0]["beta_upper"],
            after["classes"][0]["beta_upper"]);
  Run("bound run --domain box --time-limit 1ms");
  EXPECT_EQ(ReadJson(folder_ / "run/certificate.json")["domain"], "box");
}

// Between few rows and many, batches of 512 were a hundred steps: N said one class always.
TEST_F(FitTest, LearnsFromAFewThousandRows) {
  std::mt19937_64 random(3);
  std::string text = "person,a,b,c,y\n";
  for (int row = 0; row < 2080; ++row) {
    const auto a = random() % 1000, b = random() % 1000;
    text += fmt::format("p{},{},{},{},{}\n", row / 8, a, b, random() % 1000,
                        a + b > 1100 ? "yes" : "no");
  }
  WriteBytes(folder_ / "rows.csv", text);
  const Outcome made =
      Run("fit rows.csv --label y --unit person --expected-rows 2000 --seed 1 --time-limit 5s "
          "--json --out run");
  ASSERT_EQ(made.code, 0) << made;
  EXPECT_LT(made.Json()["majority_share"], 0.65);
  EXPECT_GT(made.Json()["test_accuracy"], 0.93);
}

// A column that somebody wants to be left out is, and the fit that goes on is asked for the same.
TEST_F(FitTest, LeavesColumnsOutByName) {
  WritePeople("people.csv", ',');
  const std::string fit = "fit people.csv --label result --expected-rows 200 --seed 1 --out run";
  const Outcome made = Run(fit + " --ignore score,person --json");
  ASSERT_EQ(made.code, 0) << made;
  EXPECT_THAT(made.err, HasSubstr("column 'score' is left out: ignored, as asked"));
  EXPECT_THAT(ReadBytes(folder_ / "run/data/schema.csv"), Not(HasSubstr("score")));
  EXPECT_THAT(Run(fit).err, HasSubstr("was begun with another value of --ignore"));
  EXPECT_THAT(Run("fit people.csv --label result --ignore scor --out other").err,
              HasSubstr("there is no column 'scor'"));
}

TEST_F(FitTest, RefusesMissingCellsUntilItIsToldWhatTheyBecome) {
  WritePeople("people.csv", ',', 3);
  const std::string fit = "fit people.csv --label result --unit person --expected-rows 200 --out ";
  const Outcome refused = Run(fit + "run");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("3 cells are missing, in the columns 'age' (3)"));
  EXPECT_THAT(refused.err, HasSubstr("of --missing, fill makes"));
  // The folder is not held to the question that had no answer.
  EXPECT_FALSE(fs::exists(folder_ / "run"));
  const Outcome dropped = Run(fit + "run --missing drop --json");
  ASSERT_EQ(dropped.code, 0) << dropped;
  EXPECT_EQ(dropped.Json()["rows_left_out"], 3);
  EXPECT_THAT(dropped.err, HasSubstr("3 rows with missing cells were left out"));
  // One of them to be labelled: an error, or what it is told to become.
  EXPECT_THAT(Run("predict run --input people.csv").err, HasSubstr("'' is not a number"));
  EXPECT_EQ(Run("predict run --input people.csv --clip").code, 0);
}

// One of its pairs once took all the time there was: in boxes of 1e-7 lambda was never looked for.
TEST_F(FitTest, ARunThatOnceStalledReachesItsGap) {
  ASSERT_EQ(Run("data synth2d --rows 300 --out points").code, 0);
  const Outcome fit = Run("fit points/train.csv --label label --seed 1 --out run");
  ASSERT_EQ(fit.code, 0) << fit;
  for (const auto& bound : ReadJson(folder_ / "run/certificate.json")["classes"]) {
    EXPECT_EQ(bound["status"], "gap") << bound.dump();
    EXPECT_LT(bound["regions"], 5000) << bound.dump();
  }
}

// A private run whose schema and size came from the data says so; one with both declared does not.
TEST_F(FitTest, FullIsChosenAfterLookingUnlessEverythingIsDeclared) {
  WritePeople("people.csv", ',');
  const Outcome looked =
      Run("fit people.csv --label result --unit person --promise full --json --out looked");
  ASSERT_EQ(looked.code, 0) << looked;
  EXPECT_EQ(looked.Json()["promise_title"].get<std::string>().find("full, chosen after looking") !=
                std::string::npos,
            true)
      << looked;
  EXPECT_THAT(looked.err,
              HasSubstr("the schema and the expected number of rows came from the data"));
  EXPECT_THAT(looked.err, HasSubstr("so few rows"));
  EXPECT_THAT(Run("predict looked --input people.csv --clip").err,
              HasSubstr("chosen after looking"));

  // A copy is no declaration: somebody has to sign it. It does not matter which command trains.
  std::string schema = ReadBytes(folder_ / "looked/data/schema.csv");
  const std::string unsigned_line = "# declared = false\n";
  ASSERT_TRUE(schema.ends_with(unsigned_line)) << schema;
  const std::string train =
      " --preset private --rows-per-unit 2 --expected-rows 200 --arch 2x4 "
      "--epochs 2 --out ";
  EXPECT_THAT(Run("train --data looked/data" + train + "trained").out,
              HasSubstr("the schema came from the data"));
  schema.replace(schema.size() - unsigned_line.size(), std::string::npos, "# declared = true\n");
  WriteBytes(folder_ / "schema.csv", schema);
  ASSERT_EQ(Run("data schema people.csv --label result --unit person --declared schema.csv "
                "--out signed")
                .code,
            0);
  EXPECT_THAT(
      Run("train --data signed" + train + "by_signed").out,
      testing::AllOf(HasSubstr("promise full: (epsilon 1"), Not(HasSubstr("came from the data"))));
  const Outcome declared =
      Run("fit people.csv --label result --unit person --promise full --declared schema.csv "
          "--expected-rows 200 --json --out declared");
  ASSERT_EQ(declared.code, 0) << declared;
  EXPECT_THAT(declared.Json()["promise_title"], Not(HasSubstr("after looking")));
  EXPECT_THAT(declared.Json()["promise_title"], HasSubstr("full"));
  // `both` is an answer that may be no.
  const Outcome both =
      Run("fit people.csv --label result --unit person --promise both --train-epsilon 0.6 "
          "--expected-rows 200 --json --out both");
  EXPECT_EQ(both.code, both.Json()["kept"] == true ? 0 : 1) << both;
  EXPECT_EQ(both.Json()["kept"] == true, both.Json()["promise"] == "labels+full") << both;
}

TEST_F(FitTest, SaysWhatIsWrongAndWhenNothingWasLearned) {
  EXPECT_THAT(Run("fit nowhere.csv --label y --out run").err, HasSubstr("nowhere.csv"));
  WritePeople("people.csv", ',');
  EXPECT_THAT(Run("fit people.csv --label resutl --out run").err,
              HasSubstr("there is no column 'resutl'"));
  WriteBytes(folder_ / "cut.csv", ReadBytes(folder_ / "people.csv") + "1,2\n3,4\n");
  EXPECT_THAT(Run("fit cut.csv --label result --out run").err,
              HasSubstr("2 cells, the header has 9 (and 1 more such lines)"));
  // Labels that nothing tells apart.
  std::mt19937_64 random(1);
  std::string noise = "a,b,y\n";
  for (int i = 0; i < 220; ++i) {
    noise += fmt::format("0.{:04},0.{:04},{}\n", random() % 10000, random() % 10000,
                         i % 4 == 0 ? "yes" : "no");
  }
  WriteBytes(folder_ / "noise.csv", noise);
  const Outcome made =
      Run("fit noise.csv --label y --expected-rows 200 --seed 1 --out noise --json");
  ASSERT_EQ(made.code, 0) << made;
  EXPECT_THAT(made.err, HasSubstr("always saying 'no' would be right on"));
  EXPECT_FALSE(made.Json()["warnings"].empty());
}

// A run that moved together with its data finds it, whatever its manifest says.
TEST_F(FitTest, ARunThatMovedFindsItsDataByItsDigest) {
  WritePeople("people.csv", ',');
  ASSERT_EQ(Run("fit people.csv --label result --expected-rows 200 --out here/run").code, 0);
  fs::rename(folder_ / "here", folder_ / "there");
  const Outcome moved = Run("evaluate there/run --methods none,scalar");
  EXPECT_EQ(moved.code, 0) << moved;
  // Other rows in its place are not taken for it.
  const std::string train = ReadBytes(folder_ / "there/run/data/train.csv");
  WriteBytes(folder_ / "there/run/data/train.csv",
             train.substr(0, train.rfind('\n', train.size() - 2) + 1));
  EXPECT_NE(Run("evaluate there/run --methods none,scalar").code, 0);
}

}  // namespace
}  // namespace lucid::test
