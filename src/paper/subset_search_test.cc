#include "paper/subset_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "random/stream.h"
#include "support/local_team.h"

namespace lucid {
namespace {

using Clock = std::chrono::steady_clock;
using End = SubsetSearchSummary::End;

// Members with known values; a subset's bound is the largest of them plus something that only
// larger subsets pay. Solving takes a random time, so that workers overtake each other.
class FakeProblem {
 public:
  FakeProblem(std::int32_t members, std::uint64_t seed) : seed_(seed) {
    Stream stream(seed, "fake subsets");
    for (std::int32_t i = 0; i < members; ++i) {
      all_.push_back(i);
      // Few different values: ties are where an order may slip in.
      values_.push_back(static_cast<double>(stream.Below(20)) / 16);
    }
  }

  const Subset& all() const { return all_; }
  double Value(const Subset& subset) const {
    double largest = 0;
    for (const std::int32_t member : subset) largest = std::max(largest, values_[member]);
    return largest;
  }
  double beta() const { return Value(all_); }

  SubsetBound Solve(const Subset& subset) const {
    Stream stream(seed_, "fake bound", Name(subset));
    const double excess = 0.25 * static_cast<double>(stream.Below(8)) *
                          (static_cast<double>(subset.size()) - 1) /
                          static_cast<double>(all_.size());
    return {Value(subset) + excess, true, false, 1, 0};
  }
  std::vector<Subset> Split(const Subset& subset) const {
    Stream stream(seed_, "fake split", Name(subset));
    std::vector<Subset> parts(2 + stream.Below(2));
    for (std::size_t i = 0; i < subset.size(); ++i) parts[i % parts.size()].push_back(subset[i]);
    std::erase_if(parts, [](const Subset& part) { return part.empty(); });
    return parts;
  }

  SubsetSearchHooks Hooks() const {
    SubsetSearchHooks hooks;
    hooks.solve = [this](const Subset& subset, const SubsetSearchHooks::Improve&) {
      Dawdle(subset);
      return Result<SubsetBound>(Solve(subset));
    };
    hooks.split = [this](const Subset& subset) {
      Dawdle(subset);
      return Result<std::vector<Subset>>(Split(subset));
    };
    return hooks;
  }

 private:
  static std::uint64_t Name(const Subset& subset) {
    return static_cast<std::uint64_t>(subset.front()) * 1000 + subset.size();
  }
  // Differs from run to run on purpose.
  void Dawdle(const Subset& subset) const {
    const auto micros = (Name(subset) * 7919 + turn_++ * 104729) % 60;
    std::this_thread::sleep_for(std::chrono::microseconds(micros));
  }

  const std::uint64_t seed_;
  Subset all_;
  std::vector<double> values_;
  mutable std::atomic<std::uint64_t> turn_ = 0;
};

constexpr double kCeiling = 100;

// All that a search says that ended by itself.
void ExpectSame(const SubsetSearchSummary& a, const SubsetSearchSummary& b) {
  EXPECT_EQ(a.bound, b.bound);
  EXPECT_EQ(a.solved, b.solved);
  EXPECT_EQ(a.splits, b.splits);
  EXPECT_EQ(a.nodes, b.nodes);
  EXPECT_EQ(a.largest_open, b.largest_open);
}

TEST(SearchSubsets, SameBitsForAnyNumberOfWorkersAndTheTrueMaximum) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const FakeProblem problem(40, seed);
    for (const double enough : {-1.0, 0.5, 1.125, 1.3, 50.0}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", enough " << enough);
      std::optional<SubsetSearchSummary> first;
      for (const int threads : {1, 2, 8}) {
        SCOPED_TRACE(testing::Message() << threads << " workers");
        SubsetSearchOptions options;
        options.threads = threads;
        options.enough = enough;
        const auto found = SearchSubsets({problem.all()}, kCeiling, options, problem.Hooks());
        ASSERT_TRUE(found.ok());
        EXPECT_EQ(found->end, End::kSolved);
        EXPECT_GE(found->bound, problem.beta());
        if (enough < problem.beta()) {
          EXPECT_EQ(found->bound, problem.beta());
          EXPECT_EQ(found->largest_open, 1);
        } else {
          EXPECT_LE(found->bound, enough);
        }
        if (!first) first = *found;
        ExpectSame(*first, *found);
      }
    }
  }
}

TEST(SearchSubsets, WithoutBranchingBoundsTheGivenSubsetsOnly) {
  const FakeProblem problem(12, 3);
  for (const int threads : {1, 8}) {
    SubsetSearchOptions options;
    options.threads = threads;
    options.branch = false;
    SubsetSearchHooks hooks = problem.Hooks();
    hooks.split = [](const Subset&) { return Result<std::vector<Subset>>(InternalError("split")); };
    const auto whole = SearchSubsets({problem.all()}, kCeiling, options, hooks);
    ASSERT_TRUE(whole.ok());
    EXPECT_EQ(whole->bound, problem.Solve(problem.all()).bound);
    std::vector<Subset> single;
    for (const std::int32_t member : problem.all()) single.push_back({member});
    const auto naive = SearchSubsets(single, kCeiling, options, hooks);
    ASSERT_TRUE(naive.ok());
    EXPECT_EQ(naive->bound, problem.beta());
    EXPECT_EQ(naive->solved, 12);  // nothing is known before all of them are
  }
}

TEST(SearchSubsets, IsAtOrAboveTheTruthWhereverItIsStopped) {
  const FakeProblem problem(30, 5);
  for (const int threads : {1, 3}) {
    for (int calls = 0; calls < 60; ++calls) {
      SCOPED_TRACE(testing::Message() << threads << " workers, stopped after " << calls);
      std::stop_source source;
      std::atomic<int> left = calls;
      if (calls == 0) source.request_stop();
      SubsetSearchOptions options;
      options.threads = threads;
      options.stop = source.get_token();
      const SubsetSearchHooks plain = problem.Hooks();
      SubsetSearchHooks hooks;
      double last = kCeiling;
      hooks.report = [&](double bound, std::int64_t) {
        EXPECT_GE(bound, problem.beta());
        EXPECT_LE(bound, last) << "the anytime bound rises";
        last = bound;
      };
      hooks.solve = [&](const Subset& subset, const SubsetSearchHooks::Improve& improve) {
        if (--left <= 0) {  // as a MILP that notices the stop
          source.request_stop();
          return Result<SubsetBound>(SubsetBound{kCeiling, false});
        }
        return plain.solve(subset, improve);
      };
      hooks.split = [&](const Subset& subset) {
        if (--left <= 0) {
          source.request_stop();
          return Result<std::vector<Subset>>(Interrupted("stopped"));
        }
        return plain.split(subset);
      };
      const auto found = SearchSubsets({problem.all()}, kCeiling, options, hooks);
      ASSERT_TRUE(found.ok());
      EXPECT_GE(found->bound, problem.beta());
      EXPECT_LE(found->bound, last);
      if (source.stop_requested()) {
        EXPECT_EQ(found->end, End::kStopped);
      }
    }
  }
}

TEST(SearchSubsets, ADeadlineInThePastGivesTheCeiling) {
  const FakeProblem problem(10, 1);
  for (const int threads : {1, 8}) {
    SubsetSearchOptions options;
    options.threads = threads;
    options.deadline = Clock::now() - std::chrono::seconds(1);
    const auto found = SearchSubsets({problem.all()}, kCeiling, options, problem.Hooks());
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->end, End::kDeadline);
    EXPECT_EQ(found->bound, kCeiling);
    EXPECT_EQ(found->solved, 0);
    EXPECT_EQ(found->largest_open, 10);
  }
}

TEST(SearchSubsets, AnErrorOfAHookIsReturned) {
  const FakeProblem problem(10, 1);
  for (const int threads : {1, 8}) {
    for (const bool in_solve : {false, true}) {
      SubsetSearchOptions options;
      options.threads = threads;
      SubsetSearchHooks hooks = problem.Hooks();
      if (in_solve) {
        hooks.solve = [](const Subset&, const SubsetSearchHooks::Improve&) {
          return Result<SubsetBound>(IoError("disk full"));
        };
      } else {
        hooks.split = [](const Subset&) {
          return Result<std::vector<Subset>>(IoError("disk full"));
        };
      }
      const auto found = SearchSubsets({problem.all()}, kCeiling, options, hooks);
      ASSERT_FALSE(found.ok());
      EXPECT_EQ(found.error().message, "disk full");
    }
  }
}

TEST(SearchSubsets, APartIsNeverAboveTheWhole) {
  SubsetSearchHooks hooks;
  hooks.solve = [](const Subset& subset, const SubsetSearchHooks::Improve&) {
    return Result<SubsetBound>(SubsetBound{subset.size() == 4 ? 1.0 : 5.0});
  };
  hooks.split = [](const Subset& subset) {
    const auto middle = subset.begin() + std::ssize(subset) / 2;
    return Result<std::vector<Subset>>({{subset.begin(), middle}, {middle, subset.end()}});
  };
  const auto found = SearchSubsets({{0, 1, 2, 3}}, kCeiling, {}, hooks);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->bound, 1);
  const auto low = SearchSubsets({{0, 1, 2, 3}}, 0.25, {}, hooks);  // nor above the ceiling
  ASSERT_TRUE(low.ok());
  EXPECT_EQ(low->bound, 0.25);
}

// The other worker is through with a final subset while the largest is still being solved.
TEST(SearchSubsets, WaitsForALargerBoundInFlight) {
  std::latch other_is_solved(1);
  SubsetSearchHooks hooks;
  hooks.solve = [&](const Subset& subset, const SubsetSearchHooks::Improve&) {
    if (subset.front() == 1) {
      other_is_solved.count_down();
      return Result<SubsetBound>(SubsetBound{3});
    }
    other_is_solved.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return Result<SubsetBound>(SubsetBound{5});
  };
  SubsetSearchOptions options;
  options.threads = 2;
  const auto found = SearchSubsets({{0}, {1}}, kCeiling, options, hooks);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->bound, 5);
  EXPECT_EQ(found->solved, 2);
}

// What a MILP in flight has proved counts at once, and the report never falls below what is final.
TEST(SearchSubsets, BoundsProvedOnTheWayAreReported) {
  std::latch other_is_solved(1);
  std::vector<double> reports;
  SubsetSearchHooks hooks;
  hooks.report = [&](double bound, std::int64_t) {
    if (reports.empty()) other_is_solved.count_down();
    reports.push_back(bound);
  };
  hooks.solve = [&](const Subset& subset, const SubsetSearchHooks::Improve& improve) {
    if (subset.front() == 1) return Result<SubsetBound>(SubsetBound{3});
    other_is_solved.wait();
    for (const double bound : {8.0, 6.0, 7.0, 2.0}) improve(bound);
    return Result<SubsetBound>(SubsetBound{1});
  };
  SubsetSearchOptions options;
  options.threads = 2;
  const auto found = SearchSubsets({{0}, {1}}, kCeiling, options, hooks);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->bound, 3);
  EXPECT_TRUE(std::ranges::is_sorted(reports, std::greater<>()));
  EXPECT_TRUE(std::ranges::find(reports, 6.0) != reports.end());
  EXPECT_EQ(reports.back(), 3);
}

TEST(SearchSubsets, WhatWasCutShortIsSolvedAgain) {
  for (const double second : {2.0, 6.0}) {
    std::vector<SubsetBound> answers = {{4, false}, {second, true}};
    std::size_t calls = 0;
    SubsetSearchHooks hooks;
    hooks.solve = [&](const Subset&, const SubsetSearchHooks::Improve&) {
      return Result<SubsetBound>(answers[calls++]);
    };
    const auto found = SearchSubsets({{0}}, kCeiling, {}, hooks);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(calls, 2U);
    EXPECT_EQ(found->bound, std::min(second, 4.0));  // what was proved first still holds
  }
}

TEST(SearchSubsets, SplitsCoverEveryMember) {
  const FakeProblem problem(25, 8);
  std::mutex mutex;
  std::set<std::int32_t> single;
  SubsetSearchHooks hooks = problem.Hooks();
  hooks.solve = [&](const Subset& subset, const SubsetSearchHooks::Improve&) {
    const std::scoped_lock lock(mutex);
    if (subset.size() == 1) single.insert(subset.front());
    // Larger subsets are always worse than any single one: all are split.
    return Result<SubsetBound>(SubsetBound{subset.size() == 1 ? 1.0 : 2.0});
  };
  SubsetSearchOptions options;
  options.threads = 4;
  const auto found = SearchSubsets({problem.all()}, kCeiling, options, hooks);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->bound, 1);
  EXPECT_EQ(single.size(), 25U);
}

// ---- several processes --------------------------------------------------------------------------

// What the helper of a search of fake subsets does.
Status HelpFake(const FakeProblem& problem, Team& team, int threads) {
  const SubsetSearchHooks hooks = problem.Hooks();
  TeamService service;
  service.begin = [](std::string_view, const std::stop_token&) { return Ok(); };
  service.answer = [&](ByteCursor& in, int, std::string& out) -> Status {
    SubsetTask task;
    if (!task.Read(in, std::ssize(problem.all()))) return InternalError("no task");
    if (task.split) {
      SubsetTask::Answer(hooks.split(task.subset).value(), out);
    } else {
      SubsetTask::Answer(hooks.solve(task.subset, {}).value(), out);
    }
    return Ok();
  };
  return HelpTaskTeam(team, "fake subsets", threads, service, {});
}

Result<SubsetSearchSummary> SearchTogether(const FakeProblem& problem, SubsetSearchOptions options,
                                           Team& leader, SubsetSearchHooks hooks) {
  LUCID_ASSIGN(const auto team, TaskTeam::Gather(leader, "fake subsets", {}));
  options.team = team.get();
  options.topic = "fake";
  hooks.known = [](const Subset&) { return std::nullopt; };
  hooks.found = [](const Subset&, const SubsetBound&) { return Ok(); };
  hooks.seconds = [] { return 1e6; };
  return SearchSubsets({problem.all()}, kCeiling, options, hooks);
}

TEST(SearchSubsets, ProcessesDoNotShow) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const FakeProblem problem(40, seed);
    for (const double enough : {-1.0, 1.125}) {
      SubsetSearchOptions options;
      options.enough = enough;
      const auto alone = SearchSubsets({problem.all()}, kCeiling, options, problem.Hooks());
      for (const int processes : {2, 4}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << processes << " processes");
        LocalTeamOf team(processes,
                         [&](Team& helper) { return HelpFake(problem, helper, processes / 2); });
        options.threads = processes / 2;
        const auto found = SearchTogether(problem, options, team.leader(), problem.Hooks());
        ASSERT_TRUE(found.ok()) << found.error().message;
        EXPECT_EQ(found->end, End::kSolved);
        ExpectSame(*alone, *found);
      }
      options.threads = 1;
    }
  }
}

// Whenever the time is over, what was in hand anywhere still counts.
TEST(SearchSubsets, ATeamOutOfTimeLosesNoSubset) {
  const FakeProblem problem(40, 5);
  int early = 0;
  for (int micros = 0; micros < 30'000; micros += 500) {
    LocalTeamOf team(3, [&](Team& helper) { return HelpFake(problem, helper, 1); });
    SubsetSearchOptions options;
    options.deadline = Clock::now() + std::chrono::microseconds(micros);
    const auto found = SearchTogether(problem, options, team.leader(), problem.Hooks());
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_GE(found->bound, problem.beta()) << "UNSOUND";
    early += found->end == End::kDeadline ? 1 : 0;
  }
  EXPECT_GT(early, 0);
}

TEST(SubsetTask, PartsThatLoseAMemberOrHaveOneTwiceAreNone) {
  const SubsetTask task{true, 0, {1, 4, 5, 9}};
  const auto taken = [&](const std::vector<Subset>& parts) {
    std::string bytes;
    SubsetTask::Answer(parts, bytes);
    ByteCursor in(bytes);
    return task.TakeParts(in).has_value();
  };
  EXPECT_TRUE(taken({{1, 5}, {4, 9}}));
  EXPECT_FALSE(taken({{1, 5}, {4}}));
  EXPECT_FALSE(taken({{1, 5}, {4, 5, 9}}));
  EXPECT_FALSE(taken({{1, 5}, {4, 8}}));
  EXPECT_FALSE(taken({{5, 1}, {4, 9}}));
  EXPECT_FALSE(taken({{1, 4, 5, 9}, {}}));
  EXPECT_FALSE(taken({{1, 4, 5, 9}}));
}

}  // namespace
}  // namespace lucid
