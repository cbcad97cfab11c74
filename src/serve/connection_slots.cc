#include "serve/connection_slots.h"

#include <algorithm>
#include <utility>

namespace lucid {
namespace {

namespace ip = boost::asio::ip;

ip::address ClientOf(const ip::address& address) {
  if (!address.is_v6()) return address;
  if (address.to_v6().is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, address.to_v6());
  auto bytes = address.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), std::uint8_t{0});
  return ip::address_v6(bytes);
}

}  // namespace

ConnectionSlot::ConnectionSlot(std::shared_ptr<ConnectionSlots> slots, const ip::address& client)
    : slots_(std::move(slots)), client_(client) {}

ConnectionSlot::~ConnectionSlot() {
  if (slots_ != nullptr) slots_->GiveBack(client_);
}

std::shared_ptr<ConnectionSlots> ConnectionSlots::Create(std::int64_t limit,
                                                         std::int64_t limit_per_address,
                                                         std::atomic<std::int64_t>& open) {
  return std::shared_ptr<ConnectionSlots>(new ConnectionSlots(limit, limit_per_address, open));
}

ConnectionSlots::ConnectionSlots(std::int64_t limit, std::int64_t limit_per_address,
                                 std::atomic<std::int64_t>& open)
    : limit_(limit), limit_per_address_(limit_per_address), open_(open) {}

std::optional<ConnectionSlot> ConnectionSlots::Take(const ip::address& address) {
  const ip::address client = ClientOf(address);
  const std::lock_guard lock(mutex_);
  if (open_ >= limit_) return std::nullopt;
  std::int64_t& count = by_client_[client];
  if (count >= limit_per_address_) return std::nullopt;
  ++count;
  ++open_;
  return ConnectionSlot(shared_from_this(), client);
}

void ConnectionSlots::GiveBack(const ip::address& client) {
  const std::lock_guard lock(mutex_);
  --open_;
  const auto found = by_client_.find(client);
  if (--found->second == 0) by_client_.erase(found);
}

}  // namespace lucid
