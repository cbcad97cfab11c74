// lucid-check --level proof, end to end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lucid/certificate/receipt.h"
#include "lucid/check/check.h"
#include "proof/prover.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class ProofProgram : public testing::Test {
 protected:
  ProofProgram() : run_(UndecidedRun("2 > dense 4 > 2", 5, 4, 0.05)), ensemble_(run_.Open()) {
    certificate_ = UnprovedCertificate(ensemble_);
    certificate_.engine = Engine::kNative;
    certificate_.member_error = LargestMemberError(ensemble_);
    std::vector<LabelledContent> contents;
    for (ClassBound& bound : certificate_.classes) {
      bound.beta_upper = 1.01 * RootBound(ensemble_, bound.label, certificate_.member_error);
      contents.push_back({bound.label, Prove(ensemble_, bound.label, certificate_.member_error,
                                             {bound.beta_upper, 100, false})
                                           .content});
    }
    Save();
    WriteProof(folder_ / "proof", HeaderFor(certificate_), contents);
  }
  void Save() { EXPECT_TRUE(SaveCertificate(certificate_, folder_ / "certificate.json").ok()); }
  Outcome Run(const std::string& more) {
    return RunLucid(Words("certificate.json --run " + run_.path() + " " + more),
                    {.folder = folder_.path(), .program = LUCID_CHECK_PROGRAM});
  }

  Scratch folder_;
  ImportedRun run_;
  Ensemble ensemble_;
  Certificate certificate_;
};

TEST_F(ProofProgram, AcceptsAProofAndSaysWhatItDidNotDo) {
  const Outcome outcome = Run("--proof proof");
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_THAT(outcome.out, StartsWith("accepted at level proof: "));
  EXPECT_THAT(outcome.out, HasSubstr("passed    proof of class 0: "));
  EXPECT_THAT(outcome.out, HasSubstr("passed    witness of class 1"));
  EXPECT_THAT(outcome.out, HasSubstr("passed    forward error of the members"));
  EXPECT_THAT(outcome.out, HasSubstr("not done  falsify"));
  const auto json = Run("--level proof --proof proof --json --threads 1").Json();
  EXPECT_EQ(json["accepted"], true);
  EXPECT_EQ(json["level"], "proof");
}

TEST_F(ProofProgram, RefusesAndNamesTheNode) {
  certificate_.classes[0].beta_upper *= 0.5;
  Save();
  const Outcome outcome = Run("--level proof --proof proof");
  EXPECT_EQ(outcome.code, 1) << outcome;
  EXPECT_THAT(outcome.out, StartsWith("refused: proof of class 0: member "));
  WriteBytes(folder_ / "proof", ReadBytes(folder_ / "proof") + "x");
  const Outcome damaged = Run("--level proof --proof proof");
  EXPECT_EQ(damaged.code, 1) << damaged;
  EXPECT_THAT(damaged.out, StartsWith("refused: proof file: proof: the seal"));
}

// Whoever has a certificate that names its proof needs to say nothing more, and gets a receipt that
// is good for these two files and no others.
TEST_F(ProofProgram, FindsTheProofAndLeavesAReceipt) {
  const std::string path = folder_ / "certificate.json";
  EXPECT_EQ(StandingOf(path).value(), Standing::kUnproved);
  const Outcome without = Run("--level proof");
  EXPECT_EQ(without.code, 1) << without;
  EXPECT_THAT(without.out, StartsWith("refused: proof: the certificate names no proof"));
  const std::string bytes = ReadBytes(folder_ / "proof");
  certificate_.proof = ProofNote{"proof", static_cast<std::int64_t>(bytes.size()), Sha256Of(bytes)};
  Save();
  EXPECT_EQ(StandingOf(path).value(), Standing::kProved);
  EXPECT_EQ(Run("--level binding").code, 0);
  EXPECT_EQ(StandingOf(path).value(), Standing::kProved) << "binding is no proof";
  const Outcome accepted = Run("");
  EXPECT_EQ(accepted.code, 0) << accepted;
  EXPECT_EQ(StandingOf(path).value(), Standing::kChecked);
  const std::string receipt = ReadBytes(ReceiptPath(path));
  for (std::size_t i = 0; i < receipt.size(); ++i) {
    std::string bad = receipt;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    WriteBytes(ReceiptPath(path), bad);
    ASSERT_EQ(StandingOf(path).value(), Standing::kProved) << "byte " << i;
  }
  WriteBytes(ReceiptPath(path), receipt);
  EXPECT_EQ(StandingOf(path).value(), Standing::kChecked);
  certificate_.seconds += 1;
  Save();
  EXPECT_EQ(StandingOf(path).value(), Standing::kProved) << "another certificate";
  certificate_.proof->digest = Sha256Of("another");
  Save();
  const Outcome other = Run("");
  EXPECT_EQ(other.code, 1) << other;
  EXPECT_THAT(other.out, StartsWith("refused: proof named by the certificate: "));
}

TEST_F(ProofProgram, SaysWhatToDoWithoutAFile) {
  for (const auto& [arguments, word] :
       {std::pair("--level falsify --proof proof", "--proof is for --level proof"),
        std::pair("--proof none", "none")}) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(word));
  }
}

}  // namespace
}  // namespace lucid::test
