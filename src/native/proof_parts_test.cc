#include "native/proof_parts.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "certificate/proof_reader.h"
#include "certificate/test_support.h"

namespace lucid {
namespace {

namespace fs = std::filesystem;

class ProofPartsTest : public testing::Test {
 protected:
  // Seals a part for each of these nodes. Returns the seals.
  std::vector<Digest> SealSplits(const std::string& path, std::vector<std::uint64_t> nodes) const {
    ProofParts parts = ProofParts::Open(path, header_, {}).value();
    for (const std::uint64_t node : nodes) {
      ProofSplit split;
      split.node = node;
      split.at = 0.5;
      split.first_child = 2 * node + 1;
      EXPECT_TRUE(parts.writer().Add(0, split).ok());
      EXPECT_TRUE(parts.Seal().ok());
    }
    return parts.seals();
  }
  std::string PartOf(int part) const { return path_ + ".part" + std::to_string(part); }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "proof";
  const ProofHeader header_{Sha256Of("network"), Sha256Of("ensemble"), 0.25, 2};
};

TEST_F(ProofPartsTest, AnotherProcessGoesOnAndThePartsBecomeOneFile) {
  const std::vector<Digest> seals = SealSplits(path_, {0, 1});
  ProofParts parts = ProofParts::Open(path_, header_, seals).value();
  ProofSplit split;
  split.node = 2;
  split.first_child = 5;
  ASSERT_TRUE(parts.writer().Add(1, split).ok());
  const auto note = parts.Finish(false);
  ASSERT_TRUE(note.ok()) << note.error().message;
  EXPECT_EQ(ProofFile::Open(path_).value().splits(), 3);
  EXPECT_EQ(Sha256OfFile(path_).value(), note->digest);
  for (int part = 0; part < 4; ++part) EXPECT_FALSE(fs::exists(PartOf(part)));
}

// A folder may still hold the parts of an older search of the same networks.
TEST_F(ProofPartsTest, APartThatIsMissingDamagedOrOfAnotherSearchIsRefused) {
  const std::vector<Digest> seals = SealSplits(path_, {0, 1});
  SealSplits(folder_ / "older", {0, 3});
  const auto refused = [&](const char* why) {
    const auto opened = ProofParts::Open(path_, header_, seals);
    EXPECT_FALSE(opened.ok()) << why;
  };
  fs::rename(PartOf(1), folder_ / "kept");
  refused("missing");
  fs::copy_file(folder_ / "older.part1", PartOf(1));
  refused("of an older search");
  fs::remove(PartOf(1));
  fs::copy_file(folder_ / "kept", PartOf(1));
  fs::resize_file(PartOf(1), fs::file_size(PartOf(1)) - 1);
  refused("damaged");
  fs::remove(PartOf(1));
  fs::copy_file(folder_ / "kept", PartOf(1));
  EXPECT_TRUE(ProofParts::Open(path_, header_, seals).ok());
}

}  // namespace
}  // namespace lucid
