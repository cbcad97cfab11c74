#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace lucid {
namespace {

TEST(ParallelFor, RunsEveryPieceOnce) {
  std::vector<std::atomic<int>> seen(1000);
  ASSERT_TRUE(ParallelFor(1000, 4, {}, [&](std::int64_t i, int) {
                ++seen[i];
                return Ok();
              }).ok());
  for (const auto& count : seen) EXPECT_EQ(count.load(), 1);
}

TEST(ParallelFor, NothingToDoIsSuccess) {
  EXPECT_TRUE(ParallelFor(0, 4, {}, [](std::int64_t, int) { return Ok(); }).ok());
}

TEST(ParallelFor, ErrorStopsTheRest) {
  std::atomic<int> ran{0};
  const Status status = ParallelFor(100000, 2, {}, [&](std::int64_t i, int) -> Status {
    ++ran;
    if (i == 10) return InvalidInput("ten");
    return Ok();
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "ten");
  EXPECT_LT(ran.load(), 100000);
}

TEST(ParallelFor, StopIsAnAnswer) {
  std::stop_source stop;
  const Status status = ParallelFor(1000, 2, stop.get_token(), [&](std::int64_t i, int) {
    if (i == 5) stop.request_stop();
    return Ok();
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kInterrupted);
}

}  // namespace
}  // namespace lucid
