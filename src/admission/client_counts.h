// What each client has asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace lucid {

// Counts of one client are for this client and for nobody else: what others ask, and when, is none
// of its business. Memory: one entry for each API key that has asked. Thread-safe.
class ClientCounts {
 public:
  struct Counts {
    std::int64_t answered = 0, refused = 0;  // requests for labels
    std::int64_t rows = 0;                   // of those that were answered
  };

  void CountAnswered(std::string_view account, std::int64_t rows) {
    const std::lock_guard lock(mutex_);
    Counts& counts = CountsOf(account);
    ++counts.answered;
    counts.rows += rows;
  }
  void CountRefused(std::string_view account) {
    const std::lock_guard lock(mutex_);
    ++CountsOf(account).refused;
  }
  Counts Of(std::string_view account) const {
    const std::lock_guard lock(mutex_);
    const auto found = by_account_.find(account);
    return found == by_account_.end() ? Counts{} : found->second;
  }

 private:
  Counts& CountsOf(std::string_view account) {
    const auto found = by_account_.find(account);
    return found != by_account_.end() ? found->second : by_account_[std::string(account)];
  }

  mutable std::mutex mutex_;
  std::map<std::string, Counts, std::less<>> by_account_;
};

}  // namespace lucid
