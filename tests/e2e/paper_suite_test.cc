// tools/paper_suite on a tiny case: from rows to the table, stopped in between and gone on with.
// tools/promise_table beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "support/run_lucid.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;

class PaperSuite : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(RunLucid(Words("data synth2d --rows 60 --seed 4 --out " + folder_ / "points")).code,
              0);
  }
  std::vector<std::string> Arguments() const {
    return {"--case",       "points:2x6", "--data",  folder_.path(), "--out",     folder_ / "out",
            "--time-limit", "60s",        "--lucid", LUCID_PROGRAM,  "--threads", "1"};
  }
  RunOptions Options() const { return {.program = LUCID_PAPER_SUITE}; }
  std::string Step(const std::string& name) const {
    return folder_ / ("out/points-2x6/steps/" + name + ".json");
  }
  const Scratch folder_;
};

TEST_F(PaperSuite, GoesOnWhereItWasStopped) {
  {
    Process process(Arguments(), Options());
    ASSERT_TRUE(
        WaitFor([&] { return std::filesystem::exists(Step("train")) || process.Ended(); }, 100));
    process.Signal(SIGTERM);
    const Outcome stopped = process.Wait();
    EXPECT_EQ(stopped.code, 3) << stopped;
    EXPECT_THAT(stopped.err, HasSubstr("stopped"));
  }
  ASSERT_FALSE(std::filesystem::exists(Step("report")));
  const auto trained = std::filesystem::last_write_time(Step("train"));
  const Outcome outcome = RunLucid(Arguments(), Options());
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_EQ(std::filesystem::last_write_time(Step("train")), trained);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/points-2x6/run/report.html"));
  EXPECT_EQ(ReadBytes(folder_ / "out/table.md"), outcome.out);
  EXPECT_THAT(outcome.out, HasSubstr("| points | 2x6 | 60 for 60 rows |"));
  // N has one row, every other method one for each epsilon.
  const std::string csv = ReadBytes(folder_ / "out/table.csv");
  EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + 1 + 7 * 3) << csv;

  const Outcome again = RunLucid(Arguments(), Options());
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.out, outcome.out);
  EXPECT_THAT(again.err, HasSubstr("report: done before"));
}

// tools/promise_table: every promise has its rows, and a second call repeats nothing.
TEST_F(PaperSuite, PromisesStandSideBySide) {
  const std::vector<std::string> arguments = {"--case",       "points:2x6:60:16",
                                              "--data",       folder_.path(),
                                              "--out",        folder_ / "t",
                                              "--time-limit", "60s",
                                              "--lucid",      LUCID_PROGRAM,
                                              "--threads",    "1",
                                              "--seeds",      "1"};
  const RunOptions options{.program = LUCID_PROMISE_TABLE};
  const Outcome outcome = RunLucid(arguments, options);
  ASSERT_EQ(outcome.code, 0) << outcome;
  for (const char* row : {"| none: N, preset `paper` |", "| `labels`, `clipped`, exact |",
                          "| `full`, with `labels` where proved, E = 0.2 |",
                          "| DP-SGD, E = 1, the paper's constants |", "| ALIBI, E = 0.2 |"}) {
    EXPECT_THAT(outcome.out, HasSubstr(row));
  }
  EXPECT_EQ(ReadBytes(folder_ / "t/promises.md"), outcome.out);
  const Outcome again = RunLucid(arguments, options);
  EXPECT_EQ(again.out, outcome.out);
  EXPECT_EQ(again.err, "");
  EXPECT_EQ(RunLucid({"--case", "points:2x6", "--out", folder_ / "t"}, options).code, 2);
}

// A result made by another command is none, and neither is what was made from it.
TEST_F(PaperSuite, AnotherTimeLimitRepeatsWhatDependsOnIt) {
  ASSERT_EQ(RunLucid(Arguments(), Options()).code, 0);
  std::vector<std::string> arguments = Arguments();
  std::ranges::replace(arguments, std::string("60s"), std::string("50s"));
  const Outcome outcome = RunLucid(arguments, Options());
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("train: done before"));
  for (const char* step : {"bound", "check", "evaluate", "audit", "report"}) {
    EXPECT_THAT(outcome.err, testing::Not(HasSubstr(std::string(step) + ": done before")));
  }
}

// What is kept has no network and names no folder of the machine, and makes the same tables.
TEST_F(PaperSuite, ResultsMakeTheTables) {
  std::vector<std::string> arguments = Arguments();
  const Outcome outcome =
      RunLucid(arguments + std::vector<std::string>{"--results", folder_ / "results"}, Options());
  ASSERT_EQ(outcome.code, 0) << outcome;
  const std::string kept = folder_ / "results/points-2x6/";
  for (const char* file : {"manifest.json", "certificate.json", "certificate.json.receipt",
                           "about.json", "steps/audit.json", "steps/evaluate.json"}) {
    EXPECT_TRUE(std::filesystem::exists(kept + file)) << file;
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kept)) {
    EXPECT_NE(entry.path().extension(), ".safetensors") << entry.path();
  }
  const Outcome tables =
      RunLucid(std::vector<std::string>{"--tables", folder_ / "results"}, Options());
  ASSERT_EQ(tables.code, 0) << tables;
  // They end with what made them.
  EXPECT_THAT(tables.out, testing::StartsWith(outcome.out));
  EXPECT_THAT(tables.out, HasSubstr("| points | 2x6 | "));
  EXPECT_EQ(RunLucid(std::vector<std::string>{"--tables", folder_.path()}, Options()).code, 2);
}

TEST_F(PaperSuite, WordsForWhatIsWrong) {
  const auto refused = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = RunLucid(
        arguments + std::vector<std::string>{"--out", folder_ / "o", "--lucid", LUCID_PROGRAM},
        Options());
    EXPECT_EQ(outcome.code, 2) << outcome;
    return outcome.err;
  };
  EXPECT_THAT(refused({}), HasSubstr("--suite or --case"));
  EXPECT_THAT(refused({"--case", "points"}), HasSubstr("DATA:ARCH"));
  EXPECT_THAT(refused({"--case", "points:2x6:0"}), HasSubstr("0 is not a number of members"));
  EXPECT_THAT(refused({"--case", "absent:2x6", "--data", folder_.path()}), HasSubstr("absent"));
  // A step that fails names itself and its command.
  EXPECT_THAT(refused({"--case", "points:magic", "--data", folder_.path()}),
              HasSubstr("train ended with 2"));
}

}  // namespace
}  // namespace lucid::test
