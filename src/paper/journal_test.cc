#include "paper/journal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "support/files.h"

#include "certificate/test_support.h"  // TemporaryFolder

namespace lucid {
namespace {

namespace fs = std::filesystem;

struct Entry {
  Digest subset;
  SubsetBound bound;
  double limit;
};

// Bounds whose bits would not survive a decimal of six digits.
const std::vector<Entry>& Entries() {
  static const auto& entries = *new std::vector<Entry>{
      {SubsetDigest(0, {0, 1, 2}), {0.1 + 0.2, true, false, 12, 0}, 2400},
      {SubsetDigest(1, {0, 1, 2}), {0x1.fffffffffffffp-3, true, false, 1, 2}, 0.1},
      {SubsetDigest(0, {0}), {0, true, true, 1'000'000'000'000, 0}, 2400},
      {SubsetDigest(0, {1, 2}), {0x1p-1070, true, false, 0, 0}, 1e300},
      {SubsetDigest(2, {7}), {1e300, true, true, 3, 1}, std::numeric_limits<double>::infinity()},
  };
  return entries;
}

void ExpectHas(const SubsetJournal& journal, const Entry& entry) {
  const auto found = journal.Find(entry.subset, entry.limit);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->bound, entry.bound.bound);
  EXPECT_TRUE(found->complete);
  EXPECT_EQ(found->timed_out, entry.bound.timed_out);
  EXPECT_EQ(found->nodes, entry.bound.nodes);
  EXPECT_EQ(found->unproved, entry.bound.unproved);
}

class JournalTest : public testing::Test {
 protected:
  // The file with all entries, as a killed process leaves it.
  std::string Written() const {
    auto journal = SubsetJournal::Open(path_, key_, false);
    EXPECT_TRUE(journal.ok());
    for (const Entry& entry : Entries()) {
      EXPECT_TRUE(journal->Append(entry.subset, entry.bound, entry.limit).ok());
    }
    return ReadBytes(path_);
  }

  // Exactly the first `count` entries are known.
  void ExpectPrefix(const SubsetJournal& journal, std::int64_t count) const {
    EXPECT_EQ(journal.known(), count);
    for (std::int64_t i = 0; i < count; ++i) ExpectHas(journal, Entries()[i]);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "bound.journal";
  const Digest key_ = Sha256Of("a search");
};

TEST_F(JournalTest, ResumesWhatWasWrittenBitForBit) {
  Written();
  const auto journal = SubsetJournal::Open(path_, key_, true);
  ASSERT_TRUE(journal.ok()) << journal.error().message;
  ExpectPrefix(*journal, std::ssize(Entries()));
  EXPECT_FALSE(journal->Find(SubsetDigest(0, {0, 1}), 1).has_value());
  EXPECT_FALSE(journal->Find(SubsetDigest(3, {0, 1, 2}), 1).has_value()) << "another class";
}

TEST_F(JournalTest, CutAtAnyByteItKeepsTheWholeLinesBefore) {
  const std::string whole = Written();
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    SCOPED_TRACE(testing::Message() << "length " << length);
    WriteBytes(path_, whole.substr(0, length));
    const auto lines = std::ranges::count(whole.substr(0, length), '\n');
    const std::int64_t complete = std::max<std::int64_t>(0, lines - 1);
    {
      auto journal = SubsetJournal::Open(path_, key_, true);
      ASSERT_TRUE(journal.ok()) << journal.error().message;
      ExpectPrefix(*journal, complete);
      if (length % 16 != 0) continue;
      // What comes next goes to the right place.
      for (std::int64_t i = complete; i < std::ssize(Entries()); ++i) {
        const Entry& entry = Entries()[i];
        ASSERT_TRUE(journal->Append(entry.subset, entry.bound, entry.limit).ok());
      }
    }
    EXPECT_EQ(ReadBytes(path_), whole);
  }
}

TEST_F(JournalTest, FromAChangedByteOnEverythingIsDropped) {
  const std::string whole = Written();
  const std::size_t header = whole.find('\n') + 1;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char bit : {'\x01', '\x20'}) {
      SCOPED_TRACE(testing::Message() << "byte " << at);
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ bit);
      WriteBytes(path_, changed);
      const auto journal = SubsetJournal::Open(path_, key_, true);
      if (at < header) {
        ASSERT_FALSE(journal.ok());
        EXPECT_EQ(journal.error().kind, ErrorKind::kMismatch);
        EXPECT_EQ(ReadBytes(path_), changed) << "a refused file is left alone";
        continue;
      }
      ASSERT_TRUE(journal.ok()) << journal.error().message;
      ExpectPrefix(*journal, std::ranges::count(whole.substr(0, at), '\n') - 1);
    }
  }
}

TEST_F(JournalTest, RefusesAnotherKey) {
  const std::string whole = Written();
  const auto journal = SubsetJournal::Open(path_, Sha256Of("another search"), true);
  ASSERT_FALSE(journal.ok());
  EXPECT_EQ(journal.error().kind, ErrorKind::kMismatch);
  EXPECT_EQ(ReadBytes(path_), whole);
}

TEST_F(JournalTest, StartingAnewKeepsTheOldFile) {
  const std::string whole = Written();
  {
    const auto journal = SubsetJournal::Open(path_, Sha256Of("another search"), false);
    ASSERT_TRUE(journal.ok()) << journal.error().message;
    EXPECT_EQ(journal->known(), 0);
  }
  EXPECT_EQ(ReadBytes(path_ + ".old"), whole);
  EXPECT_EQ(std::ranges::count(ReadBytes(path_), '\n'), 1);
}

TEST_F(JournalTest, ResumingNothingStartsAFile) {
  const auto journal = SubsetJournal::Open(path_, key_, true);
  ASSERT_TRUE(journal.ok()) << journal.error().message;
  EXPECT_EQ(journal->known(), 0);
  EXPECT_TRUE(fs::exists(path_));
}

// Whether another process can open the journal.
bool OpensElsewhere(const std::string& path, const Digest& key, bool resume) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(SubsetJournal::Open(path, key, resume).ok() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(JournalTest, LocksOutASecondProcess) {
  for (const bool resume : {true, false}) {
    SCOPED_TRACE(resume ? "resume" : "anew");
    Written();
    {
      auto journal = SubsetJournal::Open(path_, key_, true);
      ASSERT_TRUE(journal.ok());
      const std::string before = ReadBytes(path_);
      EXPECT_FALSE(OpensElsewhere(path_, key_, resume));
      EXPECT_EQ(ReadBytes(path_), before) << "a refused process leaves the file where it is";
      ASSERT_TRUE(journal->Append(SubsetDigest(0, {9}), {1}, 1).ok());
    }
    EXPECT_TRUE(OpensElsewhere(path_, key_, true)) << "the lock goes with its owner";
    const auto journal = SubsetJournal::Open(path_, key_, true);
    ASSERT_TRUE(journal.ok());
    EXPECT_TRUE(journal->Find(SubsetDigest(0, {9}), 1).has_value());
  }
}

TEST_F(JournalTest, WhatTimedOutIsTriedAgainWithALargerLimitOnly) {
  const Digest subset = SubsetDigest(0, {1, 2, 3});
  const SubsetBound given_up{0.5, true, true, 7, 0}, solved{0.25, true, false, 9, 0};
  {
    auto journal = SubsetJournal::Open(path_, key_, false);
    ASSERT_TRUE(journal.ok());
    ASSERT_TRUE(journal->Append(subset, given_up, 10).ok());
  }
  {
    auto journal = SubsetJournal::Open(path_, key_, true);
    ASSERT_TRUE(journal.ok());
    EXPECT_TRUE(journal->Find(subset, 5).has_value());
    EXPECT_TRUE(journal->Find(subset, 10).has_value());
    EXPECT_FALSE(journal->Find(subset, 10.5).has_value());
    ASSERT_TRUE(journal->Append(subset, solved, 20).ok());
  }
  const auto journal = SubsetJournal::Open(path_, key_, true);
  ASSERT_TRUE(journal.ok());
  EXPECT_EQ(journal->known(), 1);
  ASSERT_TRUE(journal->Find(subset, 1e9).has_value());  // solved: no limit matters any more
  EXPECT_EQ(journal->Find(subset, 1e9)->bound, 0.25);
}

TEST_F(JournalTest, RemoveLeavesNothing) {
  auto journal = SubsetJournal::Open(path_, key_, false);
  ASSERT_TRUE(journal.ok());
  EXPECT_TRUE(journal->Remove().ok());
  EXPECT_FALSE(fs::exists(path_));
}

TEST(SubsetDigest, TellsClassesAndSubsetsApart) {
  std::vector<Digest> digests;
  for (const std::int32_t label : {0, 1, 2}) {
    for (const Subset& subset : std::vector<Subset>{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}}) {
      digests.push_back(SubsetDigest(label, subset));
    }
  }
  std::ranges::sort(digests);
  EXPECT_TRUE(std::ranges::adjacent_find(digests) == digests.end());
}

}  // namespace
}  // namespace lucid
