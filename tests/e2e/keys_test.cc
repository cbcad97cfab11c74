// lucid keys end to end: what is printed, what is kept, and words for what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "support/run_lucid.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class KeysTest : public testing::Test {
 protected:
  Outcome Run(const std::string& arguments) {
    return RunLucid(Words("keys " + arguments), {.folder = folder_.path()});
  }
  const Scratch folder_;
};

TEST_F(KeysTest, CreateShowsTheKeyOnceAndKeepsOnlyItsHash) {
  const Outcome created = Run("create --file k.toml --id alice --budget 10 --rate 100");
  ASSERT_EQ(created.code, 0) << created;
  EXPECT_THAT(created.out, testing::MatchesRegex("lucid\\.alice\\.[0-9a-f]{64}\n"));
  EXPECT_THAT(created.err, HasSubstr("once"));
  const std::string secret = created.out.substr(created.out.rfind('.') + 1, 64);
  EXPECT_THAT(ReadBytes(folder_ / "k.toml"), Not(HasSubstr(secret)));
  struct stat info {};
  ASSERT_EQ(::stat((folder_ / "k.toml").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "k.toml.lock"));
}

TEST_F(KeysTest, ListShowsStates) {
  ASSERT_EQ(Run("create --file k.toml --id alice --expires 2099-01-01 --burst 5 --rate 2").code, 0);
  ASSERT_EQ(Run("create --file k.toml --id bob").code, 0);
  ASSERT_EQ(Run("revoke --file k.toml --id bob").code, 0);
  const nlohmann::json keys = Run("list --file k.toml --json").Json()["keys"];
  ASSERT_EQ(keys.size(), 2);
  EXPECT_EQ(keys[0]["state"], "valid");
  EXPECT_EQ(keys[0]["expires"], "2099-01-01T00:00:00Z");
  EXPECT_EQ(keys[0]["rate"], 2);
  EXPECT_EQ(keys[1]["state"], "revoked");
  EXPECT_TRUE(keys[1]["budget"].is_null());
  EXPECT_THAT(Run("list --file k.toml").out, HasSubstr("revoked"));
}

TEST_F(KeysTest, WhatIsWrongIsNamedAndNothingIsChanged) {
  ASSERT_EQ(Run("create --file k.toml --id alice").code, 0);
  WriteBytes(folder_ / "bad.toml", "version = 1\nkeys = 3\n");
  const std::string before = ReadBytes(folder_ / "k.toml");
  const std::pair<const char*, const char*> cases[] = {
      {"create --file k.toml --id alice", "'alice' is there already"},
      {"create --file k.toml --id a.b", "id 'a.b'"},
      {"create --file k.toml --id b --expires soon", "'soon'"},
      {"create --file k.toml --id b --expires 2020-01-01", "is over already"},
      {"create --file k.toml --id b --budget -1", "budget -1"},
      {"create --file k.toml --id b --rate 0", "rate 0"},
      {"create --file k.toml --id b --burst 5", "burst"},
      {"create --file none/k.toml --id b", "none/k.toml"},
      {"create --file bad.toml --id b", "bad.toml:2"},
      {"revoke --file k.toml --id bob", "'bob'"},
      {"revoke --file none.toml --id bob", "none.toml"},
      {"list --file none.toml", "none.toml"},
      {"list", "--file"},
  };
  for (const auto& [arguments, word] : cases) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << "\n" << outcome;
    EXPECT_THAT(outcome.err, HasSubstr(word)) << arguments;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << arguments << "\n" << outcome;
    EXPECT_EQ(outcome.out, "") << arguments;
  }
  EXPECT_EQ(ReadBytes(folder_ / "k.toml"), before);
}

// Commands at once: each either adds its key or says that the file is in use.
TEST_F(KeysTest, NoChangeIsLost) {
  std::vector<std::unique_ptr<Process>> processes;
  for (int i = 0; i < 6; ++i) {
    processes.push_back(
        std::make_unique<Process>(Words("keys create --file k.toml --id u" + std::to_string(i)),
                                  RunOptions{.folder = folder_.path()}));
  }
  std::size_t added = 0;
  for (const auto& process : processes) {
    const Outcome outcome = process->Wait();
    if (outcome.code == 0) {
      ++added;
    } else {
      EXPECT_THAT(outcome.err, HasSubstr("in use")) << outcome;
    }
  }
  EXPECT_GE(added, 1);
  EXPECT_EQ(Run("list --file k.toml --json").Json()["keys"].size(), added);
}

}  // namespace
}  // namespace lucid::test
