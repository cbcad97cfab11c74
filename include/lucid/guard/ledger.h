// The privacy budget: what was paid so far, and whether another answer may be paid for.
//
// iDP composes: k answers at epsilon on distinct inputs cost k epsilon. The budget is about people,
// so a ledger belongs to a population (PopulationOf, lucid/promise/promise.h) and adds up over all
// models, epsilons and guards that serve it. What is paid for is an answer, named by 16 bytes:
// Guard::Fingerprint(x), which is another one for another model, noised set, mechanism or epsilon,
// or, with the dictionary memo, the entry's ticket (answer_memo.h), which is another one
// for every draw. The same answer again is free: it says nothing new. Whether it was noised does
// not matter: a charge that depended on the data would be a channel itself.
//
// Two budgets hold at once: the account's (an API key's id), which every answer new to this account
// draws on, and the overall one, which every answer new to all of them draws on (clients that
// collude learn nothing from a second copy).
//
// A charge takes the same steps whatever becomes of it, so that how long it takes tells nobody
// whether a budget is spent, or what other accounts have paid for.
//
// Amounts are whole multiples of 2^-40, costs rounded up and budgets down: no sum drifts.
//
// A ledger is a SQLite file, which one process has for itself, or it is kept by a PostgreSQL
// server, where any number of replicas charge it. A ledger is made once, by Create, and never
// because it is missing: a budget that begins again is a promise that is broken. So that a restored
// copy is noticed, a server counts its commits twice: in the ledger, and in a file of its own, its
// mark.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/guard/guard.h"

namespace lucid {

using AnswerName = std::array<std::uint8_t, 16>;

// An amount of epsilon, exactly.
class EpsilonUnits {
 public:
  static constexpr int kBits = 40;             // a unit is 2^-40
  static constexpr double kLargest = 1 << 20;  // the largest epsilon it is made from
  // Errors: negative, NaN, above kLargest.
  static Result<EpsilonUnits> RoundedUp(double epsilon);    // for costs
  static Result<EpsilonUnits> RoundedDown(double epsilon);  // for budgets

  EpsilonUnits() = default;
  explicit EpsilonUnits(std::int64_t count) : count_(count) {}
  std::int64_t count() const { return count_; }
  double epsilon() const;                                 // nearest double
  auto operator<=>(const EpsilonUnits&) const = default;  // NOLINT(modernize-use-nullptr)

 private:
  std::int64_t count_ = 0;
};

// 16 bytes that name a ledger, a server that charges one, or a guard's key (GuardKey::Name).
using LedgerName = std::array<std::uint8_t, 16>;

struct LedgerOptions {
  // A SQLite file, or "postgresql://USER@HOST:PORT/DATABASE" as libpq reads it, without a password:
  // that belongs into a file (~/.pgpass, PGPASSFILE), where no list of processes shows it.
  std::string location;
  Digest population;                           // of the run that is served
  LedgerName guard_key{};                      // whose answers are charged (GuardKey::Name)
  std::optional<EpsilonUnits> overall_budget;  // none: only accounts are limited
  std::string mark;                            // file; empty: no restored copy is noticed
};

// What an operator is shown of a ledger.
struct LedgerView {
  LedgerName id{};
  std::optional<LedgerName> merged_into;  // it is closed
  std::vector<LedgerName> guard_keys;
  std::vector<std::pair<LedgerName, std::int64_t>> servers;  // and how often each committed
  EpsilonUnits spent;                                        // of all accounts together
  std::int64_t answers = 0;
  struct Account {
    std::string name;
    EpsilonUnits spent;
    std::int64_t answers = 0;
  };
  std::vector<Account> accounts;  // by name
};

class Ledger {
 public:
  struct Request {
    std::string account;  // at most 255 bytes, not empty
    std::optional<EpsilonUnits>
        budget;                       // the account's, as it is today; none: only the overall one
    EpsilonUnits cost;                // of each new answer: the claimed epsilon, rounded up
    std::vector<AnswerName> answers;  // paid for in this order; one that is there twice, once
  };
  // Per answer of the request: kLeft: it is paid for (now or earlier). kSpent: it is not, and the
  // answer must be drawn at epsilon 0.
  using Outcome = Result<std::vector<Budget>>;

  // Makes a new one. Errors: there is one already; the mark says that there was one.
  static Status Create(const LedgerOptions& options);
  // Errors: kInvalidInput: there is none, or it was merged into another; kMismatch: of another
  // population; charged under other guard keys only; not what the mark saw last, so that charges
  // would be forgotten; anything else is the file's or the server's.
  static Result<Ledger> Open(const LedgerOptions& options);
  // Answers of options.guard_key, too, may be charged to it from here on.
  static Status AllowKey(const LedgerOptions& options);
  static Result<LedgerView> Look(const std::string& location, const Digest& population);
  // Closes the ledger `from` and adds its charges to `into`, one that is in both once. May be
  // called again after it was stopped; until it has ended `into` has some of them. Both are of this
  // population.
  static Status Merge(const std::string& from, const std::string& into, const Digest& population);

  ~Ledger();  // finishes what waits
  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) noexcept;

  // Thread-safe, returns at once. `done` is called on the ledger's own thread (make it short: post
  // to your own executor) after the charge is on disk. After an error (no space, damaged file)
  // nothing was charged and nothing may be answered; a later request tries again.
  // All requests that wait together share one sync. `done` must not end the ledger's life.
  // Errors: kInvalidInput: the account's name; anything else is the file's.
  void Charge(Request request, std::function<void(Outcome)> done);
  // Does the same and waits for the commit.
  Outcome Charge(Request request);
  // Writes as much as a request for one answer and charges nothing: could one be paid for now?
  // Otherwise as Charge. Reads what other servers have charged for totals().
  void Probe(std::function<void(const Status&)> done);
  // Waits until every `done` has returned, and what it held is gone: from here on nothing that it
  // called is used by the ledger's thread. Not within a `done`.
  void Settle();

  struct Balance {
    EpsilonUnits spent;
    std::int64_t answers = 0;
  };
  struct Totals {
    Balance overall;
    std::optional<EpsilonUnits> overall_budget;
    std::vector<std::pair<std::string, Balance>> accounts;  // by name
  };
  // The state after the last commit; what other servers have charged, as of the last charge to the
  // same account or the last Probe. It is for operators only. Thread-safe and cheap, because it is
  // kept in memory.
  Totals totals() const;
  Balance BalanceOf(const std::string& account) const;

 private:
  struct Impl;
  explicit Ledger(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lucid
