// lucid bound and lucid ablation end to end: certificates that lucid-check accepts, limits, kills,
// resumes, and words for what is wrong, with both engines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "certificate/test_support.h"
#include "lucid/certificate/certificate.h"
#include "support/command_test.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class BoundTest : public CommandTest {
 protected:
  // 30 rows whose members differ visibly from N.
  void MakeRun(const std::string& run, const std::string& arch) {
    ASSERT_EQ(Run("data synth2d --rows 30 --seed 4 --out p").code, 0);
    const Outcome trained =
        Run("train --data p --out " + run + " --batch 8 --lr 0.2 --epochs 60 --arch " + arch);
    ASSERT_EQ(trained.code, 0) << trained;
  }
  Outcome Check(const std::string& certificate, const std::string& run) {
    return RunLucid({certificate, "--run", run, "--starts", "200"},
                    {.folder = folder_.path(), .program = LUCID_CHECK_PROGRAM});
  }
  nlohmann::json Certificate(const std::string& file) { return ReadJson(folder_ / file); }
  static std::vector<std::string> UpperBounds(const nlohmann::json& certificate) {
    std::vector<std::string> bounds;
    for (const auto& bound : certificate["classes"]) bounds.push_back(bound["beta_upper_hex"]);
    return bounds;
  }
};

// What both engines have in common.
class Bound : public BoundTest, public testing::WithParamInterface<std::string> {
 protected:
  std::string Command(const std::string& arguments) const {
    return "bound r --engine " + GetParam() + " " + arguments;
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, Bound, testing::Values("native", "milp"),
                         [](const auto& engine) { return engine.param; });

TEST_P(Bound, GivesACertificateThatLucidCheckAccepts) {
  MakeRun("r", "2x6");
  const Outcome outcome = Run(Command("--json"));
  ASSERT_EQ(outcome.code, 0) << outcome;
  const nlohmann::json json = outcome.Json();
  EXPECT_EQ(json, Certificate("r/certificate.json"));
  EXPECT_EQ(json["engine"], GetParam());
  double largest = 0;
  for (const auto& bound : json["classes"]) {
    EXPECT_THAT(bound["status"].get<std::string>(), testing::AnyOf("exact", "gap"));
    EXPECT_LE(bound["beta_lower"].get<double>(), bound["beta_upper"].get<double>());
    EXPECT_LE(bound["gap"].get<double>(), 0.01);
    largest = std::max(largest, bound["beta_lower"].get<double>());
  }
  EXPECT_GT(largest, 0.01) << "a run without a leak shows nothing";
  EXPECT_FALSE(fs::exists(folder_ / "r/certificate.json.journal"));
  const Outcome check = Check("r/certificate.json", "r");
  EXPECT_EQ(check.code, 0) << check;
}

TEST_P(Bound, OneWorkerAndEightGiveTheSameBounds) {
  MakeRun("r", "2x6");
  ASSERT_EQ(Run(Command("--threads 1 --out one.json")).code, 0);
  ASSERT_EQ(Run(Command("--threads 8 --out eight.json")).code, 0);
  EXPECT_EQ(UpperBounds(Certificate("one.json")), UpperBounds(Certificate("eight.json")));
}

// A search that ends too early leaves what is there, the proof and the receipt included.
TEST_F(BoundTest, ACertificateNeverGetsWorse) {
  MakeRun("r", "3x20");
  ASSERT_EQ(Run("bound r").code, 0);
  ASSERT_EQ(Check("r/certificate.json", "r").code, 0);
  const std::string before = ReadBytes(folder_ / "r/certificate.json");
  const std::string proof = ReadBytes(folder_ / "r/proof");
  const Outcome hasty = Run("bound r --time-limit 1ms");
  EXPECT_EQ(hasty.code, 0) << hasty;  // what the run has is as tight as it was asked for
  EXPECT_THAT(hasty.err, HasSubstr("class 0: the bound that was there is tighter, it stays"));
  EXPECT_EQ(ReadBytes(folder_ / "r/certificate.json"), before);
  EXPECT_TRUE(ReadBytes(folder_ / "r/proof") == proof);
  EXPECT_FALSE(fs::exists(folder_ / "r/proof.kept"));
  const Outcome served = Run("predict r --input p/test.csv");
  EXPECT_THAT(served.err, HasSubstr("proved and checked"));
}

// The proof goes with the bounds: of one class from here, of the other from there.
TEST_F(BoundTest, TheBetterBoundOfEveryClassStaysWithItsPartOfTheProof) {
  MakeRun("r", "3x20");
  ASSERT_EQ(Run("bound r --out both.json").code, 0);
  const auto both = UpperBounds(Certificate("both.json"));
  ASSERT_EQ(Run("bound r --class 1 --no-index --no-spatial").code, 0);
  ASSERT_EQ(Run("bound r --class 0 --no-index --no-spatial").code, 0);
  EXPECT_EQ(UpperBounds(Certificate("r/certificate.json")), both);
  const Outcome check = Check("r/certificate.json", "r");
  EXPECT_EQ(check.code, 0) << check;
  EXPECT_THAT(check.out, HasSubstr("accepted at level proof"));
  // The other way round it would not have been accepted: a proof of one class only.
  const auto damaged = [&](std::int32_t label) {
    lucid::Certificate certificate = LoadCertificate(folder_ / "r/certificate.json").value();
    certificate.classes[label].beta_upper *= 0.99;
    certificate.classes[label].beta_lower = 0;
    certificate.classes[label].witness.reset();
    EXPECT_TRUE(SaveCertificate(certificate, folder_ / "r/less.json").ok());
    return Check("r/less.json", "r").code;
  };
  EXPECT_EQ(damaged(0), 1);
  EXPECT_EQ(damaged(1), 1);
  // Another domain is another question.
  ASSERT_EQ(Run("bound r --domain schema --no-index --no-spatial").code, 0);
  EXPECT_EQ(Certificate("r/certificate.json")["domain"], "schema");
}

// It may come from a version with a mistake, or from anybody's hand.
TEST_F(BoundTest, AnEarlierBoundThatNothingProvesIsNotKept) {
  MakeRun("r", "2x6");
  const std::string path = folder_ / "r/certificate.json";
  for (const char* bound : {"bound r --no-proof", "bound r"}) {
    ASSERT_EQ(Run("bound r --no-proof").code, 0);
    const lucid::Certificate right = LoadCertificate(path).value();
    lucid::Certificate certificate = right;
    for (ClassBound& of_class : certificate.classes) {
      of_class.beta_upper *= 0.03;
      of_class.beta_lower = 0;
      of_class.witness.reset();
    }
    ASSERT_TRUE(SaveCertificate(certificate, path).ok());
    ASSERT_EQ(Run(bound).code, 0) << bound;
    const lucid::Certificate found = LoadCertificate(path).value();
    for (std::size_t c = 0; c < right.classes.size(); ++c) {
      EXPECT_GT(found.classes[c].beta_upper, 0.9 * right.classes[c].beta_upper) << bound;
    }
  }
}

TEST_F(BoundTest, AHastyBoundWithoutAProofDoesNotReplaceAProvedOne) {
  MakeRun("r", "3x20");
  ASSERT_EQ(Run("bound r").code, 0);
  const std::string proved = ReadBytes(folder_ / "r/certificate.json");
  const Outcome hasty = Run("bound r --no-proof --time-limit 1ms");
  EXPECT_EQ(hasty.code, 0) << hasty;
  EXPECT_EQ(ReadBytes(folder_ / "r/certificate.json"), proved);
  EXPECT_EQ(Check("r/certificate.json", "r").code, 0);
}

// Bounds that stay do not answer for another question.
TEST_F(BoundTest, AnotherDeclaredBoundGetsItsOwnAnswer) {
  MakeRun("r", "2x6");
  ASSERT_EQ(Run("bound r").code, 0);
  EXPECT_EQ(Run("bound r --declare 100").code, 0);
  const Outcome refuted = Run("bound r --declare 1e-6");
  EXPECT_EQ(refuted.code, 1) << refuted;
  EXPECT_EQ(Certificate("r/certificate.json")["declared"]["outcome"], "refuted");
  EXPECT_EQ(Run("bound r --declare 100").code, 0);
}

TEST_F(BoundTest, ASecondIsEnoughForAValidBoundAndExitCode3) {
  MakeRun("r", "3x40");
  const Outcome outcome = Run("bound r --engine milp --variant HMB --time-limit 1s");
  ASSERT_EQ(outcome.code, 3) << outcome;
  EXPECT_LT(outcome.seconds, 20);  // generous: the machine may be busy
  EXPECT_THAT(outcome.err, HasSubstr("--resume"));
  const nlohmann::json json = Certificate("r/certificate.json");
  bool early = false;
  for (const auto& bound : json["classes"]) {
    ASSERT_TRUE(bound["beta_upper"].is_number());
    EXPECT_GE(bound["beta_upper"].get<double>(), bound["beta_lower"].get<double>());
    early = early || bound["status"] == "deadline";
  }
  EXPECT_TRUE(early);
  EXPECT_TRUE(fs::exists(folder_ / "r/certificate.json.journal"));
  EXPECT_EQ(Check("r/certificate.json", "r").code, 0);
}

TEST_F(BoundTest, KilledAtAnyMomentAndResumedItGivesTheSameBounds) {
  MakeRun("r", "2x6");
  const std::string bound = "bound r --engine milp ";
  ASSERT_EQ(Run(bound + "--out whole.json").code, 0);
  const double seconds = Run(bound + "--out again.json").seconds;
  for (int kill = 1; kill <= 3; ++kill) {
    Process process(Words(bound + "--out cut.json --resume"), {.folder = folder_.path()});
    SleepSeconds(seconds * kill / 4);
    process.Signal(kill % 2 == 0 ? SIGTERM : SIGKILL);
    process.Wait();
  }
  const Outcome outcome = Run(bound + "--out cut.json --resume");
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_EQ(UpperBounds(Certificate("cut.json")), UpperBounds(Certificate("whole.json")));
  EXPECT_FALSE(fs::exists(folder_ / "cut.json.journal"));
}

TEST_F(BoundTest, AJournalOfAnotherSearchIsRefused) {
  MakeRun("r", "3x40");
  const std::string bound = "bound r --engine milp --time-limit 1s --variant HMB";
  ASSERT_EQ(Run(bound).code, 3);
  const Outcome other = Run(bound + " --gap 0.2 --resume");
  EXPECT_EQ(other.code, 1) << other;
  EXPECT_THAT(other.err, HasSubstr("journal of another search"));
}

TEST_P(Bound, OneClassLeavesTheOthersUnknown) {
  MakeRun("r", "2x6");
  const Outcome outcome = Run(Command("--class 1"));
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_THAT(outcome.out, HasSubstr("not computed"));
  const nlohmann::json json = Certificate("r/certificate.json");
  EXPECT_EQ(json["classes"][0]["beta_upper_hex"], "inf");
  EXPECT_TRUE(json["classes"][1]["beta_upper"].is_number());
}

TEST_F(BoundTest, TheNativeEngineIsTheDefaultAndPrintsEveryClass) {
  MakeRun("r", "2x6");
  const Outcome outcome = Run("bound r");
  ASSERT_EQ(outcome.code, 0) << outcome;
  const nlohmann::json json = Certificate("r/certificate.json");
  EXPECT_EQ(json["engine"], "native");
  ASSERT_EQ(json["classes"].size(), 2U);
  for (const auto& bound : json["classes"]) {
    EXPECT_THAT(bound["status"].get<std::string>(), testing::AnyOf("exact", "gap"));
  }
  EXPECT_THAT(outcome.out, HasSubstr("certificate.json"));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("not computed")));
  ASSERT_EQ(Run("bound r --engine milp --gap 0.001 --out milp.json").code, 0);
  const nlohmann::json other = Certificate("milp.json");
  for (std::size_t c = 0; c < 2; ++c) {
    EXPECT_GE(json["classes"][c]["beta_upper"].get<double>(),
              other["classes"][c]["beta_lower"].get<double>());
    EXPECT_GE(other["classes"][c]["beta_upper"].get<double>(),
              json["classes"][c]["beta_lower"].get<double>());
  }
}

TEST_F(BoundTest, TheNativeEngineHasAValidBoundAfterNoTimeAndExitCode3) {
  MakeRun("r", "3x40");
  const Outcome outcome = Run("bound r --gap 0 --time-limit 0.001s");
  ASSERT_EQ(outcome.code, 3) << outcome;
  EXPECT_THAT(outcome.err, HasSubstr("--resume"));
  const nlohmann::json json = Certificate("r/certificate.json");
  for (const auto& bound : json["classes"]) {
    ASSERT_TRUE(bound["beta_upper"].is_number());
    EXPECT_GE(bound["beta_upper"].get<double>(), bound["beta_lower"].get<double>());
    EXPECT_EQ(bound["status"], "deadline");
  }
  EXPECT_EQ(Check("r/certificate.json", "r").code, 0);
}

// Twelve inputs and members far from N: a search that takes minutes.
class LongBound : public BoundTest {
 protected:
  const ImportedRun run_ = RandomRun("12 > dense 16 > dense 16 > 2", 3, 5, 0.2);
  const std::string bound_ = "bound " + run_.path() + " --gap 0 --out cut.json ";
};

TEST_F(LongBound, TheNativeEngineKilledAndResumedGivesBoundsThatHold) {
  int process_number = 0;
  for (const int signal : {SIGTERM, SIGKILL, SIGTERM}) {
    SCOPED_TRACE(testing::Message() << "process " << ++process_number);
    // (A short limit: a long one has room for many attacks, before which there is no journal.)
    Process process(Words(bound_ + "--resume --time-limit 60s"), {.folder = folder_.path()});
    SleepSeconds(1);
    process.Signal(signal);
    const Outcome outcome = process.Wait();
    if (signal == SIGTERM) {
      EXPECT_EQ(outcome.code, 3) << outcome;
      ASSERT_TRUE(fs::exists(folder_ / "cut.json")) << outcome;
      EXPECT_TRUE(fs::exists(folder_ / "cut.json.journal"));
      const Outcome check = Check("cut.json", run_.path());
      EXPECT_EQ(check.code, 0) << check;
    } else {
      EXPECT_EQ(outcome.signal, SIGKILL) << "the test has become easy";
    }
  }
  const nlohmann::json before = Certificate("cut.json");
  const Outcome outcome = Run(bound_ + "--resume --time-limit 2s");
  ASSERT_EQ(outcome.code, 3) << outcome;
  const Outcome check = Check("cut.json", run_.path());
  EXPECT_EQ(check.code, 0) << check;
  const nlohmann::json after = Certificate("cut.json");
  // The class in hand, whose bounds are in the journal, only gets better.
  EXPECT_LE(after["classes"][0]["beta_upper"].get<double>(),
            before["classes"][0]["beta_upper"].get<double>());
  for (const auto& bound : after["classes"]) {
    EXPECT_GE(bound["beta_upper"].get<double>(), bound["beta_lower"].get<double>());
  }
}

TEST_F(LongBound, ANativeJournalOfAnotherSearchOrDamagedIsRefusedInOneLine) {
  ASSERT_EQ(Run(bound_ + "--time-limit 2s").code, 3);
  ASSERT_TRUE(fs::exists(folder_ / "cut.json.journal"));
  const Outcome other = Run(bound_ + "--time-limit 2s --resume --seed 5");
  EXPECT_EQ(other.code, 1) << other;
  EXPECT_THAT(other.err, HasSubstr("another run or to other options"));
  EXPECT_EQ(std::ranges::count(other.err, '\n'), 1) << other;
  WriteBytes(folder_ / "cut.json.journal", "damaged");
  const Outcome damaged = Run(bound_ + "--resume");
  EXPECT_NE(damaged.code, 0) << damaged;
  EXPECT_THAT(damaged.err, HasSubstr("damaged"));
  EXPECT_EQ(std::ranges::count(damaged.err, '\n'), 1) << damaged;
}

TEST_F(BoundTest, BadOptionsAreNamedAndNothingIsWritten) {
  MakeRun("r", "2x6");
  const std::pair<const char*, const char*> cases[] = {
      {"bound r --engine milp --variant X", "--variant"},
      {"bound r --gap -1", "gap"},
      {"bound r --gap nan", "gap"},
      {"bound r --gap 2", "gap"},
      {"bound r --engine milp --gap -1", "gap"},
      {"bound r --engine milp --tau -0.1", "tau"},
      {"bound r --memory 0", "--memory"},
      {"bound r --memory -5", "--memory"},
      {"bound r --memory much", "--memory"},
      {"bound r --memory 99999999999999999999", "--memory"},
      {"bound r --proof p.proof --no-proof", "--no-proof"},
      {"bound r --time-limit soon", "duration"},
      {"bound r --time-limit 0", "duration"},
      {"bound r --engine milp --subset-limit 3x", "duration"},
      {"bound r --class 2", "class"},
      {"bound r --engine milp --class 2", "class"},
      {"bound r --engine other", "--engine"},
      {"bound nothing", "nothing"},
      {"ablation r --variants H,Z", "'Z'"},
      {"ablation r --test none.csv", "none.csv"},
  };
  for (const auto& [arguments, word] : cases) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << "\n" << outcome;
    EXPECT_THAT(outcome.err, HasSubstr(word)) << arguments;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << arguments << "\n" << outcome;
  }
  EXPECT_FALSE(fs::exists(folder_ / "r/certificate.json"));
}

TEST_F(BoundTest, AblationShowsEveryVariantAndCanBeResumed) {
  MakeRun("r", "2x6");
  const Outcome outcome = Run("ablation r --time-limit 30s --json");
  ASSERT_EQ(outcome.code, 0) << outcome;
  const nlohmann::json rows = outcome.Json()["rows"];
  ASSERT_EQ(rows.size(), 6);
  for (const auto& row : rows) {
    EXPECT_TRUE(row["accuracy_eps_0"].is_number());
    EXPECT_EQ(Check("r/ablation/" + row["variant"].get<std::string>() + ".json", "r").code, 0);
  }
  const auto beta = [&](int row, int label) {
    return rows[row]["classes"][label]["beta_upper"].get<double>();
  };
  for (const int label : {0, 1}) {  // naive, H, HM, HMRiS, HMB, full
    EXPECT_LE(beta(2, label), beta(1, label) * 1.02) << "matching dependencies only cut";
    EXPECT_LE(beta(4, label), beta(2, label) * 1.02) << "branching only tightens";
  }
  const Outcome text = Run("ablation r --time-limit 30s --resume");
  EXPECT_EQ(text.code, 0) << text;
  EXPECT_THAT(text.out, HasSubstr("HMRiS"));
  EXPECT_EQ(ReadJson(folder_ / "r/ablation/table.json")["rows"][5]["classes"][0]["beta_upper"],
            rows[5]["classes"][0]["beta_upper"]);
}

}  // namespace
}  // namespace lucid::test
