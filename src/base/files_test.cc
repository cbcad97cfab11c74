#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "support/scratch_folder.h"

namespace lucid {
namespace {

using testing::HasSubstr;

TEST(Files, AtomicWriteReplacesTheWholeContentAndLeavesNoTemporary) {
  const std::string folder = ScratchFolder(), path = folder + "/f";
  ASSERT_TRUE(WriteFileAtomically(path, "a long first version").ok());
  ASSERT_TRUE(WriteFileAtomically(path, "second").ok());
  EXPECT_EQ(ReadTextFile(path).value(), "second");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(Files, FailedAtomicWriteKeepsTheOldContent) {
  const std::string folder = ScratchFolder(), path = folder + "/f";
  ASSERT_TRUE(WriteFileAtomically(path, "old").ok());
  // A file size limit stands in for a full disk: the write fails half way.
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 1000;
  setrlimit(RLIMIT_FSIZE, &small);
  const Status written = WriteFileAtomically(path, std::string(5000, 'n'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.error().message, HasSubstr(path));
  EXPECT_EQ(ReadTextFile(path).value(), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(Files, ErrorsNameThePath) {
  EXPECT_THAT(File::OpenToRead("/nonexistent/x").error().message, HasSubstr("/nonexistent/x"));
  EXPECT_FALSE(MappedFile::Open(ScratchFolder()).ok()) << "a folder is not a file";
}

TEST(Files, ReadPastTheEndSaysTruncated) {
  const std::string path = ScratchFolder() + "/f";
  ASSERT_TRUE(WriteFileAtomically(path, "1234").ok());
  auto file = File::OpenToRead(path);
  ASSERT_TRUE(file.ok());
  std::array<std::byte, 8> buffer;
  EXPECT_THAT(file->ReadAt(0, buffer).error().message, HasSubstr("truncated"));
}

TEST(Files, SecondLockIsRefused) {
  const std::string path = ScratchFolder() + "/f";
  auto first = File::CreateNew(path);
  ASSERT_TRUE(first.ok() && first->Lock().ok());
  auto second = File::OpenToUpdate(path);
  ASSERT_TRUE(second.ok());
  EXPECT_THAT(second->Lock().error().message, HasSubstr("another process"));
}

TEST(Files, TextLimitIsEnforced) {
  const std::string path = ScratchFolder() + "/f";
  ASSERT_TRUE(WriteFileAtomically(path, "12345").ok());
  EXPECT_FALSE(ReadTextFile(path, 4).ok());
  EXPECT_TRUE(ReadTextFile(path, 5).ok());
}

}  // namespace
}  // namespace lucid
