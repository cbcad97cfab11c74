// The command contract's additions, line by line: options, exit codes and the JSON fields that
// other programs rely on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/command_test.h"

namespace lucid::test {
namespace {

using testing::Each;
using testing::HasSubstr;

class Contract : public CommandTest {
 protected:
  nlohmann::json Json(const std::string& arguments, int code = 0) {
    const Outcome outcome = Run(arguments + " --json --quiet");
    EXPECT_EQ(outcome.code, code) << outcome;
    return outcome.Json();
  }
  // Refused with exit code 2 and one line, which is returned.
  std::string Refused(const std::string& arguments) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  }
};

TEST_F(Contract, PlainRunKeepsLabelsAndNothingElse) {
  Run("data synth2d --rows 60 --seed 4 --out p");
  const nlohmann::json train = Json("train --data p --out r --arch 2x6 --epochs 40 --batch 8");
  EXPECT_EQ(train["unit"], "row");
  EXPECT_EQ(train["adjacency"], "unit removed");
  EXPECT_EQ(train["expected_rows"], 60);
  EXPECT_EQ(train["expected_rows_from"], "data");
  EXPECT_TRUE(train["private"].is_null());
  const nlohmann::json manifest = ReadJson(folder_ / "r/manifest.json");
  for (const char* field :
       {"unit", "adjacency", "expected_rows", "expected_rows_from", "private"}) {
    EXPECT_EQ(manifest[field], train[field]) << field;
  }

  const nlohmann::json certificate = Json("bound r --time-limit 60s");
  EXPECT_EQ(certificate["promise"], "labels");
  EXPECT_TRUE(certificate["declared"].is_null());
  EXPECT_EQ(certificate["proof"]["file"], "proof");
  EXPECT_EQ(certificate["proof"]["bytes"], ReadBytes(folder_ / "r/proof").size());
  EXPECT_EQ(certificate["proof"]["sha256"].get<std::string>().size(), 64);
  EXPECT_EQ(certificate, ReadJson(folder_ / "r/certificate.json"));

  EXPECT_EQ(Run("predict r --input p/test.csv --promise labels").code, 0);
  EXPECT_THAT(Refused("predict r --input p/test.csv --promise full"),
              HasSubstr("the promise full is not kept: the training was not private"));
  EXPECT_THAT(Refused("predict r --input p/test.csv --promise both"),
              HasSubstr("the promise full is not kept"));
  const Outcome serve = Run("serve r --key-file k --unchecked --promise full");
  EXPECT_EQ(serve.code, 2) << serve;
  EXPECT_THAT(serve.err, HasSubstr("the promise full is not kept"));
  EXPECT_EQ(Run("predict r --input p/test.csv --promise most").code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "k")) << "no key for what does not open";
}

TEST_F(Contract, PrivateRunOpensWithItsDeclaredBounds) {
  Run("data synth2d --rows 200 --seed 4 --out p");
  const nlohmann::json train = Json(
      "train --data p --out r --preset private --train-epsilon 2 --train-delta 1e-5 --declare 0.1 "
      "--expected-rows 200 --arch 2x6");
  EXPECT_EQ(train["expected_rows"], 200);
  EXPECT_EQ(train["expected_rows_from"], "declared");
  const nlohmann::json manifest = ReadJson(folder_ / "r/manifest.json");
  for (const nlohmann::json& promise : {train["private"], manifest["private"]}) {
    EXPECT_EQ(promise["epsilon"], 2);
    EXPECT_EQ(promise["delta"], 1e-5);
    EXPECT_GT(promise["sigma"], 1);
    EXPECT_EQ(promise["clip"], 0.3);
    EXPECT_NEAR(promise["sampling_rate"].get<double>(), 0.5, 1e-9);
    EXPECT_GT(promise["steps"], 1);
  }
  EXPECT_EQ(Run("predict r --input p/test.csv --promise full").code, 0);
  EXPECT_THAT(Refused("predict r --input p/test.csv --promise both"),
              HasSubstr("the promise labels is not kept: nothing is certified yet"));

  const Outcome bound = Run("bound r --json --quiet");
  const nlohmann::json certificate = bound.Json(), declared = certificate["declared"];
  EXPECT_EQ(declared["r"], 0.1);
  EXPECT_EQ(declared["way"], "declared");
  EXPECT_THAT(declared["bounds"], Each(declared["bounds"][0]));
  EXPECT_EQ(declared["bounds"].size(), 2);
  const std::string outcome = declared["outcome"];
  EXPECT_EQ(bound.code, outcome == "proved" ? 0 : outcome == "refuted" ? 1 : 3) << bound;
  EXPECT_EQ(certificate["promise"], outcome == "proved" ? "labels+full" : "full");
  EXPECT_EQ(Run("predict r --input p/test.csv --promise full").code, 0);
  EXPECT_EQ(Run("predict r --input p/test.csv --promise both").code, outcome == "proved" ? 0 : 2);

  EXPECT_EQ(Json("bound r --declare 1000")["declared"]["way"], "after looking");
  // In a file of its own: a proved certificate stays where one without a proof is no tighter.
  EXPECT_TRUE(Json("bound r --optimum --no-proof --gap 0.5 --time-limit 60s --out o.json")["proof"]
                  .is_null());
  EXPECT_EQ(Json("report r --card")["promise"], "full");
}

TEST_F(Contract, NothingIsPrivateWithSeededNoise) {
  Run("data synth2d --rows 200 --seed 4 --out p");
  EXPECT_EQ(Run("train --data p --out r --preset private --seeded-noise --seed 5 --expected-rows "
                "200 --arch 2x6 --members 4")
                .code,
            0);
  EXPECT_THAT(Refused("predict r --input p/test.csv --promise full"),
              HasSubstr("the noise came from the seed"));
  EXPECT_EQ(Run("train --data p --out s --preset private --arch 2x6").code, 2)
      << "private training without --expected-rows";
  EXPECT_EQ(Run("train --data p --out b --arch 2x6 --batches 5 --epochs 2 --members 2").code, 0);
}

}  // namespace
}  // namespace lucid::test
