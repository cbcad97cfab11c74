#include "guard/answer_memo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <set>
#include <thread>

#include "certificate/test_support.h"

namespace lucid {
namespace {

using testing::HasSubstr;

AnswerMemo::Fingerprint Input(std::uint64_t number) {
  AnswerMemo::Fingerprint input{};
  std::memcpy(input.data(), &number, sizeof number);
  return input;
}

class AnswerMemoTest : public testing::Test {
 protected:
  AnswerMemo Open(std::int64_t limit) const {
    auto memo = AnswerMemo::Open({.path = folder_ / "memo.db", .limit = limit});
    EXPECT_TRUE(memo.ok()) << memo.error().message;
    return std::move(memo).value();
  }
  static MemoEntry Recall(AnswerMemo& memo, std::uint64_t number) {
    auto entries = memo.Recall({Input(number)});
    EXPECT_TRUE(entries.ok()) << entries.error().message;
    return entries->front();
  }
  static bool Same(const MemoEntry& a, const MemoEntry& b) {
    const auto same = [](const Draw& x, const Draw& y) {
      return x.lie == y.lie && x.pick_high == y.pick_high && x.pick_low == y.pick_low;
    };
    return a.ticket == b.ticket && same(a.left, b.left) && same(a.spent, b.spent);
  }

  const TemporaryFolder folder_;
};

TEST_F(AnswerMemoTest, TheSameInputGetsTheSameDrawAlsoAfterARestart) {
  std::vector<MemoEntry> first;
  {
    AnswerMemo memo = Open(100);
    for (std::uint64_t i = 0; i < 20; ++i) first.push_back(Recall(memo, i));
    for (std::uint64_t i = 20; i-- > 0;) EXPECT_TRUE(Same(Recall(memo, i), first[i]));
    EXPECT_EQ(memo.size(), 20);
  }
  AnswerMemo memo = Open(100);
  EXPECT_EQ(memo.size(), 20);
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_TRUE(Same(Recall(memo, i), first[i]));
}

TEST_F(AnswerMemoTest, BatchesAgreeWithSingleRecallsAndWithThemselves) {
  AnswerMemo memo = Open(100);
  const MemoEntry second = Recall(memo, 2);
  const auto entries = memo.Recall({Input(1), Input(2), Input(1)});
  ASSERT_TRUE(entries.ok());
  EXPECT_TRUE(Same((*entries)[0], (*entries)[2]));
  EXPECT_TRUE(Same((*entries)[1], second));
  EXPECT_TRUE(Same(Recall(memo, 1), (*entries)[0]));
}

TEST_F(AnswerMemoTest, AtTheLimitTheOldestIsForgotten) {
  AnswerMemo memo = Open(3);
  std::vector<MemoEntry> first;
  for (std::uint64_t i = 0; i < 3; ++i) first.push_back(Recall(memo, i));
  EXPECT_TRUE(Same(Recall(memo, 0), first[0])) << "being asked for makes it no younger";
  Recall(memo, 3);
  EXPECT_EQ(memo.size(), 3);
  EXPECT_TRUE(Same(Recall(memo, 1), first[1]));
  EXPECT_TRUE(Same(Recall(memo, 2), first[2]));
  const MemoEntry again = Recall(memo, 0);
  EXPECT_FALSE(Same(again, first[0]));
  EXPECT_NE(again.ticket, first[0].ticket) << "a ledger must charge it again";
}

TEST_F(AnswerMemoTest, ASmallerLimitForgetsTheOldestAtOnce) {
  std::vector<MemoEntry> first;
  {
    AnswerMemo memo = Open(10);
    for (std::uint64_t i = 0; i < 10; ++i) first.push_back(Recall(memo, i));
  }
  AnswerMemo memo = Open(4);
  EXPECT_EQ(memo.size(), 4);
  for (std::uint64_t i = 6; i < 10; ++i) EXPECT_TRUE(Same(Recall(memo, i), first[i]));
}

TEST_F(AnswerMemoTest, AnotherFileGivesOtherDraws) {
  AnswerMemo memo = Open(10);
  auto other = AnswerMemo::Open({.path = folder_ / "other.db", .limit = 10});
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(Same(Recall(memo, 1), Recall(*other, 1)));
}

// Every bit is 0 or 1 with probability 1/2: over 4,000 entries its count leaves 2000 +- 230 (7.27
// sigma) with probability below 4e-13; for 384 bits below 2e-10. No word repeats (64 bits: below
// 1e-11).
TEST_F(AnswerMemoTest, DrawsAreUniformAndIndependent) {
  constexpr int kEntries = 4000;
  AnswerMemo memo = Open(kEntries);
  std::vector<AnswerMemo::Fingerprint> inputs;
  for (std::uint64_t i = 0; i < kEntries; ++i) inputs.push_back(Input(i));
  const auto entries = memo.Recall(inputs);
  ASSERT_TRUE(entries.ok());
  std::array<int, 384> ones{};
  std::set<std::uint64_t> words;
  for (const MemoEntry& entry : *entries) {
    std::size_t at = 0;
    for (const Draw* draw : {&entry.left, &entry.spent}) {
      for (const std::uint64_t word : {draw->lie, draw->pick_high, draw->pick_low}) {
        words.insert(word);
        for (int bit = 0; bit < 64; ++bit) ones[at++] += static_cast<int>(word >> bit & 1);
      }
    }
  }
  EXPECT_EQ(words.size(), std::size_t{6} * kEntries);
  for (const int count : ones) EXPECT_NEAR(count, kEntries / 2, 230);
}

TEST_F(AnswerMemoTest, ThreadsAgree) {
  AnswerMemo memo = Open(1000);
  constexpr std::uint64_t kInputs = 100;
  std::array<std::vector<MemoEntry>, 4> seen;
  {
    std::vector<std::jthread> threads;
    for (auto& of_thread : seen) {
      threads.emplace_back([&memo, &of_thread] {
        for (std::uint64_t i = 0; i < kInputs; ++i) of_thread.push_back(Recall(memo, i));
      });
    }
  }
  for (const auto& of_thread : seen) {
    for (std::uint64_t i = 0; i < kInputs; ++i) EXPECT_TRUE(Same(of_thread[i], seen[0][i]));
  }
  EXPECT_EQ(memo.size(), kInputs);
}

TEST_F(AnswerMemoTest, LimitsAreChecked) {
  for (const std::int64_t limit :
       {std::int64_t{0}, std::int64_t{-1}, (std::int64_t{1} << 32) + 1}) {
    const auto memo = AnswerMemo::Open({.path = folder_ / "memo.db", .limit = limit});
    ASSERT_FALSE(memo.ok()) << limit;
    EXPECT_THAT(memo.error().message, HasSubstr("limit"));
  }
  AnswerMemo memo = Open(2);
  EXPECT_FALSE(memo.Recall({Input(1), Input(2), Input(3)}).ok());
  EXPECT_TRUE(memo.Recall({}).ok());
}

}  // namespace
}  // namespace lucid
