// What goes to stdout, what to stderr, and what happens when one of them cannot be written to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "support/run_lucid.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Streams : public testing::Test {
 protected:
  Streams() { EXPECT_EQ(Run("data synth2d --rows 40 --out p").code, 0); }
  Outcome Run(const std::string& arguments, RunOptions options = {}) {
    options.folder = folder_.path();
    return RunLucid(Words(arguments), options);
  }
  Scratch folder_;
};

TEST_F(Streams, TrainJsonIsOneDocumentWithTheFieldsOfTheContract) {
  const Outcome outcome = Run("train --data p --arch 2x5 --epochs 2 --out r --json");
  ASSERT_EQ(outcome.code, 0) << outcome;
  const nlohmann::json json = outcome.Json();
  ASSERT_TRUE(json.is_object()) << outcome.out;
  EXPECT_EQ(json.value("run", ""), "r");
  EXPECT_EQ(json.value("rows", 0), 40);
  EXPECT_EQ(json.value("members", 0), 40);
  EXPECT_EQ(json.value("parameters", 0), 2 * 5 + 5 + 5 * 5 + 5 + 5 * 2 + 2);
  for (const char* field : {"train_accuracy", "test_accuracy"}) {
    ASSERT_TRUE(json[field].is_number()) << field;
    EXPECT_GE(json[field], 0);
    EXPECT_LE(json[field], 1);
  }
  for (const char* field : {"seconds", "networks_per_second"}) {
    ASSERT_TRUE(json[field].is_number()) << field;
    EXPECT_GT(json[field], 0);
  }
  EXPECT_EQ(outcome.err, "") << "a short run has nothing to say";
}

TEST_F(Streams, EveryJsonOutputIsOneDocument) {
  for (const char* command :
       {"data describe p", "data encode p --out p.npz", "data synth2d --rows 9 --out q",
        "data fetch --list", "demo --rows 20 --grid 10 --out d"}) {
    const Outcome outcome = Run(std::string(command) + " --json");
    EXPECT_EQ(outcome.code, 0) << outcome;
    EXPECT_TRUE(outcome.Json().is_object()) << command << "\n" << outcome;
  }
}

// What a terminal of so many columns is sent by a training of some seconds, which is asked to stop
// (if `stop`) when its display is there.
std::string SentToATerminal(const Scratch& folder, unsigned short columns, bool stop) {
  winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    if (::chdir(folder.path().c_str()) == 0) {
      ::execl(LUCID_PROGRAM, LUCID_PROGRAM, "train", "--data", "big", "--arch", "4x30", "--epochs",
              "100", "--batch", "16", "--expected-rows", "1500", "--members", "200", "--threads",
              "1", "--out", "r", nullptr);
    }
    ::_exit(99);
  }
  std::string shown;
  std::array<char, 4096> bytes{};
  for (ssize_t n = 0; (n = ::read(terminal, bytes.data(), bytes.size())) > 0;) {
    shown.append(bytes.data(), static_cast<std::size_t>(n));
    if (stop && shown.find("] training: ") != std::string::npos) {
      ::kill(child, SIGINT);
      stop = false;
    }
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  ::close(terminal);
  EXPECT_TRUE(WIFEXITED(status)) << shown;
  EXPECT_THAT(WEXITSTATUS(status), testing::AnyOf(0, 3)) << shown;
  return shown;
}

// Drawn anew in its row, whatever the terminal's width. A line that is longer would go on in the
// next row and stay there.
TEST_F(Streams, TheLiveDisplayKeepsToTheWidthOfTheTerminal) {
  ASSERT_EQ(Run("data synth2d --rows 1500 --seed 1 --out big").code, 0);
  constexpr std::size_t kColumns = 40;
  const std::string shown = SentToATerminal(folder_, kColumns, /*stop=*/false);
  int drawn = 0;
  for (std::size_t at = 0; (at = shown.find("\r[", at)) != std::string::npos; ++drawn) {
    const std::size_t end = shown.find("\x1b[K", at);
    ASSERT_NE(end, std::string::npos) << shown.substr(at);
    EXPECT_LE(end - at - 1, kColumns) << shown.substr(at, end - at);
    EXPECT_THAT(shown.substr(at, end - at), HasSubstr("] training: "));
    at = end;
  }
  EXPECT_GT(drawn, 2) << shown;
}

// What is said while it is drawn has a line of its own: the display gives its place up.
TEST_F(Streams, WhatIsSaidDoesNotStandBehindTheLiveDisplay) {
  ASSERT_EQ(Run("data synth2d --rows 1500 --seed 1 --out big").code, 0);
  const std::string shown = SentToATerminal(folder_, 100, /*stop=*/true);
  EXPECT_THAT(shown, HasSubstr("\r\x1b[Kstopping (once more to stop at once)\r\n"));
  const std::size_t last = shown.find("lucid: ");
  ASSERT_NE(last, std::string::npos) << shown;
  EXPECT_THAT(shown.substr(last - 1, 1), testing::AnyOf("\n", "K")) << shown;
}

// Progress goes to stderr as plain lines where that is no terminal, and --quiet leaves it out.
TEST_F(Streams, ProgressIsPlainLinesOnStderrUnlessQuiet) {
  const Scratch big;
  ASSERT_EQ(RunLucid(Words("data synth2d --rows 20000 --out p"), {.folder = big.path()}).code, 0);
  const std::string train = "train --data p --epochs 50 --threads 1 --out ";
  Process loud(Words(train + "loud"), {.folder = big.path()});
  Process quiet(Words(train + "quiet --quiet"), {.folder = big.path()});
  EXPECT_TRUE(WaitFor([&] { return loud.Err().find('\n') != std::string::npos; }, 60));
  EXPECT_EQ(quiet.Err(), "");
  for (Process* process : {&loud, &quiet}) process->Signal(SIGTERM);
  const Outcome outcome = loud.Wait();
  EXPECT_EQ(outcome.code, 3) << outcome;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(
      outcome.err,
      testing::ContainsRegex("training: [0-9]+/20001 networks \\([0-9]+ %\\), .*/s, ETA [0-9:]+"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("\x1b")));
  EXPECT_THAT(outcome.err, Not(HasSubstr("\r")));
  EXPECT_EQ(quiet.Wait().code, 3);
}

TEST_F(Streams, NoEscapeCodesWithoutATerminal) {
  for (const RunOptions& options : {RunOptions{}, RunOptions{.env = {{"NO_COLOR", "1"}}},
                                    RunOptions{.env = {{"TERM", "xterm-256color"}}}}) {
    for (const char* command : {"--help", "train --help", "data describe p", "train --fly",
                                "train --data p --epochs 1 --resume --out r"}) {
      const Outcome outcome = Run(command, options);
      EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("\x1b"))) << command;
    }
  }
}

TEST_F(Streams, AFullStdoutIsAnError) {
  ASSERT_EQ(Run("train --data p --epochs 1 --out r").code, 0);
  for (const char* command :
       {"--help", "--version", "train --help", "data describe p", "data describe p --json",
        "data fetch --list", "data synth2d --rows 9 --out q",
        "train --data p --epochs 1 --out s --json", "train --data p --epochs 1 --out r --resume"}) {
    const Outcome outcome = Run(command, {.stdout_to = "/dev/full"});
    EXPECT_EQ(outcome.code, 2) << command << "\n" << outcome;
    EXPECT_THAT(outcome.err, HasSubstr("standard output")) << command;
  }
}

// Nobody reads the complaint, but the exit code is right and the work goes on.
TEST_F(Streams, AFullStderrChangesNoExitCode) {
  const RunOptions full = {.stderr_to = "/dev/full"};
  EXPECT_EQ(Run("train --fly", full).code, 2);
  EXPECT_EQ(Run("train --data nowhere --out r", full).code, 2);
  EXPECT_EQ(Run("train --data p --epochs 1 --out r", full).code, 0);
}

}  // namespace
}  // namespace lucid::test
