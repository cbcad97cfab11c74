// Help, examples, exit codes, options from files: what the command contract promises of any
// command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <sstream>

#include "support/command_test.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The names under "Subcommands:" of a help text.
std::vector<std::string> Subcommands(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream lines(help);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "Subcommands:") {
      inside = true;
    } else if (line.empty()) {
      inside = false;
    } else if (inside && line.starts_with("  ") && line[2] != ' ') {
      names.push_back(Words(line).front());
    }
  }
  return names;
}

// Every command and nested command that the program's own help names.
std::vector<std::vector<std::string>> AllCommands() {
  std::vector<std::vector<std::string>> commands = {{}};
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const std::vector<std::string> command = commands[i];
    for (const std::string& name : Subcommands(RunLucid(command + Words("--help")).out)) {
      commands.push_back(command + Words(name));
    }
  }
  return commands;
}

// The last line of a help text, split at "&&": commands without their "lucid".
std::vector<std::vector<std::string>> ExampleOf(const std::string& help) {
  std::string last;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) last = line;
  }
  std::vector<std::vector<std::string>> commands(1);
  for (const std::string& word : Words(last.substr(std::min(last.find("lucid "), last.size())))) {
    if (word == "&&") {
      commands.emplace_back();
    } else if (word != "lucid" || !commands.back().empty()) {
      commands.back().push_back(word);
    }
  }
  return commands;
}

// What makes an example quick without changing what it shows.
std::vector<std::string> Quickly(const std::vector<std::string>& command) {
  if (command.front() == "train") return command + Words("--epochs 2");
  if (command.front() == "demo") return command + Words("--rows 40 --grid 20");
  if (command.front() == "serve") {
    return command + Words("--listen 127.0.0.1:0 --admin 127.0.0.1:0 --ready-file ready");
  }
  return command;
}

// A server runs until it is told to stop; all others end by themselves.
Outcome RunExample(const std::vector<std::string>& command, const Scratch& folder) {
  Process process(Quickly(command), {.folder = folder.path()});
  if (command.front() == "serve") {
    const auto ready = [&] { return std::filesystem::exists(folder / "ready") || process.Ended(); };
    EXPECT_TRUE(WaitFor(ready, 60));
    process.Signal(SIGTERM);
  }
  return process.Wait();
}

TEST(Help, IsThereForEveryCommandWithAnExampleThatRuns) {
  const auto commands = AllCommands();
  EXPECT_GE(commands.size(), 8u) << "lucid, train, data and its four, demo";
  for (const auto& command : commands) {
    const Outcome help = RunLucid(command + Words("--help"));
    SCOPED_TRACE(testing::PrintToString(command));
    EXPECT_EQ(help.code, 0) << help;
    EXPECT_EQ(help.err, "");
    const Scratch folder;
    const auto example = ExampleOf(help.out);
    ASSERT_FALSE(example.front().empty()) << "no example in: " << help.out;
    if (!command.empty()) {
      EXPECT_EQ(example.back().front(), command.front());
    }
    for (const auto& line : example) {
      const Outcome ran = RunExample(line, folder);
      EXPECT_EQ(ran.code, 0) << testing::PrintToString(line) << "\n" << ran;
      EXPECT_NE(ran.out, "");
    }
  }
}

TEST(Help, EveryCommandTakesTheCommonOptions) {
  for (const auto& command : AllCommands()) {
    const std::string help = RunLucid(command + Words("--help")).out;
    if (!Subcommands(help).empty()) continue;  // only leads to others
    for (const char* option :
         {"--threads", "--seed", "--quiet", "--log-level", "--config", "--json"}) {
      EXPECT_THAT(help, HasSubstr(option)) << testing::PrintToString(command);
    }
  }
}

TEST(Version, IsPrinted) {
  const Outcome version = RunLucid({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

// Made from the commands themselves: every command and option is in both.
TEST(Completion, KnowsEveryCommandAndOption) {
  const Outcome bash = RunLucid({"completion", "bash"}), man = RunLucid({"--man"});
  ASSERT_EQ(bash.code, 0) << bash;
  ASSERT_EQ(man.code, 0) << man;
  for (const char* path : {"'lucid data schema')", "'lucid fit')", "'lucid keys create')"}) {
    EXPECT_THAT(bash.out, HasSubstr(path));
  }
  EXPECT_THAT(man.out, HasSubstr(".SS \\&lucid fit\n"));
  EXPECT_THAT(man.out, HasSubstr("\\-\\-expected\\-rows"));
  const Scratch folder;
  WriteBytes(folder / "lucid.bash", bash.out);
  const std::string ask =
      ". ./lucid.bash; COMP_WORDS=(lucid data --seed 1 sch); COMP_CWORD=4; _lucid; "
      "[ \"${COMPREPLY[*]}\" = schema ]";
  EXPECT_EQ(RunLucid({"-c", ask}, {.folder = folder.path(), .program = "/bin/bash"}).code, 0);
}

TEST(BadUsage, IsExitCodeTwoAndOneLineThatNamesTheProblem) {
  const Scratch folder;
  ASSERT_EQ(RunLucid(Words("data synth2d --rows 10 --out p"), {.folder = folder.path()}).code, 0);
  const struct {
    const char* arguments;
    const char* named;
  } cases[] = {
      {"", "subcommand"},
      {"fly", "'fly'"},
      {"evalute r", "unknown command 'evalute', did you mean 'evaluate'?"},
      {"data shcema f.csv", "unknown command 'shcema', did you mean 'schema'?"},
      {"train --data p --out r --epohcs 3", "unknown option '--epohcs', did you mean '--epochs'?"},
      {"fit f.csv --lable y --out r", "did you mean '--label'?"},
      {"train --data p/train.csv --out r", "lucid data schema p/train.csv"},
      {"data fly", "'fly'"},
      {"--fly", "'--fly'"},
      {"train --fly", "'--fly'"},
      {"train --data p --out r --fly", "'--fly'"},
      {"train --data p --out r more", "'more'"},
      {"train --data p", "--out is required"},
      {"train --out r", "--data is required"},
      {"data describe", "DIR is required"},
      {"data encode p", "--out is required"},
      {"data synth2d", "--out is required"},
      {"data fetch", "NAME"},
      {"data fetch nothing --out d", "nothing"},
      {"train --data p --out r --epochs many", "many"},
      {"train --data p --out r --epochs 1.5", "1.5"},
      {"train --data p --out r --epochs 0", "epochs is 0"},
      {"train --data p --out r --epochs 99999999999999999999", "epochs"},
      {"train --data p --out r --batch 0", "batch is 0"},
      {"train --data p --out r --lr nan", "lr is nan"},
      {"train --data p --out r --lr -1", "lr is -1"},
      {"train --data p --out r --lr", "--lr"},
      {"train --data p --out r --momentum 1", "momentum is 1"},
      {"train --data p --out r --average-epochs 51", "average-epochs is 51"},
      {"train --data p --out r --weight-decay -1", "weight-decay is -1"},
      {"train --data p --out r --seed -1", "-1"},
      {"train --data p --out r --seed 99999999999999999999", "99999999999999999999"},
      {"train --data p --out r --threads -1", "--threads"},
      {"train --data p --out r --rows 0", "--rows"},
      {"train --data p --out r --members 11", "--members is 11"},
      {"train --data p --out r --members 0", "--members"},
      {"train --data p --out r --preset fast", "--preset"},
      {"train --data p --out r --schedule linear", "--schedule"},
      {"train --data p --out r --shard 4/3", "--shard: '4/3'"},
      {"train --data p --out r --shard 1/12", "1/12"},
      {"train --data p --out r --shard 1/2 --merge", "--merge"},
      {"train --data p --out r --merge", "no finished shard"},
      {"train --data p --out r --arch 2y50", "2y50"},
      {"train --data p --out r --arch 2x0", "is 0"},
      {"train --data p --out r --arch none.toml", "none.toml"},
      {"train --data p --out r --arch conv", "convolution"},
      {"train --data p --out r --instruction-set mmx", "mmx"},
      {"train --data p --out r --log-level loud", "--log-level"},
      {"train --data p --out r --config none.toml", "none.toml"},
      {"train --data nowhere --out r", "nowhere"},
      {"data describe nowhere", "nowhere"},
      {"data synth2d --rows 0 --out q", "rows"},
      {"data synth2d --out p", "p"},
      {"demo --rows 1 --out d", "--rows"},
  };
  for (const auto& item : cases) {
    const Outcome outcome = RunLucid(Words(item.arguments), {.folder = folder.path()});
    SCOPED_TRACE(item.arguments);
    EXPECT_EQ(outcome.code, 2) << outcome;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("lucid: "));
    EXPECT_THAT(outcome.err, HasSubstr(item.named));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "r/manifest.json"));
}

TEST(BadUsage, WhateverTheUserTypedTheMessageIsOneLine) {
  const Outcome outcome = RunLucid({"train", "--a\nb\x1b[31m"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("\x1b")));
}

class Config : public CommandTest {
 protected:
  Config() { EXPECT_EQ(Run("data synth2d --rows 12 --out p").code, 0); }
  std::string Training(const std::string& run) {
    return ReadJson(folder_ / (run + "/manifest.json")).value("training", "");
  }
  std::string RunKey(const std::string& run) {
    return ReadJson(folder_ / (run + "/manifest.json"))["hashes"].value("run_key", "");
  }
};

TEST_F(Config, SetsTheOptionsOfTrain) {
  // The rate stands before the preset: the order in the file means nothing.
  WriteBytes(folder_ / "c.toml",
             "lr = 0.05\npreset = \"stable\"\ndata = \"p\"\nout = \"r\"\nepochs = 3\n"
             "weight-decay = 1e-4\njson = true\nrows = 11\nseed = 7\nclip = false\n");
  const Outcome outcome = Run("train --config c.toml");
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_EQ(outcome.Json()["rows"], 11);
  ASSERT_EQ(Run("train --data p --out same --epochs 3 --preset stable --lr 0.05 --rows 11 --seed 7 "
                "--weight-decay 0.0001")
                .code,
            0);
  EXPECT_EQ(RunKey("r"), RunKey("same"));
  EXPECT_THAT(Training("r"), HasSubstr("schedule=cosine"));
}

TEST_F(Config, SetsTheOptionsOfANestedCommand) {
  WriteBytes(folder_ / "c.toml", "rows = 33\nout = \"q\"\njson = true\n");
  const Outcome outcome = Run("data synth2d --config c.toml");
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_EQ(outcome.Json()["train_rows"], 33);
  EXPECT_EQ(outcome.Json()["directory"], "q");
}

TEST_F(Config, TheCommandLineWins) {
  WriteBytes(folder_ / "c.toml", "epochs = 3\ndata = \"nowhere\"\nrows = 5\n");
  const Outcome outcome = Run("train --data p --config c.toml --epochs 4 --out r --json");
  ASSERT_EQ(outcome.code, 0) << outcome;
  EXPECT_EQ(outcome.Json()["rows"], 5);
  EXPECT_THAT(Training("r"), HasSubstr("epochs=4 "));
}

TEST_F(Config, WhatItCannotMeanIsAnErrorWithFileAndLine) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"epochs = 3\nepoch = 4\n", "c.toml:2: 'epoch'"},
      {"epochs = 3\nconfig = \"d.toml\"\n", "c.toml:2: 'config'"},
      {"help = true\n", "c.toml:1: 'help'"},
      {"epochs = \n", "c.toml:1: "},
      {"[train]\nepochs = 3\n", "c.toml:1: 'train'"},
      {"epochs = 1979-05-27\n", "c.toml:1: 'epochs'"},
      {"epochs = \"many\"\n", "many"},
      {"epochs = [1, 2]\n", "--epochs"},
      {"quiet = \"maybe\"\n", "maybe"},
  };
  for (const auto& item : cases) {
    WriteBytes(folder_ / "c.toml", item.text);
    const Outcome outcome = Run("train --data p --out r --config c.toml");
    EXPECT_EQ(outcome.code, 2) << item.text << outcome;
    EXPECT_THAT(outcome.err, HasSubstr(item.message));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
}

TEST_F(Config, OptionsOverrideThePresetInAnyOrder) {
  const struct {
    const char *options, *run;
  } cases[] = {{"--lr 0.05 --preset stable", "a"},
               {"--preset stable --lr 0.05", "b"},
               {"--schedule constant --preset stable", "c"},
               {"--preset stable --schedule constant", "d"},
               {"--schedule cosine --lr 0.05", "e"}};
  for (const auto& item : cases) {
    const Outcome outcome =
        Run(std::string("train --data p --epochs 2 ") + item.options + " --out " + item.run);
    ASSERT_EQ(outcome.code, 0) << outcome;
  }
  EXPECT_EQ(RunKey("a"), RunKey("b"));
  EXPECT_EQ(RunKey("a"), RunKey("e"));
  EXPECT_THAT(Training("a"), HasSubstr("schedule=cosine"));
  EXPECT_EQ(RunKey("c"), RunKey("d"));
  EXPECT_THAT(Training("c"), HasSubstr("schedule=constant"));
  EXPECT_NE(RunKey("a"), RunKey("c"));
}

}  // namespace
}  // namespace lucid::test
