#include "admission/network_of.h"

#include <gtest/gtest.h>

namespace lucid {
namespace {

std::string Of(const char* address) { return NetworkOf(boost::asio::ip::make_address(address)); }

TEST(NetworkOfTest, AnAddressIsOneHoweverItIsWritten) {
  EXPECT_EQ(Of("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(Of("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_NE(Of("10.0.0.2"), Of("10.0.0.1"));
}

TEST(NetworkOfTest, ANetworkOfIpv6AddressesIsOneClient) {
  EXPECT_EQ(Of("2001:db8:0:1::1"), Of("2001:db8:0:1:ffff::2"));
  EXPECT_NE(Of("2001:db8:0:1::1"), Of("2001:db8:0:2::1"));
}

}  // namespace
}  // namespace lucid
