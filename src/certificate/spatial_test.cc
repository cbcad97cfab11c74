#include "lucid/certificate/spatial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/files.h"
#include "certificate/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;
using Tree = SpatialBounds::Tree;

// x0 <= 0.5: 3; else x1 <= 0.25: 1, else 2.
Tree TwoCuts() { return {{0, 2, 0.5}, {-1, 0, 3}, {1, 4, 0.25}, {-1, 0, 1}, {-1, 0, 2}}; }
Tree OneLeaf() { return {{-1, 0, std::numeric_limits<double>::infinity()}}; }

std::string Bytes() {
  const std::vector<Tree> trees{TwoCuts(), OneLeaf()};
  return SpatialBounds::Encode(2, trees);
}

TEST(SpatialBounds, LookUpFindsTheBoxOfEveryInput) {
  const auto bounds = SpatialBounds::Parse(Bytes(), "s");
  ASSERT_TRUE(bounds.ok()) << bounds.error().message;
  const auto at = [&](float a, float b) { return bounds->Bound(0, std::vector<float>{a, b}); };
  EXPECT_EQ(at(0, 1), 3);
  EXPECT_EQ(at(0.5F, 1), 3);  // both boxes are closed; the first one's bound holds, too
  EXPECT_EQ(at(0.6F, 0.25F), 1);
  EXPECT_EQ(at(0.6F, 0.3F), 2);
  EXPECT_EQ(bounds->Bound(1, std::vector<float>{0, 0}), std::numeric_limits<double>::infinity());
  EXPECT_EQ(bounds->leaves(0), 3);
  EXPECT_EQ(bounds->leaves(1), 1);
  EXPECT_EQ(bounds->features(), 2);
  EXPECT_EQ(bounds->classes(), 2);
  EXPECT_EQ(bounds->tree(0), TwoCuts());
}

TEST(SpatialBounds, AFileComesBackWithItsDigest) {
  const TemporaryFolder folder;
  const std::string path = folder / "spatial.lucid";
  ASSERT_TRUE(WriteFileAtomically(path, Bytes()).ok());
  const auto bounds = SpatialBounds::Load(path);
  ASSERT_TRUE(bounds.ok()) << bounds.error().message;
  EXPECT_EQ(bounds->digest(), Sha256Of(Bytes()));
  EXPECT_EQ(bounds->digest(), *Sha256OfFile(path));
}

TEST(SpatialBounds, EveryChangedOrMissingByteIsRefused) {
  const std::string good = Bytes();
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int change : {1, 0x80}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ change);
      ASSERT_FALSE(SpatialBounds::Parse(bad, "s").ok()) << "byte " << i;
    }
    ASSERT_FALSE(SpatialBounds::Parse(good.substr(0, i), "s").ok()) << "cut at " << i;
  }
  EXPECT_FALSE(SpatialBounds::Parse(good + '\0', "s").ok());
}

// Sealed by whoever wrote them, and still no partition.
TEST(SpatialBounds, TreesThatAreNoneAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Tree> wrong = {
      {},
      {{0, 2, 0.5}, {-1, 0, 3}},                          // the second child is missing
      {{0, 1, 0.5}, {-1, 0, 3}, {-1, 0, 3}},              // the children are the same
      {{0, 0, 0.5}, {-1, 0, 3}, {-1, 0, 3}},              // a circle
      {{-1, 0, 3}, {-1, 0, 3}},                           // two roots
      {{0, 2, 0.5}, {-1, 0, 3}, {-1, 0, 3}, {-1, 0, 3}},  // one too many
      {{0, 3, 0.5}, {1, 3, 0.5}, {-1, 0, 1}, {-1, 0, 1}, {-1, 0, 1}},  // a shared child
      {{2, 2, 0.5}, {-1, 0, 3}, {-1, 0, 3}},                           // no such feature
      {{0, 2, 1.5}, {-1, 0, 3}, {-1, 0, 3}},  // a cut outside of the domain
      {{0, 2, nan}, {-1, 0, 3}, {-1, 0, 3}},
      {{-1, 0, -1}},  // a bound below 0
      {{-1, 0, nan}},
      {{-2, 0, 1}},
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    const std::vector<Tree> trees{OneLeaf(), wrong[i]};
    const auto bounds = SpatialBounds::Parse(SpatialBounds::Encode(2, trees), "s");
    ASSERT_FALSE(bounds.ok()) << i;
    EXPECT_THAT(bounds.error().message, HasSubstr("s: class 1: its boxes are no partition")) << i;
  }
}

}  // namespace
}  // namespace lucid
