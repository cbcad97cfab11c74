#include "admission/network_of.h"

#include <algorithm>
#include <cstdint>

namespace lucid {

namespace ip = boost::asio::ip;

std::string NetworkOf(const ip::address& address) {
  if (!address.is_v6()) return address.to_string();
  if (address.to_v6().is_v4_mapped()) {
    return ip::make_address_v4(ip::v4_mapped, address.to_v6()).to_string();
  }
  auto bytes = address.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), std::uint8_t{0});
  return ip::address_v6(bytes).to_string() + "/64";
}

}  // namespace lucid
