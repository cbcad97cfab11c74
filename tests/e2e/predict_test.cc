// lucid predict end to end: the same guarded labels every time, whatever else is asked, and words
// for what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "certificate/test_support.h"
#include "lucid/certificate/certificate.h"
#include "support/command_test.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class PredictTest : public CommandTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(Run("data synth2d --rows 30 --seed 4 --out p").code, 0);
    const Outcome trained = Run("train --data p --out r --batch 8 --lr 0.2 --epochs 60 --arch 2x6");
    ASSERT_EQ(trained.code, 0) << trained;
    ASSERT_EQ(Run("bound r --time-limit 30s --index").code, 0);
  }
  std::vector<std::string> Lines(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  // Rewrites RUN/certificate.json.
  template <typename Change>
  void ChangeCertificate(Change change) {
    const std::string path = folder_ / "r/certificate.json";
    Certificate certificate = LoadCertificate(path).value();
    change(certificate);
    ASSERT_TRUE(SaveCertificate(certificate, path).ok());
  }
};

TEST_F(PredictTest, GivesALabelPerRowTheSameEveryTime) {
  const Outcome first = Run("predict r --input p/test.csv --epsilon 0.5");
  ASSERT_EQ(first.code, 0) << first;
  EXPECT_THAT(first.err, HasSubstr("new key: r/guard.key"));
  EXPECT_EQ(fs::status(folder_ / "r/guard.key").permissions(), fs::perms(0600));
  const std::vector<std::string> labels = Lines(first.out);
  const std::vector<std::string> input = Lines(ReadBytes(folder_ / "p/test.csv"));
  ASSERT_EQ(labels.size(), input.size());
  EXPECT_EQ(labels[0], "label");
  for (std::size_t i = 1; i < labels.size(); ++i) {
    EXPECT_TRUE(labels[i] == "0" || labels[i] == "1") << labels[i];
  }
  const Outcome again = Run("predict r --input p/test.csv --epsilon 0.5 --threads 1");
  EXPECT_EQ(again.out, first.out);
  EXPECT_THAT(again.err, Not(HasSubstr("new key")));

  // The rows backwards: the answers backwards.
  std::string backwards = input[0] + "\n";
  for (std::size_t i = input.size() - 1; i > 0; --i) backwards += input[i] + "\n";
  WriteBytes(folder_ / "backwards.csv", backwards);
  const std::vector<std::string> turned =
      Lines(Run("predict r --input backwards.csv --epsilon 0.5").out);
  EXPECT_TRUE(std::equal(turned.begin() + 1, turned.end(), labels.rbegin()));

  // Another key file, another answer somewhere: 30 rows or more are noised by the bound below.
  ChangeCertificate([](Certificate& c) {
    for (ClassBound& bound : c.classes) {
      bound.beta_upper = std::numeric_limits<double>::infinity();
    }
  });
  const Outcome noised = Run("predict r --input p/train.csv");
  EXPECT_EQ(noised.code, 0) << noised;
  EXPECT_THAT(noised.err, HasSubstr("nothing is proved about class 0"));
  EXPECT_NE(Run("predict r --input p/train.csv --key-file other.key").out, noised.out);
  EXPECT_EQ(Run("predict r --input p/train.csv --key-file r/guard.key").out, noised.out);
}

TEST_F(PredictTest, TellsNothingButLabels) {
  const Outcome json = Run("predict r --input p/test.csv --epsilon 1 --mechanism krr --json");
  ASSERT_EQ(json.code, 0) << json;
  const nlohmann::json document = json.Json();
  EXPECT_EQ(document["rows"], document["labels"].size());
  EXPECT_EQ(document["epsilon"], 1.0);
  EXPECT_LE(document["effective_epsilon"], 1.0);
  EXPECT_EQ(document["mechanism"], "krr");
  std::vector<std::string> fields;
  for (const auto& [name, value] : document.items()) fields.push_back(name);
  EXPECT_THAT(fields, testing::UnorderedElementsAre("rows", "classes", "guard", "mechanism",
                                                    "epsilon", "effective_epsilon", "labels",
                                                    "certificate", "promise"));
  const Outcome names = Run("predict r --input p/test.csv --epsilon 1 --mechanism krr --names");
  const std::vector<std::string> lines = Lines(names.out);
  for (std::size_t i = 0; i < document["labels"].size(); ++i) {
    EXPECT_EQ(lines[i + 1],
              document["classes"][document["labels"][i].get<std::size_t>()].get<std::string>());
  }
  const Outcome file =
      Run("predict r --input p/test.csv --epsilon 1 --mechanism krr --names --out l");
  EXPECT_EQ(file.out, "");
  EXPECT_EQ(ReadBytes(folder_ / "l"), names.out);
}

TEST_F(PredictTest, TheLabelColumnMayBeAbsent) {
  std::string bare;
  for (const std::string& line : Lines(ReadBytes(folder_ / "p/test.csv"))) {
    bare += line.substr(0, line.rfind(',')) + "\n";
  }
  WriteBytes(folder_ / "bare.csv", bare);
  const Outcome outcome = Run("predict r --input bare.csv");
  EXPECT_EQ(outcome.code, 0) << outcome;
  EXPECT_EQ(outcome.out, Run("predict r --input p/test.csv").out);
}

TEST_F(PredictTest, TheExactGuardNeedsItsIndex) {
  EXPECT_EQ(Run("predict r --input p/test.csv --guard exact").code, 0);
  ChangeCertificate([](Certificate& c) { c.index_digest = std::nullopt; });
  const Outcome outcome = Run("predict r --input p/test.csv --guard exact");
  EXPECT_EQ(outcome.code, 2) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("the index of members"));
}

TEST_F(PredictTest, APartialCertificateIsWarnedOf) {
  ASSERT_EQ(Run("train --data p --out q --batch 8 --epochs 20 --arch 2x6 --members 5").code, 0);
  ASSERT_EQ(Run("bound q --time-limit 30s").code, 0);
  const Outcome outcome = Run("predict q --input p/test.csv");
  EXPECT_EQ(outcome.code, 0) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("partial"));
  EXPECT_THAT(outcome.err, HasSubstr("not protected"));
}

TEST_F(PredictTest, BadInputIsNamed) {
  const std::string header = Lines(ReadBytes(folder_ / "p/test.csv"))[0] + "\n";
  WriteBytes(folder_ / "nan.csv", header + "0.5,0.5,0\nnan,0.5,0\n");
  WriteBytes(folder_ / "outside.csv", header + "0.5,0.5,0\n0.5,0.5,0\n0.5,1.5,0\n");
  WriteBytes(folder_ / "several.csv", header + "x,0.5,0\n0.5,0.5,0\n0.5,7,0\n0.5,y,0\n");
  WriteBytes(folder_ / "empty.csv", header);
  WriteBytes(folder_ / "columns.csv", "a,b\n0,0\n");
  WriteBytes(folder_ / "open.key", "lucid-guard-key-1\n" + std::string(64, '0') + "\n");
  fs::permissions(folder_ / "open.key", fs::perms(0644));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"predict r --input nan.csv", "nan.csv:3: column"},
      {"predict r --input outside.csv", "outside.csv:4: column"},
      {"predict r --input several.csv", "(and 2 more such rows: line 4, 5)"},
      {"predict r --input empty.csv", "no rows"},
      {"predict r --input columns.csv", "columns.csv:1"},
      {"predict r --input none.csv", "none.csv"},
      {"predict r --input p/test.csv --epsilon -1", "epsilon is -1"},
      {"predict r --input p/test.csv --epsilon nan", "epsilon is nan"},
      {"predict r --input p/test.csv --epsilon inf", "epsilon is inf"},
      {"predict r --input p/test.csv --grid-bits 24", "grid_bits is 24"},
      {"predict r --input p/test.csv --guard none", "--guard"},
      {"predict r --input p/test.csv --mechanism laplace", "--mechanism"},
      {"predict r --input p/test.csv --key-file open.key", "chmod 600"},
      {"predict r --input p/test.csv --key-file p/test.csv", "p/test.csv"},
      {"predict r --input p/test.csv --certificate none.json", "lucid bound"},
      {"predict p --input p/test.csv", "not a finished run"},
      {"predict r", "--input"},
  };
  for (const auto& [arguments, word] : cases) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << "\n" << outcome;
    EXPECT_EQ(outcome.out, "") << arguments;
    const std::vector<std::string> lines = Lines(outcome.err);
    ASSERT_FALSE(lines.empty());
    EXPECT_THAT(lines.back(), HasSubstr(word)) << arguments;
  }
  EXPECT_FALSE(fs::exists(folder_ / "p/guard.key")) << "no key in a folder that is no run";
}

}  // namespace
}  // namespace lucid::test
