// Connections that keep the server waiting: for the first byte, or for the rest of a request.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace lucid {

// There may be so many in total and so many of one client. Beyond that the one that has waited
// longest is dropped, of this client, or of the one that has most (of several: of them all). So
// somebody who finishes what he begins always finds room, and few clients, each with many, cost
// nobody else his place. Thread-safe.
class HalfOpen : public std::enable_shared_from_this<HalfOpen> {
 public:
  struct Limits {
    std::int64_t total = 0, per_client = 0;  // at least 1
  };
  class Entry;

  // `size` is kept at how many there are, for others to read; it must outlive this.
  static std::shared_ptr<HalfOpen> Create(Limits limits, std::atomic<std::int64_t>& size);

  // Enters one as the youngest, until the entry ends. `drop` is called at most once, by whoever
  // enters later, on that one's thread; possibly while the entry ends.
  Entry Enter(std::string_view client, std::function<void()> drop);

 private:
  struct Item {
    std::string client;
    std::function<void()> drop;
  };
  using Items = std::list<std::shared_ptr<Item>>;

  HalfOpen(Limits limits, std::atomic<std::int64_t>& size) : limits_(limits), size_(size) {}
  void Leave(const std::shared_ptr<Item>& item);
  Items::iterator OldestOfTheGreediest();             // requires: mutex_ is held; there is one
  std::shared_ptr<Item> TakeOut(Items::iterator at);  // requires: mutex_ is held

  const Limits limits_;
  std::atomic<std::int64_t>& size_;
  std::mutex mutex_;
  Items by_age_;                                                // the oldest in front
  std::map<const Item*, Items::iterator> place_;                // of everyone in by_age_
  std::map<std::string, std::int64_t, std::less<>> by_client_;  // how many; none is 0
};

class HalfOpen::Entry {
 public:
  Entry(Entry&& other) noexcept = default;
  Entry& operator=(Entry&& other) = delete;
  ~Entry() {
    if (all_ != nullptr) all_->Leave(item_);
  }

 private:
  friend class HalfOpen;
  Entry(std::shared_ptr<HalfOpen> all, std::shared_ptr<Item> item)
      : all_(std::move(all)), item_(std::move(item)) {}

  std::shared_ptr<HalfOpen> all_;  // null: moved from
  std::shared_ptr<Item> item_;
};

}  // namespace lucid
