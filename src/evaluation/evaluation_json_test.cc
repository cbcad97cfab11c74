#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lucid/evaluation/evaluation.h"

namespace lucid {
namespace {

using testing::HasSubstr;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Evaluation SomeEvaluation() {
  Evaluation evaluation;
  evaluation.run = "<run>";
  evaluation.version = "1";
  evaluation.command = {"lucid", "evaluate"};
  evaluation.test_rows = 12;
  evaluation.members = 3;
  evaluation.rows_of_training = 4;
  evaluation.partial = true;
  EvaluationRow none;
  none.epsilon = none.asked_epsilon = kNan;
  none.accuracy = 1.0 / 3;
  EvaluationRow trained;
  trained.method = Method::kDpSgd;
  trained.epsilon = 0.02;
  trained.asked_epsilon = 0;
  trained.guarantee = "(0.02, 1e-05)-DP";
  trained.networks = 1;
  trained.accuracy_deviation = kNan;
  trained.sigma = 7;
  evaluation.rows = {none, trained};
  evaluation.left_out = {{Method::kAlibi, "why"}};
  return evaluation;
}

TEST(EvaluationJson, IsReadBackAsItWas) {
  const Evaluation evaluation = SomeEvaluation();
  const std::string text = EvaluationJson(evaluation);
  const Result<Evaluation> read = ParseEvaluation(text, "f");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(EvaluationJson(*read), text);
  EXPECT_EQ(read->rows[1].asked_epsilon, 0);
  EXPECT_FALSE(read->guards_digest);
  Evaluation guarded = evaluation;
  guarded.guards_digest = Sha256Of("bounds");
  EXPECT_EQ(ParseEvaluation(EvaluationJson(guarded), "f").value().guards_digest,
            guarded.guards_digest);
}

TEST(EvaluationJson, NamesTheFieldThatIsWrong) {
  std::string text = EvaluationJson(SomeEvaluation());
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  EXPECT_THAT(ParseEvaluation(replaced("\"dpsgd\"", "\"magic\""), "f").error().message,
              HasSubstr("f: 'rows/1/method' must be a name that LUCID knows"));
  EXPECT_THAT(ParseEvaluation(replaced("\"partial\"", "\"total\""), "f").error().message,
              HasSubstr("'partial'"));
  EXPECT_THAT(ParseEvaluation(text.substr(0, text.size() / 2), "f").error().message,
              HasSubstr("f: not a JSON document"));
  EXPECT_FALSE(ParseEvaluation("[]", "f").ok());
  EXPECT_FALSE(ParseEvaluation(R"({"rows":[1],"left_out":[2]})", "f").ok());
}

}  // namespace
}  // namespace lucid
