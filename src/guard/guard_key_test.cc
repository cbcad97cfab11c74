#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include "certificate/test_support.h"
#include "lucid/guard/guard.h"
#include "support/files.h"

namespace lucid {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

std::vector<std::uint8_t> BytesOf(const GuardKey& key) {
  return {key.bytes().begin(), key.bytes().end()};
}

class GuardKeyTest : public testing::Test {
 protected:
  std::string Complaint() const {
    const auto key = GuardKey::LoadOrCreate(path_);
    return key.ok() ? "accepted" : key.error().message;
  }
  void PutKey(const std::string& content, fs::perms mode = fs::perms(0600)) const {
    WriteBytes(path_, content);
    fs::permissions(path_, mode);
  }
  TemporaryFolder folder_;
  std::string path_ = folder_ / "guard.key";
};

TEST_F(GuardKeyTest, IsCreatedOnceForThisUserAlone) {
  const mode_t before = ::umask(0);  // the mode does not come from the umask
  const GuardKey made = GuardKey::LoadOrCreate(path_).value();
  ::umask(before);
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0600));
  EXPECT_EQ(BytesOf(GuardKey::LoadOrCreate(path_).value()), BytesOf(made));
  EXPECT_EQ(ReadBytes(path_).substr(0, 18), "lucid-guard-key-1\n");
  EXPECT_EQ(ReadBytes(path_).size(), 18 + 64 + 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / ""), {}), 1) << "nothing else is left";
}

TEST_F(GuardKeyTest, IsThatOfTheFile) {
  PutKey("lucid-guard-key-1\n000102030405060708090a0b0c0d0e0f" + std::string(30, 'a') + "9f\n");
  const GuardKey key = GuardKey::LoadOrCreate(path_).value();
  EXPECT_EQ(key.bytes()[0], 0);
  EXPECT_EQ(key.bytes()[10], 10);
  EXPECT_EQ(key.bytes()[16], 0xaa);
  EXPECT_EQ(key.bytes()[31], 0x9f);
}

TEST_F(GuardKeyTest, IsOfTheSystemsEntropy) {
  std::set<std::vector<std::uint8_t>> keys;
  for (int i = 0; i < 100; ++i) {
    keys.insert(BytesOf(GuardKey::Random()));
    keys.insert(BytesOf(GuardKey::LoadOrCreate(folder_ / std::to_string(i)).value()));
  }
  EXPECT_EQ(keys.size(), 200);
}

TEST_F(GuardKeyTest, OneThatOthersMayReadIsRefused) {
  ASSERT_TRUE(GuardKey::LoadOrCreate(path_).ok());
  for (const auto mode : {0640, 0604, 0644, 0660, 0610, 0601}) {
    fs::permissions(path_, fs::perms(mode));
    EXPECT_THAT(Complaint(), HasSubstr("chmod 600")) << std::oct << mode;
  }
  fs::permissions(path_, fs::perms(0400));
  EXPECT_EQ(Complaint(), "accepted");
}

TEST_F(GuardKeyTest, OneOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_TRUE(GuardKey::LoadOrCreate(path_).ok());
  ASSERT_EQ(::chown(path_.c_str(), 12345, static_cast<gid_t>(-1)), 0);
  EXPECT_THAT(Complaint(), HasSubstr("belongs to user 12345"));
}

TEST_F(GuardKeyTest, WhatIsNoKeyIsRefusedAndKept) {
  const std::string good = "lucid-guard-key-1\n" + std::string(64, '7') + "\n";
  PutKey(good);
  ASSERT_EQ(Complaint(), "accepted");
  std::vector<std::string> wrong = {"", "\n", good + "\n", good.substr(0, 82),
                                    std::string(83, '7')};
  for (const char bad : {'g', 'A', ' ', '\0'}) {
    wrong.push_back(good);
    wrong.back()[40] = bad;
  }
  wrong.push_back("lucid-guard-key-2\n" + std::string(64, '7') + "\n");
  wrong.push_back(std::string(1 << 20, '7'));
  for (const std::string& content : wrong) {
    PutKey(content);
    EXPECT_THAT(Complaint(), HasSubstr("is not a guard key")) << content.substr(0, 90);
    EXPECT_EQ(ReadBytes(path_), content);
  }
}

TEST_F(GuardKeyTest, WhatIsNoFileIsRefused) {
  fs::create_directory(path_);
  EXPECT_THAT(Complaint(), HasSubstr("not a regular file"));
  fs::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(Complaint(), HasSubstr("not a regular file"));
  fs::remove(path_);
  path_ = folder_ / "no folder/guard.key";
  EXPECT_THAT(Complaint(), HasSubstr("No such file or directory"));
}

TEST_F(GuardKeyTest, AllWhoRaceToCreateItGetTheSame) {
  for (int round = 0; round < 30; ++round) {
    const std::string path = folder_ / ("race" + std::to_string(round));
    std::vector<std::vector<std::uint8_t>> keys(4);
    {
      std::vector<std::jthread> threads;
      threads.reserve(keys.size());
      for (auto& key : keys) {
        threads.emplace_back([&] { key = BytesOf(GuardKey::LoadOrCreate(path).value()); });
      }
    }
    EXPECT_EQ(std::ranges::count(keys, keys[0]), 4);
  }
}

TEST_F(GuardKeyTest, ProcessesThatRaceGetTheSame) {
  for (int round = 0; round < 10; ++round) {
    const std::string path = folder_ / ("race" + std::to_string(round));
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        const auto key = GuardKey::LoadOrCreate(path);
        const bool ok = key.ok() && [&] {  // what this process would answer with
          std::ofstream out(path + "." + std::to_string(i), std::ios::binary);
          out.write(reinterpret_cast<const char*>(key->bytes().data()), 32);
          return out.good();
        }();
        ::_exit(ok ? 0 : 1);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = -1;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    const std::string first = ReadBytes(path + ".0");
    EXPECT_EQ(first.size(), 32);
    for (int i = 1; i < 4; ++i) EXPECT_EQ(ReadBytes(path + "." + std::to_string(i)), first);
  }
}

}  // namespace
}  // namespace lucid
