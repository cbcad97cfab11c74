#include "admission/rate_limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace lucid {
namespace {

using namespace std::chrono_literals;
using Time = RateLimiter::Clock::time_point;

TEST(RateLimiter, GivesABurstAndThenTheRate) {
  RateLimiter limiter;
  const RequestRate rate{.per_second = 10, .burst = 5};
  Time now{1h};
  int allowed = 0;
  for (int i = 0; i < 20; ++i) allowed += limiter.Take("a", rate, now).allowed ? 1 : 0;
  EXPECT_EQ(allowed, 5);
  // A tenth of a second buys one, no more.
  for (int i = 0; i < 10; ++i) {
    now += 100ms;
    EXPECT_TRUE(limiter.Take("a", rate, now).allowed);
    EXPECT_FALSE(limiter.Take("a", rate, now).allowed);
  }
  // However long the pause, the burst is the most.
  now += 24h;
  allowed = 0;
  for (int i = 0; i < 20; ++i) allowed += limiter.Take("a", rate, now).allowed ? 1 : 0;
  EXPECT_EQ(allowed, 5);
}

TEST(RateLimiter, OverAnyTimeNoMoreThanBurstAndRate) {
  RateLimiter limiter;
  const RequestRate rate{.per_second = 7, .burst = 3};
  int allowed = 0;
  for (auto at = 0ms; at <= 10'000ms; at += 1ms) {
    allowed += limiter.Take("a", rate, Time{at}).allowed ? 1 : 0;
  }
  EXPECT_LE(allowed, 73);
  EXPECT_GE(allowed, 72);
}

TEST(RateLimiter, RetryAfterIsWhenItWillBeAllowed) {
  RateLimiter limiter;
  const RequestRate rate{.per_second = 0.25, .burst = 1};
  Time now{1h};
  EXPECT_TRUE(limiter.Take("a", rate, now).allowed);
  now += 500ms;
  const auto verdict = limiter.Take("a", rate, now);
  ASSERT_FALSE(verdict.allowed);
  EXPECT_EQ(verdict.retry_after, 4s);  // 3.5 s, in whole seconds
  EXPECT_TRUE(limiter.Take("a", rate, now + verdict.retry_after).allowed);
  const auto soon = limiter.Take("a", rate, now + verdict.retry_after + 3999ms);
  EXPECT_EQ(soon.retry_after, 1s) << "never 0";
}

TEST(RateLimiter, ClientsAreApart) {
  RateLimiter limiter;
  const RequestRate rate{.per_second = 1, .burst = 1};
  EXPECT_TRUE(limiter.Take("a", rate, Time{}).allowed);
  EXPECT_TRUE(limiter.Take("b", rate, Time{}).allowed);
  EXPECT_FALSE(limiter.Take("a", rate, Time{}).allowed);
}

TEST(RateLimiter, MemoryIsBoundedAndTheBusyAreRemembered) {
  RateLimiter limiter(160);
  const RequestRate rate{.per_second = 0.001, .burst = 1};
  EXPECT_TRUE(limiter.Take("busy", rate, Time{}).allowed);
  for (int i = 0; i < 10'000; ++i) {
    limiter.Take(std::to_string(i), rate, Time{});
    ASSERT_FALSE(limiter.Take("busy", rate, Time{}).allowed) << i;
  }
  EXPECT_LE(limiter.clients(), 160);
}

TEST(RateLimiter, ThreadsTakeNoMoreThanThereIs) {
  RateLimiter limiter;
  const RequestRate rate{.per_second = 1, .burst = 1000};
  std::atomic<int> allowed = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) allowed += limiter.Take("a", rate, Time{}).allowed ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(allowed, 1000);
}

}  // namespace
}  // namespace lucid
