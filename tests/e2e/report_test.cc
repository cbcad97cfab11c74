// lucid report and lucid demo as a user meets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "support/run_lucid.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Demo, RunsTheWholeLineAndAgain) {
  const Scratch scratch;
  const RunOptions options{.folder = scratch.path(), .timeout = 180};
  const auto command = Words("demo --out demo --rows 60 --grid 20 --json");
  const Outcome first = RunLucid(command, options);
  ASSERT_EQ(first.code, 0) << first;
  const auto json = first.Json();
  EXPECT_EQ(json.at("members"), 60);
  EXPECT_EQ(json.at("trained_now"), 61);
  EXPECT_EQ(json.at("audit_holds"), true);
  for (const char* file :
       {"report.html", "leak_map.svg", "run/certificate.json", "run/spatial.lucid",
        "run/index.safetensors", "run/bounds.csv", "run/evaluation.json", "run/audit.json"}) {
    EXPECT_TRUE(std::filesystem::exists(scratch / ("demo/" + std::string(file)))) << file;
  }
  const std::string page = ReadBytes(scratch / "demo/report.html");
  EXPECT_THAT(page, Not(HasSubstr("class=\"missing\"")));
  EXPECT_THAT(page, HasSubstr("What each guard noises"));
  EXPECT_THAT(page, HasSubstr("Two promises, side by side"));
  EXPECT_THAT(page, HasSubstr("The game of two services"));
  EXPECT_THAT(page, HasSubstr("computed again")) << "or the checks of the private run are nowhere";
  EXPECT_THAT(json.at("private_promise").get<std::string>(), HasSubstr("full"));

  const Outcome again = RunLucid(command, options);
  ASSERT_EQ(again.code, 0) << again;
  EXPECT_EQ(again.Json().at("trained_now"), 0);
  EXPECT_EQ(again.Json().at("beta_upper"), json.at("beta_upper"));
}

class ReportCommand : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* command : {"data synth2d --rows 30 --out points",
                                "train --data points --arch 2x8 --epochs 5 --out run"}) {
      const Outcome outcome = Run(command);
      ASSERT_EQ(outcome.code, 0) << outcome;
    }
  }
  Outcome Run(const std::string& command) const {
    return RunLucid(Words(command), {.folder = scratch_.path()});
  }
  const Scratch scratch_;
};

TEST_F(ReportCommand, GrowsWithWhatIsThere) {
  Outcome report = Run("report run --grid 20");
  ASSERT_EQ(report.code, 0) << report;
  EXPECT_THAT(report.out, HasSubstr("no certificate yet: lucid bound run\n"));
  EXPECT_THAT(report.out, HasSubstr("report: run/report.html\n"));
  EXPECT_THAT(ReadBytes(scratch_ / "run/report.html"), HasSubstr("<code>lucid audit run</code>"));

  ASSERT_EQ(Run("bound run").code, 0);
  ASSERT_EQ(Run("evaluate run --methods none,scalar,exact --epsilon 0,1").code, 0);
  ASSERT_EQ(Run("audit run --targets 20 --attacks gap").code, 0);
  report = Run("report run --grid 20 --out page.html --csv csv --latex tex --json");
  ASSERT_EQ(report.code, 0) << report;
  EXPECT_EQ(report.Json().at("missing").size(), 0u);
  EXPECT_EQ(report.Json().at("report"), "page.html");
  EXPECT_THAT(ReadBytes(scratch_ / "page.html"), Not(HasSubstr("class=\"missing\"")));
  for (const char* table :
       {"certificate", "evaluation", "noised", "rows", "audit_summary", "audit"}) {
    EXPECT_NE(ReadBytes(scratch_ / ("csv/" + std::string(table) + ".csv")), "");
    EXPECT_THAT(ReadBytes(scratch_ / ("tex/" + std::string(table) + ".tex")),
                HasSubstr("\\end{tabular}"));
  }
  // The numbers of the CSV are those of the file, digit for digit.
  const auto evaluation = ReadJson(scratch_ / "run/evaluation.json");
  std::istringstream csv(ReadBytes(scratch_ / "csv/evaluation.csv"));
  std::string line;
  std::getline(csv, line);
  for (const auto& row : evaluation.at("rows")) {
    ASSERT_TRUE(std::getline(csv, line));
    std::istringstream cells(line);
    std::string promise, method, answer, total, accuracy;
    std::getline(cells, promise, ',');
    std::getline(cells, method, ',');
    std::getline(cells, answer, ',');
    if (cells.peek() == '"') {  // a pair, with a comma in it
      cells.get();
      std::getline(cells, total, '"');
      cells.get();
    } else {
      std::getline(cells, total, ',');
    }
    std::getline(cells, accuracy, ',');
    EXPECT_EQ(method, row.at("method").get<std::string>());
    EXPECT_EQ(std::stod(accuracy), row.at("accuracy").get<double>());
  }
}

TEST_F(ReportCommand, SearchesAreRecordedBesideTheRunsOwnCertificateOnly) {
  ASSERT_EQ(Run("bound run --out elsewhere.json").code, 0);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "run/bounds.csv"));
  ASSERT_EQ(Run("bound run").code, 0);
  EXPECT_THAT(ReadBytes(scratch_ / "run/bounds.csv"), HasSubstr("class,seconds,lower,upper\n0,"));
}

TEST_F(ReportCommand, RefusesWhatIsNoRunOrDamaged) {
  Outcome report = Run("report points");
  EXPECT_EQ(report.code, 2);
  EXPECT_EQ(report.out, "");
  EXPECT_THAT(report.err, HasSubstr("'points' is not a finished run"));
  WriteBytes(scratch_ / "run/audit.json", "{\"rows\": []}");
  report = Run("report run");
  EXPECT_EQ(report.code, 2);
  EXPECT_THAT(report.err, HasSubstr("run/audit.json"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "run/report.html"));
}

}  // namespace
}  // namespace lucid::test
