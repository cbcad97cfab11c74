#include "native/native_journal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>

#include "base/hasher.h"
#include "certificate/test_support.h"
#include "support/files.h"

namespace lucid {
namespace {

// Every place of the first line and of the seal, and every seventh between: files take their time.
std::vector<std::size_t> Places(std::size_t size) {
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < size; at += at < 100 || at + 70 > size ? 1 : 7) {
    places.push_back(at);
  }
  return places;
}

class NativeJournalTest : public testing::Test {
 protected:
  NativeJournalTest() {
    journal_.certificate = CertificateFor(RandomNetwork("3 > dense 2 > 2", 1));
    journal_.certificate.engine = Engine::kNative;
    // Every byte there is, line ends among them.
    std::string bytes;
    for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
    journal_.regions = {"of class 0", bytes};
    journal_.proof_parts = {Sha256Of("part 0"), Sha256Of("part 1")};
  }
  void ExpectRefused(const std::string& why) const {
    const auto found = NativeJournal::Load(path_, key_);
    EXPECT_FALSE(found.ok()) << why;
    if (found.ok()) return;
    EXPECT_EQ(found.error().message.find('\n'), std::string::npos) << "one line";
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "native.journal";
  const Digest key_ = Sha256Of("this search");
  NativeJournal journal_;
};

TEST_F(NativeJournalTest, WhatIsWrittenIsRead) {
  for (const bool begun : {true, false}) {
    if (!begun) {
      journal_.regions = {"", ""};
      journal_.proof_parts.clear();
    }
    ASSERT_TRUE(journal_.Save(path_, key_).ok());
    const auto found = NativeJournal::Load(path_, key_);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(found->regions, journal_.regions);
    EXPECT_EQ(found->proof_parts, journal_.proof_parts);
    EXPECT_EQ(EncodeCertificate(found->certificate), EncodeCertificate(journal_.certificate));
  }
}

TEST_F(NativeJournalTest, ASecondOneReplacesTheFirst) {
  ASSERT_TRUE(journal_.Save(path_, key_).ok());
  journal_.regions = {"short", ""};
  ASSERT_TRUE(journal_.Save(path_, key_).ok());
  const auto found = NativeJournal::Load(path_, key_);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->regions, (std::vector<std::string>{"short", ""}));
}

TEST_F(NativeJournalTest, OfAnotherSearchIsRefused) {
  ASSERT_TRUE(journal_.Save(path_, key_).ok());
  const auto found = NativeJournal::Load(path_, Sha256Of("another search"));
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().kind, ErrorKind::kMismatch);
}

TEST_F(NativeJournalTest, AFlippedByteAnywhereIsRefused) {
  ASSERT_TRUE(journal_.Save(path_, key_).ok());
  const std::string whole = ReadBytes(path_);
  for (const std::size_t at : Places(whole.size())) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    WriteBytes(path_, damaged);
    ExpectRefused("byte " + std::to_string(at));
  }
}

TEST_F(NativeJournalTest, ATruncationAnywhereAndAnyMoreIsRefused) {
  ASSERT_TRUE(journal_.Save(path_, key_).ok());
  const std::string whole = ReadBytes(path_);
  for (const std::size_t size : Places(whole.size())) {
    WriteBytes(path_, whole.substr(0, size));
    ExpectRefused(std::to_string(size) + " bytes");
  }
  WriteBytes(path_, whole + "x");
  ExpectRefused("one more");
}

TEST_F(NativeJournalTest, MoreOrFewerClassesThanTheCertificateHasAreRefused) {
  for (const std::size_t classes : {0, 1, 3}) {
    journal_.regions.assign(classes, "regions");
    ASSERT_TRUE(journal_.Save(path_, key_).ok());
    ExpectRefused(std::to_string(classes) + " classes");
  }
}

// Format 1 was written by an engine that could go on with the regions of another class.
TEST_F(NativeJournalTest, OfAnEarlierEngineIsRefusedByItsFormat) {
  std::string old = "lucid-regions-1 " + key_.Hex() + " 1 0 0\n";
  Hasher hasher;
  hasher.Bytes(std::as_bytes(std::span(old)));
  old += hasher.Finish().Hex();
  WriteBytes(path_, old);
  const auto found = NativeJournal::Load(path_, key_);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().kind, ErrorKind::kMismatch);
  EXPECT_NE(found.error().message.find("lucid-regions-1"), std::string::npos);
}

TEST_F(NativeJournalTest, NoFileIsAnError) { ExpectRefused("no file"); }

}  // namespace
}  // namespace lucid
