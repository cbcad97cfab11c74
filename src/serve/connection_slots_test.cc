#include "serve/connection_slots.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lucid {
namespace {

using boost::asio::ip::make_address;

TEST(ConnectionSlotsTest, LimitsTheTotalAndEveryAddress) {
  std::atomic<std::int64_t> open{0};
  const auto slots = ConnectionSlots::Create(3, 2, open);
  auto first = slots->Take(make_address("10.0.0.1"));
  const auto second = slots->Take(make_address("::ffff:10.0.0.1"));
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(slots->Take(make_address("10.0.0.1"))) << "two of one address, however written";
  const auto other = slots->Take(make_address("10.0.0.2"));
  EXPECT_TRUE(other);
  EXPECT_FALSE(slots->Take(make_address("10.0.0.3"))) << "three in total";
  EXPECT_EQ(open, 3);
  first.reset();
  EXPECT_EQ(open, 2);
  EXPECT_TRUE(slots->Take(make_address("10.0.0.1")));
  EXPECT_EQ(open, 2) << "given back at once";
}

TEST(ConnectionSlotsTest, ANetworkOfIpv6AddressesIsOneClient) {
  std::atomic<std::int64_t> open{0};
  const auto slots = ConnectionSlots::Create(9, 1, open);
  const auto first = slots->Take(make_address("2001:db8:0:1::1"));
  EXPECT_TRUE(first);
  EXPECT_FALSE(slots->Take(make_address("2001:db8:0:1:ffff::2")));
  EXPECT_TRUE(slots->Take(make_address("2001:db8:0:2::1")));
}

TEST(ConnectionSlotsTest, CountsAreRightAfterManyThreads) {
  std::atomic<std::int64_t> open{0};
  const auto slots = ConnectionSlots::Create(4, 3, open);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          const auto slot = slots->Take(make_address("10.0.0.1"));
          EXPECT_LE(open, 3);
        }
      });
    }
  }
  EXPECT_EQ(open, 0);
  EXPECT_TRUE(slots->Take(make_address("10.0.0.1")));
}

}  // namespace
}  // namespace lucid
