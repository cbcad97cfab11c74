#include "admission/half_open.h"

#include <algorithm>
#include <utility>

namespace lucid {

std::shared_ptr<HalfOpen> HalfOpen::Create(Limits limits, std::atomic<std::int64_t>& size) {
  return std::shared_ptr<HalfOpen>(new HalfOpen(limits, size));
}

HalfOpen::Entry HalfOpen::Enter(std::string_view client, std::function<void()> drop) {
  auto item = std::make_shared<Item>(Item{std::string(client), std::move(drop)});
  std::shared_ptr<Item> victim;
  {
    const std::lock_guard lock(mutex_);
    place_[item.get()] = by_age_.insert(by_age_.end(), item);
    if (++by_client_[item->client] > limits_.per_client) {
      victim = TakeOut(std::ranges::find(by_age_, item->client, &Item::client));
    } else if (std::ssize(by_age_) > limits_.total) {
      victim = TakeOut(OldestOfTheGreediest());
    }
    size_ = std::ssize(by_age_);
  }
  if (victim != nullptr) victim->drop();
  return {shared_from_this(), std::move(item)};
}

HalfOpen::Items::iterator HalfOpen::OldestOfTheGreediest() {
  const auto count = [](const auto& client) { return client.second; };
  const std::int64_t most = count(*std::ranges::max_element(by_client_, {}, count));
  return std::ranges::find_if(by_age_, [&](const std::shared_ptr<Item>& item) {
    return by_client_.find(item->client)->second == most;
  });
}

std::shared_ptr<HalfOpen::Item> HalfOpen::TakeOut(Items::iterator at) {
  std::shared_ptr<Item> item = *at;
  place_.erase(item.get());
  by_age_.erase(at);
  const auto found = by_client_.find(item->client);
  if (--found->second == 0) by_client_.erase(found);
  return item;
}

void HalfOpen::Leave(const std::shared_ptr<Item>& item) {
  const std::lock_guard lock(mutex_);
  const auto found = place_.find(item.get());
  if (found != place_.end()) TakeOut(found->second);
  size_ = std::ssize(by_age_);
}

}  // namespace lucid
