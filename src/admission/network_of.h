// Who an address belongs to.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <string>

namespace lucid {

// What all addresses of one client have in common, as a text. All of an IPv6 /64 network counts as
// one client, because whoever has one address of it has all of them.
std::string NetworkOf(const boost::asio::ip::address& address);

}  // namespace lucid
