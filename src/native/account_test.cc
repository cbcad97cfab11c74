#include "native/account.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "numeric/rounding.h"
#include "random/stream.h"

namespace lucid {
namespace {

constexpr std::int32_t kLabel = 1;
constexpr std::int64_t kMembers = 7, kClasses = 3;

// A search on paper: regions are cut at random, and pairs are closed in some of them.
struct Paper {
  explicit Paper(std::uint64_t seed) : stream(seed, "account"), waiting(account.OpenAll(10)) {}

  RegionPair Take() {
    std::swap(waiting[stream.Below(waiting.size())], waiting.back());
    const RegionPair pair = waiting.back();
    waiting.pop_back();
    return pair;
  }
  void Step() {
    RegionPair pair = Take();
    if (stream.Below(3) == 0) {
      account.Close(pair, stream.Uniform(), Account::Reason::kBound);
      return;
    }
    const auto [first, second] = Account::Cut(pair.share);
    for (const std::uint64_t share : {first, second}) {
      pair.share = share;
      pair.bound *= stream.Uniform();
      waiting.push_back(pair);
    }
  }

  Stream stream;
  Account account{kLabel, kMembers, kClasses};
  std::vector<RegionPair> waiting;
};

TEST(Account, BalancesAfterEveryStepOfASearch) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Paper paper(seed);
    for (int step = 0; step < 300 && !paper.waiting.empty(); ++step) {
      paper.Step();
      ASSERT_TRUE(paper.account.Check(paper.waiting).ok()) << "seed " << seed << ", step " << step;
    }
  }
}

// What a search could do wrong. Each mutation is caught wherever it happens.
TEST(Account, NoticesEveryWayToLoseOrMixUpAPair) {
  struct Mutation {
    const char* name;
    std::function<void(Paper&)> apply;
  };
  const auto close = [](Paper& paper, const RegionPair& pair) {
    paper.account.Close(pair, 0, Account::Reason::kBound);
  };
  const Mutation mutations[] = {
      {"forget a region", [](Paper& paper) { paper.Take(); }},
      {"close a pair twice",
       [&](Paper& paper) {
         const RegionPair pair = paper.Take();
         close(paper, pair);
         close(paper, pair);
       }},
      {"close a pair and leave it waiting",
       [&](Paper& paper) { close(paper, paper.waiting.front()); }},
      {"close another member",
       [&](Paper& paper) {
         RegionPair pair = paper.Take();
         pair.member = (pair.member + 1) % static_cast<std::int32_t>(kMembers);
         close(paper, pair);
       }},
      {"close another class",
       [&](Paper& paper) {
         RegionPair pair = paper.Take();
         pair.other = pair.other == 0 ? 2 : 0;
         close(paper, pair);
       }},
      {"close the class itself",
       [&](Paper& paper) {
         RegionPair pair = paper.Take();
         pair.other = kLabel;
         close(paper, pair);
       }},
      {"look at one half only",
       [](Paper& paper) {
         RegionPair pair = paper.Take();
         pair.share = Account::Cut(pair.share).first;
         paper.waiting.push_back(pair);
       }},
      {"look at one half twice",
       [](Paper& paper) {
         RegionPair pair = paper.Take();
         pair.share = Account::Cut(pair.share).second;
         paper.waiting.insert(paper.waiting.end(), 2, pair);
       }},
      {"give both halves the whole region",
       [](Paper& paper) { paper.waiting.push_back(paper.waiting.front()); }},
      {"take the regions of another class",
       [](Paper& paper) { paper.waiting = Account(0, kMembers, kClasses).OpenAll(1); }},
      {"take the regions of fewer members",
       [](Paper& paper) { paper.waiting = Account(kLabel, kMembers - 1, kClasses).OpenAll(1); }},
      {"take no regions at all", [](Paper& paper) { paper.waiting.clear(); }},
      {"a bound that is no number",
       [](Paper& paper) { paper.waiting.front().bound = std::nan(""); }},
  };
  for (const Mutation& mutation : mutations) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      Paper paper(seed);
      for (std::uint64_t step = seed % 40; step > 0; --step) paper.Step();
      ASSERT_FALSE(paper.waiting.empty());
      mutation.apply(paper);
      const Status status = paper.account.Check(paper.waiting);
      ASSERT_FALSE(status.ok()) << mutation.name << ", seed " << seed;
      EXPECT_EQ(status.error().kind, ErrorKind::kInternal);
      EXPECT_FALSE(paper.account.Settle(paper.waiting, 1).ok());
    }
  }
}

TEST(Account, SaysFinishedOnlyIfEverythingIsAtOrBelowTheTarget) {
  Account account(kLabel, 1, 2);
  EXPECT_EQ(Verdict().upper(), kInfinity);
  EXPECT_FALSE(Verdict().finished());
  std::vector<RegionPair> waiting = account.OpenAll(2);
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_FALSE(account.Settle(waiting, 1).value().finished());
  EXPECT_EQ(account.Settle(waiting, 1).value().upper(), 2);
  EXPECT_TRUE(account.Settle(waiting, 2).value().finished());

  const auto verdict_of = [&](double bound, Account::Reason reason, double target) {
    Account closed = account;
    closed.Close(waiting.front(), bound, reason);
    return closed.Settle({}, target).value();
  };
  using enum Account::Reason;
  EXPECT_TRUE(verdict_of(0.5, kBound, 1).finished());
  EXPECT_EQ(verdict_of(0.5, kBound, 1).upper(), 0.5);
  EXPECT_TRUE(verdict_of(0.5, kGivenUp, 1).finished());
  EXPECT_FALSE(verdict_of(1.5, kGivenUp, 1).finished());
  EXPECT_EQ(verdict_of(1.5, kGivenUp, 1).upper(), 1.5);
  EXPECT_FALSE(verdict_of(1.5, kBound, 1).finished());
  EXPECT_TRUE(verdict_of(1.5, kRounding, 1).finished());
  EXPECT_TRUE(verdict_of(1.5, kRounding, 1).limited_by_rounding());
  EXPECT_FALSE(verdict_of(0.5, kRounding, 1).limited_by_rounding());
  EXPECT_EQ(verdict_of(1.5, kRounding, 1).upper(), 1.5);
  // A bound that is no number proves nothing; one below 0 proves that nothing leaks.
  EXPECT_EQ(verdict_of(std::nan(""), kBound, 1).upper(), kInfinity);
  EXPECT_FALSE(verdict_of(std::nan(""), kBound, 1).finished());
  EXPECT_EQ(verdict_of(-1, kBound, 1).upper(), 0);
}

TEST(Account, WhatIsWrittenIsReadAndNothingShorter) {
  Paper paper(3);
  for (int step = 0; step < 50; ++step) paper.Step();
  std::string bytes;
  paper.account.Write(bytes);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    ByteCursor in(std::string_view(bytes).substr(0, size));
    Account read(kLabel, kMembers, kClasses);
    read.Read(in);
    ASSERT_EQ(in.ok(), size == bytes.size());
    if (in.ok()) EXPECT_EQ(read, paper.account);
  }
}

}  // namespace
}  // namespace lucid
