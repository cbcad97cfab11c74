// lucid audit end to end: the leak is real, every guard closes it, and a certificate that claims
// too much is found out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lucid/certificate/certificate.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;

class AuditCommand : public testing::Test {
 protected:
  // 60 rows whose members differ visibly from N.
  void SetUp() override {
    ASSERT_EQ(Run("data synth2d --rows 60 --seed 4 --out p").code, 0);
    ASSERT_EQ(Run("train --data p --out r --batch 8 --lr 0.2 --epochs 40 --arch 2x6").code, 0);
    const Outcome bound = Run("bound r --time-limit 60s --index");
    ASSERT_EQ(bound.code, 0) << bound;
  }
  Outcome Run(const std::string& arguments) {
    return RunLucid(Words(arguments), {.folder = folder_.path()});
  }
  Scratch folder_;
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

TEST_F(AuditCommand, WordsForWhatIsWrong) {
  const auto refused = [&](const std::string& arguments) {
    const Outcome outcome = Run("audit " + arguments);
    EXPECT_EQ(outcome.code, 2) << outcome;
    return outcome.err;
  };
  EXPECT_THAT(refused("r --attacks magic"), HasSubstr("'magic'"));
  EXPECT_THAT(refused("r --access dpsgd"), HasSubstr("not dpsgd"));
  EXPECT_THAT(refused("r --epsilon -1"), HasSubstr("-1"));
  EXPECT_THAT(refused("r --targets 0"), HasSubstr("targets is 0"));
  EXPECT_THAT(refused("r --access exact --certificate absent.json"),
              HasSubstr("needs 'absent.json'"));
}

}  // namespace
}  // namespace lucid::test
