#include "paper/subset_search.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <queue>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/byte_fields.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

using Clock = std::chrono::steady_clock;

// A place in the queue.
struct Place {
  double bound = 0;
  bool solved = false;
  std::int32_t first = 0;  // member

  // The largest bound first; of equal bounds the unsolved and then the one with the smaller first
  // member, so that the order is the same whoever pushed first.
  bool operator<(const Place& other) const {
    if (bound != other.bound) return bound < other.bound;
    if (solved != other.solved) return solved;
    return first > other.first;
  }
};

// A subset and what is known about it: until its own MILP is solved, its parent's bound.
struct Item {
  Subset subset;
  double bound = 0;
  bool solved = false;
  bool cut_short = false;  // another process had no time to finish it
  // The last of its own place and those of all that it came from.
  std::optional<Place> before = std::nullopt;

  Place place() const { return {bound, solved, subset.front()}; }
  Place LastPlace() const { return before ? std::min(*before, place()) : place(); }
  bool operator<(const Item& other) const { return place() < other.place(); }
};

class Search {
 public:
  Search(double ceiling, const SubsetSearchOptions& options, const SubsetSearchHooks& hooks)
      : options_(options), hooks_(hooks), ceiling_(ceiling) {}

  Result<SubsetSearchSummary> Run(std::vector<Subset> start) {
    for (Subset& subset : start) queue_.push({std::move(subset), ceiling_});
    if (options_.team != nullptr) {
      LUCID_TRY(WorkInTeam());
    } else {
      std::vector<std::jthread> workers;
      for (int i = 1; i < options_.threads; ++i) workers.emplace_back([this] { Work(); });
      Work();
    }
    if (error_) return *error_;
    return Summary();
  }

 private:
  using InFlight = std::list<double>;  // the bounds of what is being worked on
  // A subset that is being solved or split.
  struct Job {
    Item item;
    InFlight::iterator ticket;
    bool finished = false;
  };
  using Outcome = Result<std::variant<SubsetBound, std::vector<Subset>>>;
  // What came of a subset, and the last place on the way to it.
  struct Record {
    Place place;
    bool split = false;
    SubsetBound bound;
  };

  // Takes the subset with the largest bound, solves or splits it, puts the outcome back.
  void Work() {
    std::unique_lock lock(mutex_);
    while (!done_ && !OutOfTime()) {
      std::optional<Job> job = Next();
      if (!job) {
        if (!done_) changed_.wait_for(lock, std::chrono::milliseconds(200));  // deadline and stop
        continue;
      }
      lock.unlock();
      Outcome outcome = Do(*job);
      lock.lock();
      Finish(*job, std::move(outcome));
      changed_.notify_all();
    }
    changed_.notify_all();
  }

  // The same by the processes of a team: the queue is here.
  Status WorkInTeam() {
    std::deque<Job> jobs;  // one for each task
    const auto job_of = [&](std::int64_t task) -> Job& {
      const std::scoped_lock lock(mutex_);
      return jobs[static_cast<std::size_t>(task)];
    };
    TeamTasks tasks;
    tasks.topic = options_.topic;
    tasks.more = [&] {
      const std::scoped_lock lock(mutex_);
      const auto lanes = static_cast<std::size_t>(options_.team->Lanes(options_.threads));
      while (!done_ && in_flight_.size() < lanes) {
        std::optional<Job> job = Next();
        if (!job) break;
        std::optional<SubsetBound> known;
        if (!job->item.solved && hooks_.known) known = hooks_.known(job->item.subset);
        if (known) {
          Finish(*job, Outcome(*known));
        } else {
          jobs.push_back(*std::move(job));
        }
      }
      return static_cast<std::int64_t>(jobs.size());
    };
    tasks.ask = [&](std::int64_t task, std::string& out) {
      const Item& item = job_of(task).item;
      SubsetTask{item.solved, hooks_.seconds(), item.subset}.Ask(out);
    };
    tasks.take = [&](std::int64_t task, ByteCursor& in) { return Take(job_of(task), in); };
    tasks.here = [&](std::int64_t task, int) {
      Job& job = job_of(task);
      Outcome outcome = Do(job);
      const std::scoped_lock lock(mutex_);
      Finish(job, std::move(outcome));
    };
    tasks.expired = [&] {
      const std::scoped_lock lock(mutex_);
      return done_ || OutOfTime();
    };
    const Result<bool> ran = options_.team->Run(tasks, options_.threads);
    if (!ran.ok()) return ran.error();
    // What nobody finished is bounded by what was known.
    for (Job& job : jobs) {
      if (!job.finished) Finish(job, Interrupted("dropped"));
    }
    if (done_) return Ok();
    const bool stopped = options_.team->stop().stop_requested();
    summary_.end =
        stopped ? SubsetSearchSummary::End::kStopped : SubsetSearchSummary::End::kDeadline;
    return Ok();
  }

  // An answer of another process. False: it is none.
  bool Take(Job& job, ByteCursor& in) {
    Outcome outcome = Interrupted("no answer");
    if (job.item.solved) {
      const SubsetTask asked{true, 0, job.item.subset};
      std::optional<std::vector<Subset>> parts = asked.TakeParts(in);
      if (!parts) return false;
      outcome = Outcome(*std::move(parts));
    } else {
      std::optional<SubsetBound> bound = SubsetTask::TakeBound(in);
      if (!bound) return false;
      const Status found = hooks_.found(job.item.subset, *bound);
      job.item.cut_short = !bound->complete;
      outcome = found.ok() ? Outcome(*std::move(bound)) : Outcome(found.error());
    }
    const std::scoped_lock lock(mutex_);
    Finish(job, std::move(outcome));
    return true;
  }

  // What is to be done next; nothing if that depends on what is in flight, or all is done.
  // Requires: the lock.
  std::optional<Job> Next() {
    if (queue_.empty() || IsFinal(queue_.top())) {
      // Everything else is bounded by this one. Others of the same bound may still come before it.
      const bool last = queue_.empty() ? in_flight_.empty() : InFlightBound() < queue_.top().bound;
      if (last) done_ = true;
      return std::nullopt;
    }
    if (queue_.top().cut_short) return std::nullopt;  // the time is all but over
    Job job{queue_.top(), {}};
    queue_.pop();
    job.ticket = in_flight_.insert(in_flight_.end(), job.item.bound);
    return job;
  }

  Outcome Do(const Job& job) {
    if (job.item.solved) {
      LUCID_ASSIGN(std::vector<Subset> parts, hooks_.split(job.item.subset));
      return Outcome(std::move(parts));
    }
    const auto improve = [&](double bound) {
      const std::scoped_lock lock(mutex_);
      *job.ticket = std::min(*job.ticket, bound);
      if (hooks_.report) hooks_.report(AnytimeBound(), solved_);
    };
    LUCID_ASSIGN(const SubsetBound solved, hooks_.solve(job.item.subset, improve));
    return Outcome(solved);
  }

  // Puts the outcome back into the queue. Requires: the lock.
  void Finish(Job& job, Outcome outcome) {
    job.finished = true;
    in_flight_.erase(job.ticket);
    Item& item = job.item;
    if (!outcome.ok()) {
      if (outcome.error().kind != ErrorKind::kInterrupted) {
        error_ = std::move(outcome).error();
        done_ = true;
      }
      queue_.push(std::move(item));  // still bounded by what was known
    } else if (auto* const parts = std::get_if<std::vector<Subset>>(&*outcome)) {
      records_.push_back({item.LastPlace(), /*split=*/true, {}});
      for (Subset& part : *parts) {
        queue_.push({std::move(part), item.bound, false, false, item.LastPlace()});
      }
    } else {
      SubsetBound& bound = std::get<SubsetBound>(*outcome);
      ++solved_;
      records_.push_back({item.LastPlace(), /*split=*/false, bound});
      item.before = item.LastPlace();
      item.bound = std::min(item.bound, bound.bound);  // what holds for the whole holds for a part
      item.solved = bound.complete;
      queue_.push(std::move(item));
    }
    if (hooks_.report) hooks_.report(AnytimeBound(), solved_);
  }

  // Nothing is to be gained from this subset any more.
  bool IsFinal(const Item& item) const {
    if (item.bound <= options_.enough) return true;
    return item.solved && (!options_.branch || item.subset.size() == 1);
  }

  double AnytimeBound() const {
    return queue_.empty() ? std::max(InFlightBound(), 0.0)
                          : std::max(InFlightBound(), queue_.top().bound);
  }
  double InFlightBound() const {
    return in_flight_.empty() ? -kInfinity : *std::ranges::max_element(in_flight_);
  }

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

  // One thread would have taken what comes before the subset that holds the bound up and came from
  // nothing that does not, and no more.
  SubsetSearchSummary Summary() {
    const bool solved = summary_.end == SubsetSearchSummary::End::kSolved;
    std::ranges::stable_sort(records_,
                             [](const Record& a, const Record& b) { return b.place < a.place; });
    for (const Record& record : records_) {
      if (solved && !queue_.empty() && record.place < queue_.top().place()) continue;
      if (record.split) {
        ++summary_.splits;
        continue;
      }
      const SubsetBound& bound = record.bound;
      ++summary_.solved;
      summary_.timed_out += bound.timed_out ? 1 : 0;
      summary_.nodes += bound.nodes;
      summary_.unproved += bound.unproved;
      if (bound.lower > summary_.lower) {
        summary_.lower = bound.lower;
        summary_.witness = bound.witness;
      }
    }
    summary_.bound = queue_.empty() ? 0 : queue_.top().bound;
    summary_.largest_open =
        queue_.empty() ? 0 : static_cast<std::int64_t>(queue_.top().subset.size());
    return summary_;
  }

  const SubsetSearchOptions& options_;
  const SubsetSearchHooks& hooks_;
  const double ceiling_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<Item> queue_;  // all below: under mutex_
  InFlight in_flight_;
  std::vector<Record> records_;
  std::int64_t solved_ = 0;
  bool done_ = false;
  std::optional<Error> error_;
  SubsetSearchSummary summary_;
};

// A set of members, in ascending order.
bool IsSubset(const Subset& subset) {
  return !subset.empty() &&
         std::ranges::adjacent_find(subset, std::greater_equal()) == subset.end();
}

template <class Io>
void Exchange(Io& io, Is<SubsetBound> auto& bound) {
  bool leaks = bound.witness.has_value();
  io(bound.bound, bound.complete, bound.timed_out, bound.nodes, bound.unproved, bound.lower, leaks);
  if constexpr (Io::kReads) {
    if (leaks) bound.witness.emplace();
  }
  if (!leaks) return;
  io.Numbers(bound.witness->x);
  io(bound.witness->member);
}

}  // namespace

void SubsetTask::Ask(std::string& out) const {
  BytesOut io(out);
  io(split, seconds);
  io.Numbers(subset);
}

bool SubsetTask::Read(ByteCursor& in, std::int64_t members) {
  BytesIn io(in);
  io(split, seconds);
  io.Numbers(subset);
  return io.ok() && IsSubset(subset) && subset.front() >= 0 && subset.back() < members;
}

void SubsetTask::Answer(const SubsetBound& bound, std::string& out) {
  BytesOut io(out);
  Exchange(io, bound);
}

void SubsetTask::Answer(const std::vector<Subset>& parts, std::string& out) {
  BytesOut io(out);
  io.Count(parts.size());
  for (const Subset& part : parts) io.Numbers(part);
}

std::optional<SubsetBound> SubsetTask::TakeBound(ByteCursor& in) {
  BytesIn io(in);
  SubsetBound bound;
  Exchange(io, bound);
  io.Require(!std::isnan(bound.bound) && !std::isnan(bound.lower));
  if (!io.ok()) return std::nullopt;
  return bound;
}

std::optional<std::vector<Subset>> SubsetTask::TakeParts(ByteCursor& in) const {
  BytesIn io(in);
  std::vector<Subset> parts(static_cast<std::size_t>(io.Count(0)));
  Subset all;
  for (Subset& part : parts) {
    io.Numbers(part);
    io.Require(IsSubset(part));
    all.insert(all.end(), part.begin(), part.end());
  }
  std::ranges::sort(all);
  io.Require(parts.size() >= 2 && all == subset);  // nothing twice, nothing lost
  if (!io.ok()) return std::nullopt;
  return parts;
}

Result<SubsetSearchSummary> SearchSubsets(std::vector<Subset> start, double ceiling,
                                          const SubsetSearchOptions& options,
                                          const SubsetSearchHooks& hooks) {
  return Search(ceiling, options, hooks).Run(std::move(start));
}

}  // namespace lucid
