#include "serve/labeller.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

namespace lucid {
namespace {

// Whatever is wrong with a file of ours is not the client's doing, and not the client's to know.
Error Unavailable(const Error& error) { return IoError(error.message); }

// Takes rows that are there already out of `rows`. Result: which of those that are left each row
// was. By sorting: a hash table's time would be the sender's to choose.
std::vector<std::size_t> RemoveRepetitions(std::vector<float>& rows, std::size_t features) {
  const std::size_t count = rows.size() / features;
  const auto row = [&](std::size_t i) { return rows.data() + i * features; };
  const auto compare = [&](std::size_t a, std::size_t b) {
    return std::memcmp(row(a), row(b), features * sizeof(float));
  };
  std::vector<std::size_t> order(count), first(count), which(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return compare(a, b) < 0; });
  for (std::size_t k = 0; k < count; ++k) {
    const bool same = k > 0 && compare(order[k - 1], order[k]) == 0;
    first[order[k]] = same ? first[order[k - 1]] : order[k];
  }
  std::size_t left = 0;
  for (std::size_t i = 0; i < count; ++i) {
    which[i] = first[i] == i ? left : which[first[i]];
    if (first[i] == i) std::copy_n(row(i), features, row(left++));
  }
  rows.resize(left * features);
  return which;
}

}  // namespace

struct GuardLabeller::Job {
  Client client;
  std::vector<float> rows;         // canonical, each once
  std::vector<std::size_t> which;  // of each row that was asked, the one it is in `rows`
  Done done;
  std::vector<AnswerName> names = {};       // what the ledger charges: fingerprints, or tickets
  std::vector<MemoEntry> entries = {};      // empty: stateless
  std::vector<Budget> budgets = {};         // empty: epsilon is 0, which needs none
  std::optional<Error> failure = {};        // of the memo or the ledger
  std::vector<GuardedAnswer> answers = {};  // of the first distinct rows
};

GuardLabeller::GuardLabeller(std::shared_ptr<const Guard> guard, std::shared_ptr<Ledger> ledger,
                             std::shared_ptr<AnswerMemo> memo, EpsilonUnits cost, FairQueue& queue)
    : guard_(std::move(guard)),
      ledger_(std::move(ledger)),
      memo_(std::move(memo)),
      cost_(cost),
      queue_(queue) {}

Result<std::shared_ptr<const GuardLabeller>> GuardLabeller::Create(
    std::shared_ptr<const Guard> guard, std::shared_ptr<Ledger> ledger,
    std::shared_ptr<AnswerMemo> memo, FairQueue& queue) {
  const double epsilon = guard->options().epsilon;
  LUCID_ASSIGN(const EpsilonUnits cost, EpsilonUnits::RoundedUp(epsilon));
  const bool declared = guard->certificate() == nullptr;  // `full`: answers are post-processing
  if (cost.count() > 0 && ledger == nullptr && !declared) {
    return InvalidInput(
        fmt::format("epsilon {}: above 0 every answer must be charged to a ledger", epsilon));
  }
  if (cost.count() == 0) ledger = nullptr;  // composition is free
  return std::shared_ptr<const GuardLabeller>(
      new GuardLabeller(std::move(guard), std::move(ledger), std::move(memo), cost, queue));
}

void GuardLabeller::Label(const Client& client, std::vector<float> rows, Done done) const {
  const auto features = static_cast<std::size_t>(guard_->features());
  const std::size_t count = rows.size() / features;
  for (std::size_t i = 0; i < count; ++i) {
    const Status status = guard_->Canonicalize(std::span(rows).subspan(i * features, features));
    if (!status.ok()) {
      const std::string& what = status.error().message;
      return done(Error{status.error().kind, fmt::format("row {}: {}", i, what)});
    }
  }
  std::vector<std::size_t> which = RemoveRepetitions(rows, features);
  auto job = std::make_shared<Job>(Job{client, std::move(rows), std::move(which), std::move(done)});
  if (ledger_ == nullptr && memo_ == nullptr) return PostAnswer(std::move(job));
  const std::span<const float> distinct(job->rows);
  for (std::size_t at = 0; at < distinct.size(); at += features) {
    job->names.push_back(guard_->Fingerprint(distinct.subspan(at, features)));
  }
  Recall(std::move(job));
}

void GuardLabeller::Probe(std::function<void(bool)> done) const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::int64_t second = std::chrono::floor<std::chrono::seconds>(now).count();
  if (ledger_ == nullptr || last_probe_.exchange(second) == second) return done(can_pay_);
  ledger_->Probe([self = shared_from_this(), done = std::move(done)](const Status& written) {
    self->can_pay_ = written.ok();
    done(written.ok());
  });
}

void GuardLabeller::Recall(std::shared_ptr<Job> job) const {
  if (memo_ == nullptr) return Charge(std::move(job));
  memo_->Recall(job->names, [self = shared_from_this(), job](AnswerMemo::Outcome entries) {
    if (!entries.ok()) {
      job->failure = Unavailable(entries.error());
      return self->PostAnswer(job);
    }
    job->entries = *std::move(entries);
    for (std::size_t i = 0; i < job->names.size(); ++i) job->names[i] = job->entries[i].ticket;
    self->Charge(job);
  });
}

void GuardLabeller::Charge(std::shared_ptr<Job> job) const {
  if (ledger_ == nullptr) return PostAnswer(std::move(job));
  Ledger::Request request{job->client.account, job->client.budget, cost_, job->names};
  ledger_->Charge(std::move(request), [self = shared_from_this(),
                                       job = std::move(job)](Ledger::Outcome budgets) mutable {
    if (budgets.ok()) {
      job->budgets = *std::move(budgets);
    } else {
      job->failure = Unavailable(budgets.error());
    }
    self->PostAnswer(std::move(job));  // nothing of it stays on this thread
  });
}

void GuardLabeller::PostAnswer(std::shared_ptr<Job> job) const {
  const std::string sender = job->client.sender;
  queue_.Submit(sender, [self = shared_from_this(), job = std::move(job)]() mutable {
    job->failure ? job->done(*std::move(job->failure)) : self->Answer(std::move(job));
  });
}

void GuardLabeller::Answer(std::shared_ptr<Job> job) const {
  const auto features = static_cast<std::size_t>(guard_->features());
  const std::span<const float> rows(job->rows);
  const auto end = FairQueue::Clock::now() + FairQueue::kSlice;
  for (std::size_t i = job->answers.size(); i * features < rows.size(); ++i) {
    const auto row = rows.subspan(i * features, features);
    const Budget budget = job->budgets.empty() ? Budget::kLeft : job->budgets[i];
    job->answers.push_back(job->entries.empty()
                               ? guard_->Ask(row, budget)
                               : guard_->Ask(row, budget, job->entries[i].For(budget)));
    const bool last = job->answers.size() * features == rows.size();
    if (!last && FairQueue::Clock::now() >= end) return PostAnswer(std::move(job));
  }
  Labels labels;
  for (const std::size_t i : job->which) {
    labels.labels.push_back(job->answers[i].label);
    labels.noised += job->answers[i].noised ? 1 : 0;
  }
  job->done(std::move(labels));
}

}  // namespace lucid
