// lucid evaluate end to end: every method on real runs, what it says of what is missing, and that
// guards cost what theory says.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "support/command_test.h"

namespace lucid::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class Evaluate : public CommandTest {
 protected:
  // 60 rows whose members differ visibly from N.
  void MakeRun() {
    ASSERT_EQ(Run("data synth2d --rows 60 --seed 4 --out p").code, 0);
    const Outcome trained = Run("train --data p --out r --batch 8 --lr 0.2 --epochs 40 --arch 2x6");
    ASSERT_EQ(trained.code, 0) << trained;
  }
  void Certify(const std::string& options) {
    const Outcome bound = Run("bound r --time-limit 60s " + options);
    ASSERT_EQ(bound.code, 0) << bound;
  }
  // {method, epsilon as printed}: row.
  static std::map<std::pair<std::string, std::string>, nlohmann::json> RowsOf(
      const nlohmann::json& json) {
    std::map<std::pair<std::string, std::string>, nlohmann::json> rows;
    for (const auto& row : json["rows"]) rows[{row["method"], row["epsilon"].dump()}] = row;
    return rows;
  }
};

TEST_F(Evaluate, BoundEndsWithTheSameFigures) {
  MakeRun();
  const Outcome bound = Run("bound r --time-limit 60s --index");
  ASSERT_EQ(bound.code, 0) << bound;
  const Outcome evaluated = Run("evaluate r --methods none,scalar,exact --epsilon 0 --json");
  ASSERT_EQ(evaluated.code, 0) << evaluated;
  EXPECT_THAT(bound.out, HasSubstr("expected at epsilon 0 on 25 test rows:\n"));
  auto rows = RowsOf(evaluated.Json());
  const auto percent = [&](const std::string& method, const char* field) {
    return 100 * rows[{method, method == "none" ? "null" : "0.0"}][field].get<double>();
  };
  EXPECT_THAT(bound.out, HasSubstr(fmt::format("  N alone  accuracy {:6.2f} %\n",
                                               percent("none", "accuracy"))));
  for (const char* guard : {"scalar", "exact"}) {
    EXPECT_THAT(bound.out, HasSubstr(fmt::format("  {:<8} accuracy {:6.2f} %, noised {:6.2f} %\n",
                                                 guard, percent(guard, "accuracy"),
                                                 percent(guard, "noised_fraction"))));
  }
  EXPECT_GT(percent("scalar", "noised_fraction"), 0) << "the run has members that differ from N";
  // Without test rows it has nothing to say.
  ASSERT_TRUE(fs::remove(folder_ / "p/test.csv"));
  const Outcome without = Run("bound r --time-limit 60s --index");
  EXPECT_EQ(without.code, 0) << without;
  EXPECT_THAT(without.out, Not(HasSubstr("expected at")));
  EXPECT_THAT(without.err, Not(HasSubstr("expected")));
}

TEST_F(Evaluate, EveryMethodHasARowPerEpsilon) {
  MakeRun();
  Certify("--index");
  const Outcome outcome =
      Run("evaluate r --methods none,scalar,exact,naive-noise,naive-idp,dpsgd,alibi --epsilon 0,1 "
          "--repeats 2 --json --csv t.csv --latex t.tex");
  ASSERT_EQ(outcome.code, 0) << outcome;
  const nlohmann::json json = outcome.Json();
  EXPECT_EQ(json, ReadJson(folder_ / "r/evaluation.json"));
  auto rows = RowsOf(json);
  EXPECT_EQ(rows.size(), 1 + 6 * 2);
  const double accuracy = rows[{"none", "null"}]["accuracy"];
  EXPECT_NEAR(accuracy, ReadJson(folder_ / "r/manifest.json")["test_accuracy"].get<double>(),
              1e-12);

  // Each one's noised set is contained in the one before, and all of them in every input.
  const auto noised = [&](const std::string& method) {
    return rows[{method, "0.0"}]["noised_fraction"].get<double>();
  };
  EXPECT_EQ(noised("naive-noise"), 1);
  EXPECT_LE(noised("scalar"), 1);
  EXPECT_LE(noised("exact"), noised("scalar"));
  EXPECT_EQ(noised("exact"), noised("naive-idp"));
  EXPECT_GT(noised("scalar"), 0) << "a guard that noises nothing shows nothing";
  EXPECT_EQ((rows[{"exact", "1.0"}]["accuracy"]), (rows[{"naive-idp", "1.0"}]["accuracy"]));

  // Two classes, the mechanism on everything: p a + (1 - p)(1 - a), with p = 1/2 at epsilon 0.
  EXPECT_NEAR((rows[{"naive-noise", "0.0"}]["accuracy"].get<double>()), 0.5, 1e-12);
  const double p = std::exp(0.5) / (std::exp(0.5) + 1);
  EXPECT_NEAR((rows[{"naive-noise", "1.0"}]["accuracy"].get<double>()),
              p * accuracy + (1 - p) * (1 - accuracy), 1e-9);

  // Sampled beside expected, and said plainly what is promised.
  for (const auto& [name, row] : rows) {
    const std::string guarantee = row["guarantee"];
    if (name.first == "dpsgd") {
      EXPECT_THAT(guarantee, HasSubstr("1e-05)-DP"));
      EXPECT_GT(row["sigma"], 0);
    } else if (name.first == "alibi") {
      EXPECT_THAT(guarantee, HasSubstr("label-DP"));
    } else if (name.first != "none") {
      const bool naive = name.first.starts_with("naive");
      EXPECT_THAT(guarantee, HasSubstr(naive ? "DP per query" : "labels: epsilon"));
      EXPECT_LE(std::abs(row["sampled_accuracy"].get<double>() - row["accuracy"].get<double>()),
                5 * row["sampled_standard_error"].get<double>() + 1e-3);
    }
    EXPECT_GT(row["access_us_p50"], 0);
    EXPECT_GE(row["access_us_p99"], row["access_us_p50"]);
    EXPECT_NEAR(row["accuracy_drop"].get<double>(), accuracy - row["accuracy"].get<double>(),
                1e-12);
  }
  // 0 became 0.02 for what is trained, and the row says so.
  EXPECT_EQ((rows.count({"dpsgd", "0.0"})), 0);
  EXPECT_EQ((rows[{"dpsgd", "0.02"}]["epsilon_asked"]), 0);
  EXPECT_THAT(ReadBytes(folder_ / "t.csv"), HasSubstr("method,epsilon,"));
  EXPECT_THAT(ReadBytes(folder_ / "t.tex"), HasSubstr("\\begin{tabular}"));
}

TEST_F(Evaluate, ByDefaultWhatHasNoFilesIsLeftOutAndSaid) {
  MakeRun();
  const Outcome outcome = Run("evaluate r --repeats 1 --epsilon 1 --json");
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("left out scalar"));
  EXPECT_THAT(outcome.err, HasSubstr("lucid bound r"));
  auto rows = RowsOf(outcome.Json());
  EXPECT_EQ(rows.size(), 5);
  EXPECT_EQ(outcome.Json()["left_out"].size(), 3);
  EXPECT_EQ(rows.count({"scalar", "1.0"}), 0);
}

TEST_F(Evaluate, WhatIsAskedForByNameMustBeThere) {
  MakeRun();
  const Outcome outcome = Run("evaluate r --methods none,exact");
  EXPECT_EQ(outcome.code, 2) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("lucid bound r"));
  EXPECT_FALSE(fs::exists(folder_ / "r/evaluation.json"));
  Certify("--no-index");
  const Outcome index = Run("evaluate r --methods exact");
  EXPECT_EQ(index.code, 2) << index;
  EXPECT_THAT(index.err, AllOf(HasSubstr("index.safetensors"), HasSubstr("lucid bound r")));
}

TEST_F(Evaluate, TrainedBaselinesAreKept) {
  MakeRun();
  const std::string command = "evaluate r --methods dpsgd,alibi --epsilon 1 --repeats 2 --json";
  const nlohmann::json first = Run(command).Json();
  const auto files = [&] {
    std::map<std::string, std::string> bytes;
    for (const auto& entry : fs::directory_iterator(folder_ / "r/baselines")) {
      bytes[entry.path().filename().string()] = ReadBytes(entry.path().string());
    }
    return bytes;
  };
  const auto before = files();
  EXPECT_EQ(before.size(), 2 * 2 * 2);
  const nlohmann::json again = Run(command).Json();
  EXPECT_EQ(files(), before);
  EXPECT_EQ(again["rows"][0]["accuracy"], first["rows"][0]["accuracy"]);
  EXPECT_EQ(again["rows"][0]["training_seconds"], first["rows"][0]["training_seconds"]);
  // Another clip is another network.
  EXPECT_EQ(Run(command + " --recipe paper --clip-norm 0.5").code, 0);
  EXPECT_EQ(files().size(), before.size() + 2 * 2);
}

TEST_F(Evaluate, SeededNoiseRepeatsAndSaysThatItIsNotPrivate) {
  MakeRun();
  const std::string command =
      "evaluate r --methods dpsgd --epsilon 1 --repeats 1 --seeded-noise --seed 3 --json";
  const Outcome first = Run(command);
  ASSERT_EQ(first.code, 0) << first;
  EXPECT_THAT(first.Json()["rows"][0]["guarantee"].get<std::string>(), HasSubstr("none"));
  const auto weights = [&] {
    for (const auto& entry : fs::directory_iterator(folder_ / "r/baselines")) {
      if (entry.path().extension() == ".safetensors") return ReadBytes(entry.path().string());
    }
    return std::string();
  };
  const std::string before = weights();
  fs::remove_all(folder_ / "r/baselines");
  ASSERT_EQ(Run(command).code, 0);
  EXPECT_EQ(weights(), before);
}

TEST_F(Evaluate, WordsForWhatIsWrong) {
  MakeRun();
  const auto refused = [&](const std::string& arguments) {
    const Outcome outcome = Run("evaluate " + arguments);
    EXPECT_EQ(outcome.code, 2) << outcome;
    EXPECT_THAT(outcome.err, Not(HasSubstr("\n\n")));
    return outcome.err;
  };
  EXPECT_THAT(refused("r --methods magic"), HasSubstr("'magic'"));
  EXPECT_THAT(refused("r --methods none --epsilon -1"), HasSubstr("-1"));
  EXPECT_THAT(refused("r --methods none --test absent.csv"), HasSubstr("absent.csv"));
  EXPECT_THAT(refused("r --methods dpsgd --epsilon 0.02 --accountant classic"),
              HasSubstr("classic"));
  EXPECT_THAT(refused("nowhere --methods none"), HasSubstr("nowhere"));
  fs::rename(folder_ / "p", folder_ / "q");
  EXPECT_THAT(refused("r --methods none"), HasSubstr("--test"));
  EXPECT_EQ(Run("evaluate r --methods none --test q/test.csv").code, 0);
  EXPECT_THAT(refused("r --methods dpsgd --test q/test.csv"), HasSubstr("training rows"));
}

TEST_F(Evaluate, MoreThanTwoClasses) {
  std::string csv = "a,b,label\n", schema =
                                       "column,kind,offset,divisor,categories\na,numeric,0,1,\n"
                                       "b,numeric,0,1,\nlabel,label,,,x|y|z\n";
  for (int i = 0; i < 60; ++i) {
    const double a = (i * 37 % 60) / 60.0, b = (i * 17 % 60) / 60.0;
    csv += std::to_string(a) + "," + std::to_string(b) + "," +
           std::to_string(a > 0.6 ? 2 : (b > 0.5 ? 1 : 0)) + "\n";
  }
  fs::create_directories(folder_ / "t");
  WriteBytes(folder_ / "t/schema.csv", schema);
  WriteBytes(folder_ / "t/train.csv", csv);
  WriteBytes(folder_ / "t/test.csv", csv);
  ASSERT_EQ(Run("train --data t --out r --batch 8 --lr 0.2 --epochs 40 --arch 1x8").code, 0);
  Certify("--index");
  const Outcome outcome =
      Run("evaluate r --methods none,scalar,exact,naive-noise,naive-idp,dpsgd,alibi --epsilon 0 "
          "--repeats 1 --json");
  ASSERT_EQ(outcome.code, 0) << outcome;
  auto rows = RowsOf(outcome.Json());
  EXPECT_EQ(rows.size(), 7);
  EXPECT_NEAR((rows[{"naive-noise", "0.0"}]["accuracy"].get<double>()), 1.0 / 3, 1e-12);
  EXPECT_EQ((rows[{"exact", "0.0"}]["accuracy"]), (rows[{"naive-idp", "0.0"}]["accuracy"]));
}

}  // namespace
}  // namespace lucid::test
