#include "paper/subset_search.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

namespace lucid {
namespace {

using Clock = std::chrono::steady_clock;

// A subset and what is known about it: until its own MILP is solved, its parent's bound.
struct Item {
  Subset subset;
  double bound;
  bool solved;

  // The largest bound first; of equal bounds the unsolved and then the one with the smaller first
  // member, so that the order is the same whoever pushed first.
  bool operator<(const Item& other) const {
    if (bound != other.bound) return bound < other.bound;
    if (solved != other.solved) return solved;
    return subset.front() > other.subset.front();
  }
};

class Search {
 public:
  Search(double ceiling, const SubsetSearchOptions& options, const SubsetSearchHooks& hooks)
      : options_(options), hooks_(hooks), ceiling_(ceiling) {}

  Result<SubsetSearchSummary> Run(std::vector<Subset> start) {
    for (Subset& subset : start) queue_.push({std::move(subset), ceiling_, false});
    {
      std::vector<std::jthread> workers;
      for (int i = 1; i < options_.threads; ++i) workers.emplace_back([this] { Work(); });
      Work();
    }
    if (error_) return *error_;
    summary_.bound = queue_.empty() ? 0 : queue_.top().bound;
    summary_.largest_open =
        queue_.empty() ? 0 : static_cast<std::int64_t>(queue_.top().subset.size());
    return summary_;
  }

 private:
  // Takes the subset with the largest bound, solves or splits it, puts the outcome back.
  void Work() {
    std::unique_lock lock(mutex_);
    while (!done_) {
      if (OutOfTime()) break;
      if (queue_.empty() || IsFinal(queue_.top())) {
        if (queue_.empty() ? in_flight_.empty() : !SomethingLargerInFlight()) {
          done_ = true;  // everything else is bounded by this one
          break;
        }
        changed_.wait_for(lock, std::chrono::milliseconds(200));  // deadline and stop, too
        continue;
      }
      Item item = queue_.top();
      queue_.pop();
      const auto ticket = in_flight_.insert(in_flight_.end(), item.bound);
      lock.unlock();
      Result<std::vector<Item>> outcome = item.solved ? Split(item) : Solve(item, *ticket);
      lock.lock();
      in_flight_.erase(ticket);
      if (outcome.ok()) {
        for (Item& part : *outcome) queue_.push(std::move(part));
      } else {
        queue_.push(std::move(item));  // still bounded by what was known
        if (outcome.error().kind != ErrorKind::kInterrupted) {
          error_ = std::move(outcome).error();
          done_ = true;
        }
      }
      if (hooks_.report) hooks_.report(AnytimeBound(), summary_.solved);
      changed_.notify_all();
    }
    changed_.notify_all();
  }

  // Nothing is to be gained from this subset any more.
  bool IsFinal(const Item& item) const {
    if (item.bound <= options_.enough) return true;
    return item.solved && (!options_.branch || item.subset.size() == 1);
  }

  bool SomethingLargerInFlight() const { return InFlight() > queue_.top().bound; }

  double AnytimeBound() const {
    return queue_.empty() ? InFlight() : std::max(InFlight(), queue_.top().bound);
  }
  double InFlight() const { return in_flight_.empty() ? 0 : *std::ranges::max_element(in_flight_); }

  bool OutOfTime() {
    if (options_.stop.stop_requested()) {
      summary_.end = SubsetSearchSummary::End::kStopped;
    } else if (Clock::now() >= options_.deadline) {
      summary_.end = SubsetSearchSummary::End::kDeadline;
    } else {
      return false;
    }
    done_ = true;
    return true;
  }

  Result<std::vector<Item>> Solve(const Item& item, double& known) {
    const auto improve = [&](double bound) {
      const std::scoped_lock lock(mutex_);
      known = std::min(known, bound);
      if (hooks_.report) hooks_.report(AnytimeBound(), summary_.solved);
    };
    LUCID_ASSIGN(const SubsetBound solved, hooks_.solve(item.subset, improve));
    {
      const std::scoped_lock lock(mutex_);
      ++summary_.solved;
      summary_.timed_out += solved.timed_out;
      summary_.nodes += solved.nodes;
      summary_.unproved += solved.unproved;
    }
    // What holds for the parent holds for its parts.
    std::vector<Item> back;
    back.push_back({item.subset, std::min(item.bound, solved.bound), solved.complete});
    return back;
  }

  Result<std::vector<Item>> Split(const Item& item) {
    LUCID_ASSIGN(std::vector<Subset> parts, hooks_.split(item.subset));
    std::vector<Item> items;
    items.reserve(parts.size());
    for (Subset& part : parts) items.push_back({std::move(part), item.bound, false});
    const std::scoped_lock lock(mutex_);
    ++summary_.splits;
    return items;
  }

  const SubsetSearchOptions& options_;
  const SubsetSearchHooks& hooks_;
  const double ceiling_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<Item> queue_;  // all below: under mutex_
  std::list<double> in_flight_;      // the bounds of what is being worked on
  bool done_ = false;
  std::optional<Error> error_;
  SubsetSearchSummary summary_;
};

}  // namespace

Result<SubsetSearchSummary> SearchSubsets(std::vector<Subset> start, double ceiling,
                                          const SubsetSearchOptions& options,
                                          const SubsetSearchHooks& hooks) {
  return Search(ceiling, options, hooks).Run(std::move(start));
}

}  // namespace lucid
