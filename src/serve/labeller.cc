#include "serve/labeller.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <span>
#include <utility>

namespace lucid {
namespace {

// Whatever is wrong with a file of ours is not the client's doing, and not the client's to know.
Error Unavailable(const Error& error) { return IoError(error.message); }

}  // namespace

struct GuardLabeller::Job {
  Client client;
  std::vector<float> rows;  // canonical
  boost::asio::any_io_executor executor;
  Done done;
  std::vector<AnswerName> names = {};   // what the ledger charges: fingerprints, or tickets
  std::vector<MemoEntry> entries = {};  // empty: stateless
  std::vector<Budget> budgets = {};     // empty: epsilon is 0, which needs none
  std::optional<Error> failure = {};    // of the memo or the ledger
};

GuardLabeller::GuardLabeller(std::shared_ptr<const Guard> guard, std::shared_ptr<Ledger> ledger,
                             std::shared_ptr<AnswerMemo> memo, EpsilonUnits cost)
    : guard_(std::move(guard)), ledger_(std::move(ledger)), memo_(std::move(memo)), cost_(cost) {}

Result<std::shared_ptr<const GuardLabeller>> GuardLabeller::Create(
    std::shared_ptr<const Guard> guard, std::shared_ptr<Ledger> ledger,
    std::shared_ptr<AnswerMemo> memo) {
  const double epsilon = guard->options().epsilon;
  LUCID_ASSIGN(const EpsilonUnits cost, EpsilonUnits::RoundedUp(epsilon));
  const bool declared = guard->certificate() == nullptr;  // `full`: answers are post-processing
  if (cost.count() > 0 && ledger == nullptr && !declared) {
    return InvalidInput(
        fmt::format("epsilon {}: above 0 every answer must be charged to a ledger", epsilon));
  }
  if (cost.count() == 0) ledger = nullptr;  // composition is free
  return std::shared_ptr<const GuardLabeller>(
      new GuardLabeller(std::move(guard), std::move(ledger), std::move(memo), cost));
}

void GuardLabeller::Label(const Client& client, std::vector<float> rows,
                          const boost::asio::any_io_executor& executor, Done done) const {
  const auto features = static_cast<std::size_t>(guard_->features());
  const std::size_t count = rows.size() / features;
  for (std::size_t i = 0; i < count; ++i) {
    const Status status = guard_->Canonicalize(std::span(rows).subspan(i * features, features));
    if (!status.ok()) {
      const std::string& what = status.error().message;
      return done(Error{status.error().kind, fmt::format("row {}: {}", i, what)});
    }
  }
  Job asked{client, std::move(rows), executor, std::move(done)};
  if (ledger_ == nullptr && memo_ == nullptr) return Answer(asked);
  asked.names.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    asked.names.push_back(
        guard_->Fingerprint(std::span<const float>(asked.rows).subspan(i * features, features)));
  }
  Recall(std::make_shared<Job>(std::move(asked)));
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
  const boost::asio::any_io_executor executor = job->executor;
  boost::asio::post(executor, [self = shared_from_this(), job = std::move(job)] {
    job->failure ? job->done(*std::move(job->failure)) : self->Answer(*job);
  });
}

void GuardLabeller::Answer(const Job& job) const {
  const auto features = static_cast<std::size_t>(guard_->features());
  Labels labels;
  for (std::size_t i = 0; i * features < job.rows.size(); ++i) {
    const auto row = std::span<const float>(job.rows).subspan(i * features, features);
    const Budget budget = job.budgets.empty() ? Budget::kLeft : job.budgets[i];
    const GuardedAnswer answer = job.entries.empty()
                                     ? guard_->Ask(row, budget)
                                     : guard_->Ask(row, budget, job.entries[i].For(budget));
    labels.labels.push_back(answer.label);
    labels.noised += answer.noised ? 1 : 0;
  }
  job.done(std::move(labels));
}

}  // namespace lucid
