#include "base/work_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <thread>

namespace lucid {
namespace {

double ThreadSeconds() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(WorkClock, StandsNearlyStillWhileNobodyWorks) {
  const WorkClock clock(1);
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_GE(clock.Seconds(), 0.2 / 4);
  EXPECT_LT(clock.Seconds(), SecondsSince(start) / 2);
}

TEST(WorkClock, CountsWorkSharedOutAmongThreads) {
  const WorkClock one(1), two(2);
  const Clock::time_point start = Clock::now();
  const double before = ThreadSeconds();
  while (ThreadSeconds() - before < 0.2) {
  }
  const double work = one.Seconds(), half = two.Seconds(), wall = SecondsSince(start);
  EXPECT_GE(work, 0.2);
  EXPECT_LE(work, wall);
  EXPECT_GE(half, 0.1);
  EXPECT_LE(half, work);
}

}  // namespace
}  // namespace lucid
