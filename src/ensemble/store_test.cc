#include "ensemble/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "random/stream.h"
#include "support/scratch_folder.h"

namespace lucid {
namespace {

using testing::HasSubstr;

class StoreTest : public testing::Test {
 protected:
  StoreSpec Spec(std::int64_t members = 5) const {
    StoreSpec spec{Architecture::FromName("2x6", 4, 2).value(), Sha256Of("run"), {}};
    for (std::int64_t i = -1; i < members; ++i) spec.rows.push_back(i);
    return spec;
  }
  std::vector<float> Parameters(std::int64_t i) const {
    std::vector<float> parameters(static_cast<std::size_t>(Spec().architecture.parameters()));
    Stream stream(1, "parameters", static_cast<std::uint64_t>(i));
    for (float& v : parameters) v = static_cast<float>(stream.Normal());
    return parameters;
  }

  const std::string folder_ = ScratchFolder();
  const std::string path_ = folder_ + "/store";
};

TEST_F(StoreTest, NetworksAreThereOnceWrittenAndNotBefore) {
  auto store = Store::Create(path_, Spec());
  ASSERT_TRUE(store.ok()) << store.error().message;
  std::vector<float> out = Parameters(0);
  EXPECT_FALSE(store->Read(3, out).value());
  ASSERT_TRUE(store->Write(3, Parameters(3)).ok());
  EXPECT_TRUE(store->Read(3, out).value());
  EXPECT_EQ(out, Parameters(3));
  EXPECT_FALSE(store->Read(2, out).value());
}

TEST_F(StoreTest, TheFileDoesNotDependOnTheOrderOfWriting) {
  {
    auto store = Store::Create(path_, Spec());
    for (std::int64_t i : {0, 1, 2, 3, 4, 5}) ASSERT_TRUE(store->Write(i, Parameters(i)).ok());
  }
  {
    auto store = Store::Create(path_ + "2", Spec());
    for (std::int64_t i : {5, 2, 0, 1, 4, 3}) ASSERT_TRUE(store->Write(i, Parameters(i)).ok());
  }
  EXPECT_EQ(Sha256OfFile(path_).value(), Sha256OfFile(path_ + "2").value());
}

TEST_F(StoreTest, AnyChangedByteOfANetworkMakesItAbsent) {
  { ASSERT_TRUE(Store::Create(path_, Spec())->Write(2, Parameters(2)).ok()); }
  const std::string whole = ReadTextFile(path_).value();
  const StoreLayout layout(Spec());
  std::vector<float> out = Parameters(0);
  for (std::size_t t = 0; t < layout.parameters().size(); ++t) {
    std::string bytes = whole;
    bytes[layout.ParameterAt(t, 2) + 1] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(path_, bytes).ok());
    EXPECT_FALSE(Store::Open(path_, Spec(), false)->Read(2, out).value()) << t;
  }
  std::string bytes = whole;
  bytes[layout.DigestAt(2) + 31] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(path_, bytes).ok());
  EXPECT_FALSE(Store::Open(path_, Spec(), false)->Read(2, out).value());
}

TEST_F(StoreTest, ADigestBoundToItsRowCannotServeForAnother) {
  const std::vector<float> parameters = Parameters(1);
  EXPECT_NE(NetworkDigest(Sha256Of("run"), 1, parameters),
            NetworkDigest(Sha256Of("run"), 2, parameters));
  EXPECT_NE(NetworkDigest(Sha256Of("run"), 1, parameters),
            NetworkDigest(Sha256Of("other"), 1, parameters));
}

TEST_F(StoreTest, AnotherRunsStoreIsRefusedWithWords) {
  { ASSERT_TRUE(Store::Create(path_, Spec()).ok()); }
  StoreSpec other = Spec();
  other.run_key = Sha256Of("other run");
  EXPECT_THAT(Store::Open(path_, other, true).error().message, HasSubstr("another run"));
  EXPECT_THAT(Store::Open(path_, Spec(4), true).error().message, HasSubstr("other members"));
  EXPECT_TRUE(Store::Open(path_, Spec(), true).ok());
}

TEST_F(StoreTest, EveryTruncationAndJunkIsRefused) {
  { ASSERT_TRUE(Store::Create(path_, Spec()).ok()); }
  const std::string whole = ReadTextFile(path_).value();
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    ASSERT_TRUE(WriteFileAtomically(path_, whole.substr(0, size)).ok());
    EXPECT_FALSE(Store::Open(path_, Spec(), false).ok()) << size;
  }
  ASSERT_TRUE(WriteFileAtomically(path_, whole + "x").ok());
  EXPECT_FALSE(Store::Open(path_, Spec(), false).ok());
}

TEST_F(StoreTest, TwoProcessesCannotFillOneStore) {
  auto first = Store::Create(path_, Spec());
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(Store::Open(path_, Spec(), true).error().message, HasSubstr("another process"));
}

TEST_F(StoreTest, OfTwoProcessesThatCreateItOneIsRefused) {
  {
    const auto first = File::CreateLocked(path_ + ".new");  // as far as another process got
    ASSERT_TRUE(first.ok());
    EXPECT_THAT(Store::Create(path_, Spec()).error().message, HasSubstr("another process"));
  }
  ASSERT_TRUE(Store::Create(path_, Spec()).ok()) << "its lock went with it";
  EXPECT_THAT(Store::Create(path_, Spec()).error().message, HasSubstr("there already"));
}

TEST_F(StoreTest, WhatADeadProcessLeftBeforeItsBirthIsTakenOver) {
  { ASSERT_TRUE(Store::Create(path_, Spec()).ok()); }
  ASSERT_TRUE(WriteFileAtomically(path_ + "2.new", std::string(100'000, 'x')).ok());
  { ASSERT_TRUE(Store::Create(path_ + "2", Spec()).ok()); }
  EXPECT_EQ(Sha256OfFile(path_).value(), Sha256OfFile(path_ + "2").value());
}

TEST_F(StoreTest, NoSpaceIsKnownBeforeTheWorkStartsAndLeavesNothingBehind) {
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 512;  // stands in for a full disk
  setrlimit(RLIMIT_FSIZE, &small);
  const auto store = Store::Create(path_, Spec());
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(store.ok());
  EXPECT_THAT(store.error().message, HasSubstr("reserve"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace lucid
