#include "admission/places.h"

#include <utility>

namespace lucid {

Place::Place(std::shared_ptr<Places> places, std::string_view client)
    : places_(std::move(places)), client_(client) {}

Place::~Place() {
  if (places_ != nullptr) places_->GiveBack(client_);
}

std::shared_ptr<Places> Places::Create(std::int64_t limit, std::int64_t limit_per_client,
                                       std::atomic<std::int64_t>& taken, std::int64_t for_first) {
  return std::shared_ptr<Places>(new Places(limit, limit_per_client, taken, for_first));
}

Places::Places(std::int64_t limit, std::int64_t limit_per_client, std::atomic<std::int64_t>& taken,
               std::int64_t for_first)
    : limit_(limit), limit_per_client_(limit_per_client), for_first_(for_first), taken_(taken) {}

std::optional<Place> Places::Take(std::string_view client) {
  const std::lock_guard lock(mutex_);
  if (taken_ >= limit_) return std::nullopt;
  auto found = by_client_.find(client);
  if (found == by_client_.end()) found = by_client_.emplace(client, 0).first;
  if (found->second >= limit_per_client_) return std::nullopt;
  if (found->second > 0 && taken_ >= limit_ - for_first_) return std::nullopt;
  ++found->second;
  ++taken_;
  return Place(shared_from_this(), client);
}

void Places::GiveBack(const std::string& client) {
  const std::lock_guard lock(mutex_);
  --taken_;
  const auto found = by_client_.find(client);
  if (--found->second == 0) by_client_.erase(found);
}

}  // namespace lucid
