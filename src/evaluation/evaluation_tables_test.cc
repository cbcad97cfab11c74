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
    EXPECT_EQ(cells, 22);
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

// What an answer costs and what all of them cost are two columns.
TEST(EvaluationTables, PricesOfAnAnswerAndOfAllAreNotMixed) {
  Evaluation evaluation = SomeEvaluation();
  EvaluationRow& scalar = evaluation.rows[1];
  scalar.promise = "labels+full";
  scalar.answer_epsilon = 0;
  scalar.total_epsilon = 2;
  scalar.total_delta = 1e-6;
  evaluation.majority_share = 0.61;
  evaluation.advice = AdviceOf(evaluation);
  const std::string text = EvaluationText(evaluation);
  EXPECT_THAT(text, HasSubstr("labels+full   scalar            0     (2, 1e-06)"));
  EXPECT_THAT(text, HasSubstr("the most common class is right for 61.00 %"));
  EXPECT_THAT(text, HasSubstr("chosen after looking"));
  const auto json = nlohmann::json::parse(EvaluationJson(evaluation));
  EXPECT_EQ(json["rows"][1]["answer_epsilon"], 0);
  EXPECT_EQ(json["rows"][1]["total_epsilon"], 2);
  EXPECT_EQ(json["majority_share"], 0.61);
}

Evaluation Measured(double plain, double labels, double full) {
  Evaluation evaluation;
  evaluation.run = "r";
  evaluation.data = "d";
  evaluation.rows_of_training = 238;
  evaluation.majority_share = 0.5;
  EvaluationRow none;
  none.accuracy = plain;
  EvaluationRow exact;
  exact.method = Method::kExact;
  exact.promise = "labels";
  exact.accuracy = labels;
  exact.accuracy_drop = plain - labels;
  EvaluationRow dpsgd;
  dpsgd.method = Method::kDpSgd;
  dpsgd.promise = "whole network";
  dpsgd.answer_epsilon = std::nan("");
  dpsgd.total_epsilon = 1;
  dpsgd.accuracy = full;
  dpsgd.accuracy_drop = plain - full;
  evaluation.rows = {none, exact, dpsgd};
  return evaluation;
}

TEST(Advice, FollowsThePrices) {
  const auto joined = [](const Evaluation& evaluation) {
    std::string text;
    for (const std::string& line : AdviceOf(evaluation)) text += line + "\n";
    return text;
  };
  const std::string small = joined(Measured(0.814, 0.805, 0.722));
  EXPECT_THAT(small,
              HasSubstr("lucid serve r --guard exact --latency-floor 20ms --promise labels"));
  EXPECT_THAT(small, HasSubstr("--data d --preset private --train-epsilon 1 --expected-rows 200"));
  EXPECT_THAT(small, HasSubstr("full costs 8.3 points more than labels with the exact guard"));
  EXPECT_THAT(joined(Measured(0.832, 0.824, 0.831)), HasSubstr("advice: take full"));
  EXPECT_THAT(joined(Measured(0.832, 0.824, 0.5)), HasSubstr("no better than the most common"));
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
