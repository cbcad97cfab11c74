// lucid-check end to end: accepts what belongs together and what no search contradicts, refuses
// everything else with a first line that says why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "lucid/check/check.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class CheckProgram : public testing::Test {
 protected:
  CheckProgram() {
    EXPECT_EQ(RunLucid(Words("data synth2d --rows 40 --out p"), {.folder = folder_.path()}).code,
              0);
    for (const char* run : {"run", "other --seed 1"}) {
      const std::string train = "train --data p --arch 2x6 --epochs 40 --lr 0.3 --batch 8 --out ";
      EXPECT_EQ(RunLucid(Words(train + run), {.folder = folder_.path()}).code, 0);
    }
    // Bounds that hold for certain: no confidence is larger than what the weights allow.
    certificate_ = UnprovedCertificate(Ensemble::Open(folder_ / "run").value());
    certificate_.engine = Engine::kMilp;
    for (ClassBound& bound : certificate_.classes) bound.beta_upper = 1e6;
    Save();
  }
  void Save() {
    const Status saved = SaveCertificate(certificate_, folder_ / "run/certificate.json");
    ASSERT_TRUE(saved.ok()) << saved.error().message;
  }
  RunOptions Options() const { return {.folder = folder_.path(), .program = LUCID_CHECK_PROGRAM}; }
  Outcome Check(const std::string& more = "--level falsify --starts 100") {
    return RunLucid(Words("run/certificate.json --run run " + more), Options());
  }
  void ExpectRefused(const std::string& line) {
    const Outcome outcome = Check();
    EXPECT_EQ(outcome.code, 1) << outcome;
    EXPECT_THAT(outcome.out, StartsWith("refused: "));
    EXPECT_THAT(outcome.out.substr(0, outcome.out.find('\n')), HasSubstr(line));
    EXPECT_THAT(outcome.out, Not(HasSubstr("accepted")));
    const Outcome json = Check("--level falsify --starts 100 --json");
    EXPECT_EQ(json.code, 1) << json;
    EXPECT_EQ(json.Json()["accepted"], false);
  }
  // Changes a byte of a file of the run, expects the refusal, and puts it back.
  void ExpectRefusedWithChangedByte(const std::string& file, double where,
                                    const std::string& line) {
    const std::string path = folder_ / ("run/" + file), good = ReadBytes(path);
    std::string bad = good;
    bad[static_cast<std::size_t>(where * static_cast<double>(bad.size() - 1))] ^= 1;
    WriteBytes(path, bad);
    ExpectRefused(line);
    WriteBytes(path, good);
  }

  Scratch folder_;
  Certificate certificate_;
};

TEST_F(CheckProgram, AcceptsAndListsEveryCheck) {
  const Outcome outcome = Check();
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_THAT(outcome.out, StartsWith("accepted at level falsify: "));
  for (const char* name : {"run key", "ensemble", "forward error of the members",
                           "witness of class 0", "search of class 1", "not done  proof"}) {
    EXPECT_THAT(outcome.out, HasSubstr(name));
  }
  const auto json = Check("--level falsify --starts 100 --json").Json();
  EXPECT_EQ(json["accepted"], true);
  EXPECT_EQ(json["level"], "falsify");
  EXPECT_EQ(json["largest"].size(), 2U);
  EXPECT_EQ(json["checks"].back()["name"], "proof");
  EXPECT_EQ(json["checks"].back()["outcome"], "not done");
}

TEST_F(CheckProgram, BindingDoesNotClaimToHaveSearched) {
  const Outcome outcome = Check("--level binding");
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_THAT(outcome.out, StartsWith("accepted at level binding: "));
  EXPECT_THAT(outcome.out, HasSubstr("not done  falsify"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("search of class")));
}

TEST_F(CheckProgram, PrintsALeakAboveABoundThatIsTooLow) {
  const auto found = Check("--level falsify --starts 300 --seed 4 --json").Json();
  const auto largest = found["largest"][0].is_null() ? found["largest"][1] : found["largest"][0];
  ASSERT_FALSE(largest.is_null()) << found;
  const std::size_t label = largest["class"];
  const double confidence = largest["confidence"];
  certificate_.classes[label].beta_upper = 0.9 * confidence;
  Save();
  ExpectRefused("leaks, above the bound");
  const Outcome text = Check("--level falsify --starts 300 --seed 4");
  EXPECT_EQ(text.code, 1);
  EXPECT_THAT(text.out, HasSubstr("\nleak: class " + std::to_string(label) + ", f = "));
  const auto json = Check("--level falsify --starts 300 --seed 4 --json").Json();
  EXPECT_EQ(json["leaks"][0]["confidence"], confidence) << "the same seed, the same input";
  EXPECT_EQ(json["leaks"][0]["x"].size(), 2U);
  EXPECT_EQ(Check("--level binding").code, 0) << "which is why the levels differ";
}

TEST_F(CheckProgram, RefusesTamperedFiles) {
  for (const double where : {0.0, 0.01, 0.3, 0.7, 0.97, 1.0}) {
    ExpectRefusedWithChangedByte("certificate.json", where, "certificate: run/certificate.json");
  }
  ExpectRefusedWithChangedByte("network.safetensors", 0.9, "files of the run: ");
  ExpectRefusedWithChangedByte("ensemble.safetensors", 0.5, "ensemble.safetensors");
  WriteBytes(folder_ / "run/certificate.json", "");
  ExpectRefused("truncated");
}

TEST_F(CheckProgram, RefusesACertificateOfAnotherRunOrWithAFalseWitness) {
  WriteBytes(folder_ / "run/kept.json", ReadBytes(folder_ / "run/certificate.json"));
  const Outcome other = RunLucid(Words("run/kept.json --run other"), Options());
  EXPECT_EQ(other.code, 1) << other;
  EXPECT_THAT(other.out, StartsWith("refused: run key: "));
  EXPECT_THAT(other.out, HasSubstr("not done  falsify: the certificate is not of this run"));

  certificate_.classes[0].witness = Witness{{0, 0}, 3, 3};
  certificate_.classes[0].beta_lower = 1e5;
  Save();
  ExpectRefused("witness of class 0: ");
}

TEST_F(CheckProgram, SaysWhatIsWrongWithTheCommandLineAndInput) {
  const struct {
    std::string arguments, word;
  } cases[] = {
      {"", "certificate is required"},
      {"run/certificate.json", "--run is required"},
      {"none.json --run run", "none.json"},
      {"run/certificate.json --run none", "'none' is not a finished run"},
      {"run/certificate.json --run run --level all", "--level"},
      {"run/certificate.json --run run --starts 0", "starts is 0"},
      {"run/certificate.json --run run --what", "unknown option '--what'"},
      {"run/certificate.json --run run --level falsify --proof p", "--proof is for --level proof"},
      {"run/certificate.json --run run --proof none", "none"},
  };
  for (const auto& item : cases) {
    const Outcome outcome = RunLucid(Words(item.arguments), Options());
    EXPECT_EQ(outcome.code, 2) << item.arguments << outcome;
    EXPECT_EQ(outcome.out, "") << item.arguments;
    EXPECT_THAT(outcome.err, StartsWith("lucid-check: "));
    EXPECT_THAT(outcome.err, HasSubstr(item.word));
  }
}

TEST_F(CheckProgram, HelpEndsWithAnExampleThatRuns) {
  const Outcome help = RunLucid({"--help"}, Options());
  EXPECT_EQ(help.code, 0);
  const std::string call = "lucid-check demo/run/certificate.json --run demo/run";
  EXPECT_THAT(help.out, HasSubstr("&& " + call));
  std::filesystem::create_directories(folder_ / "demo");
  std::filesystem::rename(folder_ / "run", folder_ / "demo/run");
  const std::vector<std::string> words = Words(call);
  const Outcome outcome =
      RunLucid(std::vector(words.begin() + 1, words.end()) + Words("--level falsify --starts 50"),
               Options());
  EXPECT_EQ(outcome.code, 0) << outcome;
}

TEST_F(CheckProgram, HasAManualPageOfItsOptions) {
  const Outcome manual = RunLucid({"--man"}, Options());
  EXPECT_EQ(manual.code, 0);
  EXPECT_THAT(manual.out, StartsWith(".TH lucid-check 1 "));
  EXPECT_THAT(manual.out, HasSubstr(".B lucid-check\n\\&certificate \\-\\-run DIR [OPTIONS]\n"));
  for (const char* option : {"\\-\\-level TEXT", "\\-\\-proof FILE", "\\-\\-starts INT"}) {
    EXPECT_THAT(manual.out, HasSubstr(option));
  }
}

TEST_F(CheckProgram, InterruptedItAcceptsNothing) {
  // Minutes of work, so that a moment later it is in the middle of it.
  Process process(Words("run/certificate.json --run run --level falsify --starts 1000000"),
                  Options());
  SleepSeconds(1);
  process.Signal(SIGTERM);
  const Outcome outcome = process.Wait();
  EXPECT_EQ(outcome.code, 3) << outcome;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("stopped"));
}

}  // namespace
}  // namespace lucid::test
