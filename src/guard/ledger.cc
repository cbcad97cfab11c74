#include "lucid/guard/ledger.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "guard/database.h"

namespace lucid {
namespace {

constexpr DatabaseFormat kFormat{
    .kind = "ledger",
    .application = 0x4c75634c,  // "LucL"
    .version = 1,
    // Account 1, without a name, is the overall one. WITHOUT ROWID: the key is the whole row.
    .schema = R"(
      CREATE TABLE training_set (digest BLOB NOT NULL) STRICT;
      CREATE TABLE accounts (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        spent INTEGER NOT NULL CHECK (spent >= 0),
        answers INTEGER NOT NULL CHECK (answers >= 0)) STRICT;
      CREATE TABLE charges (
        account INTEGER NOT NULL REFERENCES accounts,
        answer BLOB NOT NULL CHECK (length(answer) = 16),
        PRIMARY KEY (account, answer)) STRICT, WITHOUT ROWID;
      INSERT INTO accounts VALUES (1, '', 0, 0);
    )"};
constexpr std::string_view kOverall;
constexpr std::size_t kLongestName = 255;

Result<double> Scaled(double epsilon) {
  if (epsilon >= 0 && epsilon <= EpsilonUnits::kLargest) {
    return std::ldexp(epsilon, EpsilonUnits::kBits);  // exact: a power of two
  }
  return InvalidInput(
      fmt::format("epsilon {}: must be between 0 and {}", epsilon, EpsilonUnits::kLargest));
}

// The population that the file belongs to: noted on first use. (The table has the name that it had
// when a population was always a training set.)
Status CheckPopulation(Database& database, const Digest& digest) {
  LUCID_ASSIGN(Statement find, database.Prepare("SELECT digest FROM training_set"));
  LUCID_ASSIGN(const bool noted, find.Step());
  if (noted) {
    if (std::ranges::equal(find.Bytes(0), digest.bytes)) return Ok();
    return Mismatch(
        fmt::format("'{}' is the ledger of another population: its budget is about other rows; "
                    "give this one a ledger of its own",
                    database.path()));
  }
  LUCID_ASSIGN(Statement note, database.Prepare("INSERT INTO training_set VALUES (?)"));
  return note.Bind(1, digest.bytes).Run();
}

}  // namespace

Result<EpsilonUnits> EpsilonUnits::RoundedUp(double epsilon) {
  LUCID_ASSIGN(const double scaled, Scaled(epsilon));
  return EpsilonUnits(static_cast<std::int64_t>(std::ceil(scaled)));
}
Result<EpsilonUnits> EpsilonUnits::RoundedDown(double epsilon) {
  LUCID_ASSIGN(const double scaled, Scaled(epsilon));
  return EpsilonUnits(static_cast<std::int64_t>(std::floor(scaled)));
}
double EpsilonUnits::epsilon() const { return std::ldexp(static_cast<double>(count_), -kBits); }

struct Ledger::Impl {
  // A row of `accounts`; id 0: not there yet.
  struct Account {
    std::int64_t id = 0, spent = 0, answers = 0;
    std::int64_t limit = std::numeric_limits<std::int64_t>::max();

    bool CanPay(EpsilonUnits cost) const { return spent <= limit - cost.count(); }
    Balance balance() const { return {EpsilonUnits(spent), answers}; }
  };
  // A request on its way through the queue.
  struct Charging {
    Request request;
    std::function<void(Outcome)> done;
    std::vector<Budget> budgets;
    Account account, overall;
  };

  Database database;
  Statement find_account, add_account, set_account, find_charge, add_charge, drop_charge;
  std::mt19937_64 decoys;  // names of decoys: no secret, only unlike any other name
  std::optional<EpsilonUnits> overall_budget;
  mutable std::mutex mutex;
  std::map<std::string, Balance, std::less<>> balances;  // as of the last commit
  std::optional<CommitQueue> queue;                      // last: it uses all of the above

  static Result<std::unique_ptr<Impl>> Open(const LedgerOptions& options);
  Status ReadBalances();

  Status Pay(Charging& charging);
  Status PayNothing();
  Result<Budget> PayOne(Charging& charging, const AnswerName& answer);
  void Publish(Charging& charging, const Status& committed);

  Result<Account> Find(std::string_view name, const std::optional<EpsilonUnits>& budget);
  Result<bool> IsCharged(const Account& account, const AnswerName& answer);
  Status Note(Account& account, const AnswerName& answer, EpsilonUnits cost, bool charge);
  Status Store(const Account& account);
};

Result<std::unique_ptr<Ledger::Impl>> Ledger::Impl::Open(const LedgerOptions& options) {
  LUCID_ASSIGN(Database database, Database::Open(options.path, kFormat));
  LUCID_TRY(CheckPopulation(database, options.population));
  LUCID_ASSIGN(Statement find_account,
               database.Prepare("SELECT id, spent, answers FROM accounts WHERE name = ?"));
  LUCID_ASSIGN(Statement add_account,
               database.Prepare("INSERT INTO accounts (name, spent, answers) VALUES (?, 0, 0) "
                                "RETURNING id"));
  LUCID_ASSIGN(Statement set_account,
               database.Prepare("UPDATE accounts SET spent = ?, answers = ? WHERE id = ?"));
  LUCID_ASSIGN(Statement find_charge,
               database.Prepare("SELECT 1 FROM charges WHERE account = ? AND answer = ?"));
  LUCID_ASSIGN(Statement add_charge, database.Prepare("INSERT INTO charges VALUES (?, ?)"));
  LUCID_ASSIGN(
      Statement drop_charge,
      database.Prepare("DELETE FROM charges WHERE account = ?1 AND answer = ?2 AND ?3 = 1"));
  auto impl = std::unique_ptr<Impl>(new Impl{.database = std::move(database),
                                             .find_account = std::move(find_account),
                                             .add_account = std::move(add_account),
                                             .set_account = std::move(set_account),
                                             .find_charge = std::move(find_charge),
                                             .add_charge = std::move(add_charge),
                                             .drop_charge = std::move(drop_charge),
                                             .decoys = std::mt19937_64(std::random_device()()),
                                             .overall_budget = options.overall_budget,
                                             .mutex = {},
                                             .balances = {},
                                             .queue = {}});
  LUCID_TRY(impl->ReadBalances());
  impl->queue.emplace(impl->database);
  return impl;
}

Status Ledger::Impl::ReadBalances() {
  LUCID_ASSIGN(Statement all, database.Prepare("SELECT name, spent, answers FROM accounts"));
  while (true) {
    LUCID_ASSIGN(const bool row, all.Step());
    if (!row) return Ok();
    balances[std::string(all.Text(0))] = {EpsilonUnits(all.Whole(1)), all.Whole(2)};
  }
}

// Makes the account if it is not there: whatever comes of the request, it asked.
Result<Ledger::Impl::Account> Ledger::Impl::Find(std::string_view name,
                                                 const std::optional<EpsilonUnits>& budget) {
  Account account;
  if (budget.has_value()) account.limit = budget->count();
  const Result<bool> there = find_account.Bind(1, name).Step();
  if (there.ok() && *there) {
    account.id = find_account.Whole(0);
    account.spent = find_account.Whole(1);
    account.answers = find_account.Whole(2);
  }
  find_account.Reset();
  LUCID_TRY(there);
  if (account.id == 0) {
    const Result<bool> added = add_account.Bind(1, name).Step();
    if (added.ok()) account.id = add_account.Whole(0);
    add_account.Reset();
    LUCID_TRY(added);
  }
  return account;
}

Result<bool> Ledger::Impl::IsCharged(const Account& account, const AnswerName& answer) {
  Result<bool> there = find_charge.Bind(1, account.id).Bind(2, answer).Step();
  find_charge.Reset();
  return there;
}

// One row goes in, and one deletion is tried, whether there is a charge or not: without one the row
// is a decoy that goes again, and the transaction has written the same pages. Requires: no charge
// that is there already.
Status Ledger::Impl::Note(Account& account, const AnswerName& answer, EpsilonUnits cost,
                          bool charge) {
  AnswerName decoy{};
  const std::uint64_t words[] = {decoys(), decoys()};
  static_assert(sizeof(words) == sizeof(decoy));
  std::memcpy(decoy.data(), words, sizeof(words));
  const AnswerName& name = charge ? answer : decoy;
  LUCID_TRY(add_charge.Bind(1, account.id).Bind(2, name).Run());
  LUCID_TRY(drop_charge.Bind(1, account.id).Bind(2, name).Bind(3, charge ? 0 : 1).Run());
  account.spent += charge ? cost.count() : 0;
  account.answers += charge ? 1 : 0;
  return Ok();
}

// Twice, because SQLite writes no page for values that are as they were.
Status Ledger::Impl::Store(const Account& account) {
  for (const std::int64_t more : {1, 0}) {
    LUCID_TRY(set_account.Bind(1, account.spent)
                  .Bind(2, account.answers + more)
                  .Bind(3, account.id)
                  .Run());
  }
  return Ok();
}

Result<Budget> Ledger::Impl::PayOne(Charging& charging, const AnswerName& answer) {
  auto& [request, done, budgets, account, overall] = charging;
  LUCID_ASSIGN(const bool known_to_account, IsCharged(account, answer));
  LUCID_ASSIGN(const bool known, IsCharged(overall, answer));
  const bool can_pay = account.CanPay(request.cost) && (known || overall.CanPay(request.cost));
  const bool charge = !known_to_account && can_pay;
  LUCID_TRY(Note(account, answer, request.cost, charge));
  LUCID_TRY(Note(overall, answer, request.cost, charge && !known));
  return known_to_account || can_pay ? Budget::kLeft : Budget::kSpent;
}

// The same steps whatever becomes of them, so that time tells nothing of it: whether the budget is
// spent, and whether another account has paid for this very answer.
Status Ledger::Impl::Pay(Charging& charging) {
  const Request& request = charging.request;
  LUCID_ASSIGN(charging.overall, Find(kOverall, overall_budget));
  LUCID_ASSIGN(charging.account, Find(request.account, request.budget));
  charging.budgets.clear();
  for (const AnswerName& answer : request.answers) {
    LUCID_ASSIGN(const Budget budget, PayOne(charging, answer));
    charging.budgets.push_back(budget);
  }
  LUCID_TRY(Store(charging.account));
  return Store(charging.overall);
}

Status Ledger::Impl::PayNothing() {
  LUCID_ASSIGN(Account overall, Find(kOverall, std::nullopt));
  for (int i = 0; i < 2; ++i) {  // as an account and the whole do
    LUCID_TRY(Note(overall, AnswerName{}, EpsilonUnits(), /*charge=*/false));
    LUCID_TRY(Store(overall));
  }
  return Ok();
}

void Ledger::Impl::Publish(Charging& charging, const Status& committed) {
  if (!committed.ok()) return charging.done(committed.error());
  {
    const std::lock_guard lock(mutex);
    balances[charging.request.account] = charging.account.balance();
    balances[std::string(kOverall)] = charging.overall.balance();
  }
  charging.done(std::move(charging.budgets));
}

Ledger::Ledger(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Ledger::~Ledger() = default;
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;

Result<Ledger> Ledger::Open(const LedgerOptions& options) {
  LUCID_ASSIGN(auto impl, Impl::Open(options));
  return Ledger(std::move(impl));
}

void Ledger::Charge(Request request, std::function<void(Outcome)> done) {
  if (request.account.empty() || request.account.size() > kLongestName) {
    return done(InvalidInput(fmt::format("ledger: an account's name has 1 to {} bytes, not {}",
                                         kLongestName, request.account.size())));
  }
  auto charging = std::make_shared<Impl::Charging>();
  charging->request = std::move(request);
  charging->done = std::move(done);
  Impl* const impl = impl_.get();
  impl->queue->Submit(
      {[impl, charging] { return impl->Pay(*charging); },
       [impl, charging](const Status& committed) { impl->Publish(*charging, committed); }});
}

void Ledger::Probe(std::function<void(const Status&)> done) {
  Impl* const impl = impl_.get();
  impl->queue->Submit({[impl] { return impl->PayNothing(); }, std::move(done)});
}

void Ledger::Settle() { impl_->queue->Settle(); }

Ledger::Outcome Ledger::Charge(Request request) {
  std::promise<Outcome> promise;
  Charge(std::move(request),
         [&promise](Outcome outcome) { promise.set_value(std::move(outcome)); });
  return promise.get_future().get();
}

Ledger::Totals Ledger::totals() const {
  const std::lock_guard lock(impl_->mutex);
  Totals totals{.overall = {}, .overall_budget = impl_->overall_budget, .accounts = {}};
  for (const auto& [name, balance] : impl_->balances) {
    if (name == kOverall) {
      totals.overall = balance;
    } else {
      totals.accounts.emplace_back(name, balance);
    }
  }
  return totals;
}

Ledger::Balance Ledger::BalanceOf(const std::string& account) const {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->balances.find(account);
  return found == impl_->balances.end() ? Balance{} : found->second;
}

}  // namespace lucid
