#include "certificate/member_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "numeric/rounding.h"

namespace lucid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

MemberTable Small() {
  MemberTable table;
  table.architecture = "3 > dense 4 > 2";
  table.run_key = Sha256Of("key");
  table.network_digest = Sha256Of("network");
  table.ensemble_digest = Sha256Of("ensemble");
  table.classes.push_back(Rank(std::vector{0.5, kInfinity, 0.0}));
  table.classes.push_back(Rank(std::vector{-1.0, 0.25, 0.25}));
  return table;
}

std::string Message(const std::string& bytes) {
  const auto table = ParseMemberTable(bytes, "index");
  return table.ok() ? "accepted" : table.error().message;
}

// What EncodeMemberTable makes of a table that breaks a rule, with the right seal.
std::string MessageOf(const MemberTable& table) { return Message(EncodeMemberTable(table)); }

std::string Resealed(std::string bytes) {
  bytes.resize(bytes.size() - 32);
  const Digest seal = Sha256Of(bytes);
  return bytes.append(reinterpret_cast<const char*>(seal.bytes.data()), seal.bytes.size());
}

TEST(MemberTableTest, RankSortsAndRoundsUp) {
  const RankedMembers ranked =
      Rank(std::vector{0.1, 1e-60, 0.5, kInfinity, -kInfinity, 0.5, 1e300});
  EXPECT_THAT(ranked.order, ElementsAre(3, 6, 2, 5, 0, 1, 4));
  EXPECT_EQ(ranked.upper[0], kInfinity);
  EXPECT_EQ(ranked.upper[1], kInfinity);
  EXPECT_EQ(ranked.upper[2], 0.5F);
  EXPECT_GE(static_cast<double>(ranked.upper[4]), 0.1);
  EXPECT_LE(static_cast<double>(ranked.upper[4]), 0.1 + 1e-8);
  EXPECT_GT(ranked.upper[5], 0);
  EXPECT_EQ(ranked.upper[6], 0);
}

TEST(MemberTableTest, ReadsBackWhatItWrote) {
  const auto again = ParseMemberTable(EncodeMemberTable(Small()), "index");
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, Small());
}

TEST(MemberTableTest, RefusesEveryChangedBit) {
  const std::string bytes = EncodeMemberTable(Small());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      ASSERT_NE(Message(changed), "accepted") << "byte " << i << ", bit " << bit;
    }
  }
}

TEST(MemberTableTest, RefusesEveryTruncationAndTrailingBytes) {
  const std::string bytes = EncodeMemberTable(Small());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_NE(Message(bytes.substr(0, size)), "accepted") << size;
  }
  EXPECT_NE(Message(bytes + '\0'), "accepted");
  EXPECT_THAT(Message(Resealed(bytes + std::string(64, '\0'))), HasSubstr("truncated or damaged"));
}

TEST(MemberTableTest, RefusesOrdersThatAreNoPermutationOrNotSorted) {
  MemberTable table = Small();
  table.classes[1].order[2] = table.classes[1].order[0];
  EXPECT_THAT(MessageOf(table), HasSubstr("class 1, place 2: member 1 is there twice"));
  table = Small();
  table.classes[1].order[2] = 3;
  EXPECT_THAT(MessageOf(table), HasSubstr("class 1: member 3 is not one of 3"));
  table = Small();
  table.classes[1].order[2] = -1;
  EXPECT_THAT(MessageOf(table), HasSubstr("member -1 is not one of 3"));
  table = Small();
  table.classes[0].upper[2] = 0.75F;
  EXPECT_THAT(MessageOf(table), HasSubstr("class 0, place 2: not in descending order"));
  table = Small();
  std::swap(table.classes[1].order[0], table.classes[1].order[1]);
  EXPECT_THAT(MessageOf(table), HasSubstr("class 1, place 1: not in descending order"));
}

TEST(MemberTableTest, RefusesBoundsThatAreNone) {
  for (const float bad : {-0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    MemberTable table = Small();
    table.classes[0].upper[2] = bad;
    EXPECT_THAT(MessageOf(table), HasSubstr("must be a number >= 0")) << bad;
  }
}

TEST(MemberTableTest, RefusesWhatItDoesNotKnow) {
  MemberTable one_class = Small();
  one_class.classes.pop_back();
  EXPECT_THAT(MessageOf(one_class), HasSubstr("at least two classes"));
  std::string format = EncodeMemberTable(Small());
  format.replace(format.find("lucid-index-1"), 13, "lucid-index-9");
  EXPECT_THAT(Message(Resealed(format)), HasSubstr("this version reads lucid-index-1"));
  std::string key = EncodeMemberTable(Small());
  key.replace(key.find(Sha256Of("key").Hex()), 2, "zz");
  EXPECT_THAT(Message(Resealed(key)), HasSubstr("'run_key' must be a SHA-256 digest"));
  std::string upper_case = EncodeMemberTable(Small());
  const std::size_t blank = upper_case.find("} ");  // padding of the header
  ASSERT_NE(blank, std::string::npos);
  upper_case[blank + 1] = '\n';
  EXPECT_THAT(Message(Resealed(upper_case)), HasSubstr("says more than an index does"));
}

}  // namespace
}  // namespace lucid
