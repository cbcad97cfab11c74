#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lucid/evaluation/evaluation.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using testing::Not;

Evaluation SomeEvaluation() {
  const double nan = std::nan("");
  EvaluationRow none;
  none.epsilon = none.asked_epsilon = nan;
  none.guarantee = "none";
  none.accuracy = 0.9967;
  EvaluationRow scalar;
  scalar.method = Method::kScalar;
  scalar.guarantee = "0-iDP per query, \"all\" rows";
  scalar.accuracy = 0.97;
  scalar.accuracy_drop = 0.0267;
  scalar.noised_fraction = 0.05;
  scalar.sampled_accuracy = 0.971;
  scalar.sampled_standard_error = 0.001;
  scalar.sampled_queries = 1000;
  EvaluationRow dpsgd;
  dpsgd.method = Method::kDpSgd;
  dpsgd.epsilon = 0.02;
  dpsgd.guarantee = "(0.02, 1e-05)-DP";
  dpsgd.accuracy = 0.5;
  dpsgd.networks = 1;
  dpsgd.accuracy_deviation = nan;
  dpsgd.sigma = 198;
  dpsgd.delta = 1e-5;
  dpsgd.clip = 1;
  Evaluation evaluation;
  evaluation.rows = {none, scalar, dpsgd};
  evaluation.left_out = {{Method::kExact, "no index"}};
  return evaluation;
}

TEST(Methods, NamesAreReadBack) {
  for (const Method method : AllMethods()) EXPECT_EQ(MethodNamed(NameOf(method)).value(), method);
  EXPECT_THAT(MethodNamed("dp-sgd").error().message, HasSubstr("'dp-sgd'"));
  EXPECT_EQ(AllMethods().size(), 8);
}

TEST(EvaluationTables, JsonHasWhatProgramsRelyOn) {
  const auto json = nlohmann::json::parse(EvaluationJson(SomeEvaluation()));
  ASSERT_EQ(json["rows"].size(), 3);
  for (const auto& row : json["rows"]) {
    for (const char* field : {"method", "epsilon", "accuracy", "accuracy_drop", "noised_fraction",
                              "access_us_p50", "access_us_p99", "guarantee"}) {
      EXPECT_TRUE(row.contains(field)) << field;
    }
  }
  EXPECT_TRUE(json["rows"][0]["epsilon"].is_null());
  EXPECT_FALSE(json["rows"][0].contains("sampled_accuracy"));
  EXPECT_EQ(json["rows"][1]["sampled_standard_error"], 0.001);
  EXPECT_EQ(json["rows"][2]["epsilon"], 0.02);
  EXPECT_EQ(json["rows"][2]["epsilon_asked"], 0);
  EXPECT_EQ(json["rows"][2]["sigma"], 198);
  EXPECT_TRUE(json["rows"][2]["accuracy_deviation"].is_null());
  EXPECT_EQ(json["left_out"][0]["method"], "exact");
}

TEST(EvaluationTables, CsvQuotesAndKeepsItsColumns) {
  const std::string csv = EvaluationCsv(SomeEvaluation());
  EXPECT_THAT(csv, HasSubstr("\"0-iDP per query, \"\"all\"\" rows\""));
  std::size_t lines = 0;
  for (std::size_t at = 0; at < csv.size(); ++lines) {
    const std::size_t end = csv.find('\n', at);
    int cells = 1;
    bool quoted = false;
    for (; at < end; ++at) {
      quoted ^= csv[at] == '"';
      cells += csv[at] == ',' && !quoted;
    }
    EXPECT_EQ(cells, 17);
    ++at;
  }
  EXPECT_EQ(lines, 4);
  EXPECT_THAT(csv, Not(HasSubstr("nan")));
}

TEST(EvaluationTables, TextSaysWhichEpsilonWasReplaced) {
  const std::string text = EvaluationText(SomeEvaluation());
  EXPECT_THAT(text, HasSubstr("(0.02, 1e-05)-DP"));
  EXPECT_THAT(text, HasSubstr("in the place of 0"));
  EXPECT_THAT(text, HasSubstr("99.67"));
}

TEST(EvaluationTables, LatexHasACellPerColumn) {
  const std::string latex = EvaluationLatex(SomeEvaluation());
  EXPECT_THAT(latex, HasSubstr("\\begin{tabular}{lrr}"));
  EXPECT_THAT(latex, HasSubstr("scalar & 97.0 & 0.0 \\\\"));
  EXPECT_THAT(latex, HasSubstr("none & 99.7 & 0.0 \\\\"));
  EXPECT_THAT(latex, HasSubstr("dpsgd & 50.0$^*$"));
  EXPECT_THAT(latex, HasSubstr("% * at epsilon 0.02 in the place of 0"));
}

}  // namespace
}  // namespace lucid
