// How many there may be of something at once, in total and of one client: connections, requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lucid {

class Places;

// Given back at the end.
class Place {
 public:
  ~Place();
  Place(Place&& other) noexcept = default;
  Place& operator=(Place&& other) noexcept {
    std::swap(places_, other.places_);
    std::swap(client_, other.client_);
    return *this;
  }

 private:
  friend class Places;
  Place(std::shared_ptr<Places> places, std::string_view client);

  std::shared_ptr<Places> places_;  // null: moved from
  std::string client_;
};

// Thread-safe.
class Places : public std::enable_shared_from_this<Places> {
 public:
  // `taken` is kept at the number of places taken, for others to read; it must outlive the places.
  // `for_first`: so many of them, the last ones, are for clients that have no other.
  static std::shared_ptr<Places> Create(std::int64_t limit, std::int64_t limit_per_client,
                                        std::atomic<std::int64_t>& taken,
                                        std::int64_t for_first = 0);

  // None: there is no place, or none for this client.
  std::optional<Place> Take(std::string_view client);

 private:
  friend class Place;
  Places(std::int64_t limit, std::int64_t limit_per_client, std::atomic<std::int64_t>& taken,
         std::int64_t for_first);
  void GiveBack(const std::string& client);

  const std::int64_t limit_, limit_per_client_, for_first_;
  std::atomic<std::int64_t>& taken_;
  std::mutex mutex_;
  std::map<std::string, std::int64_t, std::less<>> by_client_;  // none is 0
};

}  // namespace lucid
