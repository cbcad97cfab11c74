#include "admission/places.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lucid {
namespace {

TEST(PlacesTest, LimitsTheTotalAndEveryClient) {
  std::atomic<std::int64_t> taken{0};
  const auto places = Places::Create(3, 2, taken);
  auto first = places->Take("a");
  const auto second = places->Take("a");
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(places->Take("a")) << "two of one client";
  const auto other = places->Take("b");
  EXPECT_TRUE(other);
  EXPECT_FALSE(places->Take("c")) << "three in total";
  EXPECT_EQ(taken, 3);
  first.reset();
  EXPECT_EQ(taken, 2);
  EXPECT_TRUE(places->Take("a"));
  EXPECT_EQ(taken, 2) << "given back at once";
}

TEST(PlacesTest, TheLastPlacesAreForClientsThatHaveNone) {
  std::atomic<std::int64_t> taken{0};
  const auto places = Places::Create(4, 2, taken, 1);
  const auto a1 = places->Take("a"), a2 = places->Take("a");
  auto b1 = places->Take("b");
  ASSERT_TRUE(a1 && a2 && b1);
  EXPECT_FALSE(places->Take("b")) << "the last is for others";
  auto c1 = places->Take("c");
  EXPECT_TRUE(c1);
  EXPECT_FALSE(places->Take("d")) << "four in total";
  b1.reset();
  c1.reset();
  EXPECT_TRUE(places->Take("b"));
  EXPECT_EQ(taken, 2);
}

TEST(PlacesTest, CountsAreRightAfterManyThreads) {
  std::atomic<std::int64_t> taken{0};
  const auto places = Places::Create(4, 3, taken);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          const auto place = places->Take("a");
          EXPECT_LE(taken, 3);
        }
      });
    }
  }
  EXPECT_EQ(taken, 0);
  EXPECT_TRUE(places->Take("a"));
}

}  // namespace
}  // namespace lucid
