// How many connections there may be, in total and from one address.
#pragma once

#include <atomic>
#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace lucid {

class ConnectionSlots;

// A place for one connection, given back at the end.
class ConnectionSlot {
 public:
  ~ConnectionSlot();
  ConnectionSlot(ConnectionSlot&& other) noexcept = default;
  ConnectionSlot& operator=(ConnectionSlot&&) = delete;

 private:
  friend class ConnectionSlots;
  ConnectionSlot(std::shared_ptr<ConnectionSlots> slots, const boost::asio::ip::address& client);

  std::shared_ptr<ConnectionSlots> slots_;  // null: moved from
  boost::asio::ip::address client_;
};

// Thread-safe.
class ConnectionSlots : public std::enable_shared_from_this<ConnectionSlots> {
 public:
  // `open` is kept at the number of places taken, for others to read; it must outlive the slots.
  static std::shared_ptr<ConnectionSlots> Create(std::int64_t limit, std::int64_t limit_per_address,
                                                 std::atomic<std::int64_t>& open);

  // None: there is no place, or none for this address. All of an IPv6 /64 network counts as one
  // address, because whoever has one address of it has all of them.
  std::optional<ConnectionSlot> Take(const boost::asio::ip::address& address);

 private:
  friend class ConnectionSlot;
  ConnectionSlots(std::int64_t limit, std::int64_t limit_per_address,
                  std::atomic<std::int64_t>& open);
  void GiveBack(const boost::asio::ip::address& client);

  const std::int64_t limit_, limit_per_address_;
  std::atomic<std::int64_t>& open_;
  std::mutex mutex_;
  std::map<boost::asio::ip::address, std::int64_t> by_client_;  // none is 0
};

}  // namespace lucid
