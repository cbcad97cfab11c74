#include "admission/half_open.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace lucid {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class HalfOpenTest : public testing::Test {
 protected:
  HalfOpen::Entry Enter(const std::string& client, const std::string& name) {
    return all_->Enter(client, [this, name] { dropped_.push_back(name); });
  }
  std::atomic<std::int64_t> size_{0};
  std::shared_ptr<HalfOpen> all_ = HalfOpen::Create({.total = 4, .per_client = 2}, size_);
  std::vector<std::string> dropped_;
};

TEST_F(HalfOpenTest, AClientWithTooManyLosesItsOldest) {
  const auto b1 = Enter("b", "b1");
  const auto a1 = Enter("a", "a1"), a2 = Enter("a", "a2");
  EXPECT_THAT(dropped_, IsEmpty());
  const auto a3 = Enter("a", "a3");
  EXPECT_THAT(dropped_, ElementsAre("a1")) << "its own, although b1 is older";
  const auto a4 = Enter("a", "a4");
  EXPECT_THAT(dropped_, ElementsAre("a1", "a2")) << "once each";
  EXPECT_EQ(size_, 3);
}

TEST_F(HalfOpenTest, TooManyOfAllClientsCostTheOldestOfThoseWithMost) {
  const auto a1 = Enter("a", "a1"), b1 = Enter("b", "b1"), c1 = Enter("c", "c1");
  const auto b2 = Enter("b", "b2"), c2 = Enter("c", "c2");
  EXPECT_THAT(dropped_, ElementsAre("b1")) << "a1 is older, but a has nothing else";
  const auto d1 = Enter("d", "d1");
  EXPECT_THAT(dropped_, ElementsAre("b1", "c1")) << "only c had two";
  EXPECT_EQ(size_, 4);
  const auto e1 = Enter("e", "e1");
  EXPECT_THAT(dropped_, ElementsAre("b1", "c1", "a1")) << "all have one: the oldest of all";
}

TEST_F(HalfOpenTest, WhoLeavesMakesRoom) {
  auto a1 = std::optional(Enter("a", "a1"));
  const auto a2 = Enter("a", "a2");
  a1.reset();
  const auto a3 = Enter("a", "a3");
  EXPECT_THAT(dropped_, IsEmpty());
  EXPECT_EQ(size_, 2);
}

TEST_F(HalfOpenTest, CountsAreRightAfterManyThreads) {
  const auto all = HalfOpen::Create({.total = 6, .per_client = 2}, size_);
  std::atomic<int> dropped{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, client = std::to_string(t % 2)] {
        for (int i = 0; i < 1000; ++i) {
          const auto first = all->Enter(client, [&] { ++dropped; });
          const auto second = all->Enter(client, [&] { ++dropped; });
          EXPECT_LE(size_, 6);
        }
      });
    }
  }
  EXPECT_EQ(size_, 0);
  EXPECT_LE(dropped, 8000);
}

}  // namespace
}  // namespace lucid
