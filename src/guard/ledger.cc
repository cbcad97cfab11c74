#include "lucid/guard/ledger.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <unordered_map>
#include <utility>

#include "guard/database.h"
#include "guard/ledger_mark.h"
#include "guard/ledger_store.h"
#include "guard/sodium.h"

namespace lucid {
namespace {

constexpr std::size_t kLongestName = 255;
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

Result<double> Scaled(double epsilon) {
  if (epsilon >= 0 && epsilon <= EpsilonUnits::kLargest) {
    return std::ldexp(epsilon, EpsilonUnits::kBits);  // exact: a power of two
  }
  return InvalidInput(
      fmt::format("epsilon {}: must be between 0 and {}", epsilon, EpsilonUnits::kLargest));
}

LedgerName NewName() {
  LedgerName name{};
  randombytes_buf(name.data(), name.size());
  return name;
}

Result<std::unique_ptr<LedgerStore>> OpenStore(const std::string& location,
                                               const Digest& population) {
  return IsPostgres(location) ? OpenPostgresLedger(location, population)
                              : OpenSqliteLedger(location, population);
}

Status CheckNotMerged(const LedgerStore& store, const LedgerHead& head) {
  if (!head.merged_into) return Ok();
  return InvalidInput(fmt::format("{} is closed: it was merged into the ledger {}, which counts on",
                                  store.place(), HexOf(*head.merged_into)));
}

// Another key names the same answers anew: they would be charged again, and noised anew.
Status CheckKey(LedgerStore& store, const LedgerName& key) {
  LUCID_ASSIGN(const std::vector<LedgerName> keys, store.GuardKeys());
  if (keys.empty()) return store.AddGuardKey(key);  // of a version that noted none
  if (std::ranges::find(keys, key) != keys.end()) return Ok();
  return Mismatch(fmt::format(
      "{} was charged under the guard key {}, and this one is {}: bring that key here, or let this "
      "one in with lucid ledger allow",
      store.place(), HexOf(keys.front()), HexOf(key)));
}

// The server's name in the ledger, new or as of its mark, and what it committed so far. Errors: the
// ledger knows less of this server than its mark.
Result<LedgerMark::Entry> Register(LedgerStore& store, const LedgerHead& head,
                                   const LedgerMark& mark) {
  const std::optional<LedgerMark::Entry>& known = mark.entry();
  bool is_new = !known;
  if (known && known->ledger != head.id) {
    LUCID_ASSIGN(is_new, store.HasAbsorbed(known->ledger));
    if (!is_new) {
      return Mismatch(fmt::format(
          "{} is not the ledger that this server charged before (it is {}, and '{}' says {}): what "
          "was charged there would be forgotten; if that is right, remove '{}'",
          store.place(), HexOf(head.id), mark.path(), HexOf(known->ledger), mark.path()));
    }
  }
  if (is_new) {
    const LedgerMark::Entry entry{head.id, NewName(), 0};
    LUCID_TRY(store.AddServer(entry.server));
    return entry;
  }
  LUCID_ASSIGN(const auto servers, store.Servers());
  const auto found =
      std::ranges::find(servers, known->server, &std::pair<LedgerName, std::int64_t>::first);
  const std::int64_t commits = found == servers.end() ? 0 : found->second;
  if (found == servers.end() || commits < known->commits) {
    return Mismatch(fmt::format(
        "{} was rolled back: it knows {} commits of this server, which saw {}: bring the newest "
        "copy back; if there is none, lower the budgets by what may have been charged since, and "
        "remove '{}'",
        store.place(), commits, known->commits, mark.path()));
  }
  return LedgerMark::Entry{head.id, known->server, commits};
}

}  // namespace

bool IsPostgres(std::string_view location) {
  return location.starts_with("postgresql://") || location.starts_with("postgres://");
}

std::string HexOf(const LedgerName& name) {
  std::string text;
  for (const std::uint8_t byte : name) text += fmt::format("{:02x}", byte);
  return text;
}

LedgerName LedgerNameOf(std::span<const std::uint8_t> bytes) {
  LedgerName name{};
  std::ranges::copy(bytes.first(std::min(bytes.size(), name.size())), name.begin());
  return name;
}

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
  // A request on its way through the queue.
  struct Charging {
    Request request;
    std::function<void(Outcome)> done;
    std::vector<Budget> budgets;
  };
  // The requests of one transaction, and what it writes.
  struct Batch {
    std::vector<std::string> names = {std::string(kOverallAccount)};
    std::unordered_map<std::string, std::size_t> place_of;  // among the names
    std::vector<LedgerStore::Question> questions;
    LedgerStore::Found found;
    // What is charged by now, of what was asked about: by account.
    struct NameHash {
      std::size_t operator()(const AnswerName& name) const {
        std::size_t first = 0;  // a keyed hash or random: nobody chooses it
        std::memcpy(&first, name.data(), sizeof(first));
        return first;
      }
    };
    std::vector<std::unordered_map<AnswerName, bool, NameHash>> charged;
    std::vector<LedgerStore::Line> lines;
    std::vector<LedgerStore::Change> changes;  // by account
  };

  std::unique_ptr<LedgerStore> store;
  LedgerMark mark;
  LedgerMark::Entry self;  // this server, and its commits
  bool was_in_doubt = false;
  std::optional<Error> broken;  // what was found out about the ledger: nothing is charged any more
  std::mt19937_64 decoys;       // names of decoys: no secret, only unlike any other name
  std::optional<EpsilonUnits> overall_budget;
  std::vector<Charging*> waiting;  // those of the transaction that begins
  mutable std::mutex mutex;
  std::map<std::string, Balance, std::less<>> balances;  // as of the last commit
  std::optional<CommitQueue> queue;                      // last: it uses all of the above

  static Result<std::unique_ptr<Impl>> Open(const LedgerOptions& options);
  ~Impl() {
    queue.reset();
    if (store) static_cast<void>(mark.Write(self));
  }
  Status ReadBalances();

  Status PayAll();
  Status CheckUnbroken(const LedgerStore::Found& found);
  void Pay(Batch& batch, Charging& charging);
  Budget PayOne(Batch& batch, std::size_t account, const Request& request,
                const AnswerName& answer);
  void Note(Batch& batch, std::size_t account, const AnswerName& answer, EpsilonUnits cost,
            bool charge);
  Status Commit(Batch& batch);
};

Result<std::unique_ptr<Ledger::Impl>> Ledger::Impl::Open(const LedgerOptions& options) {
  LUCID_TRY(PrepareSodium());
  auto impl = std::make_unique<Impl>();
  impl->decoys.seed(std::random_device()());
  impl->overall_budget = options.overall_budget;
  LUCID_ASSIGN(auto store, OpenStore(options.location, options.population));
  LUCID_ASSIGN(const LedgerHead head, store->Head());
  LUCID_TRY(CheckNotMerged(*store, head));
  LUCID_TRY(CheckKey(*store, options.guard_key));
  if (!options.mark.empty()) {
    LUCID_ASSIGN(impl->mark, LedgerMark::Open(options.mark));
  }
  LUCID_ASSIGN(impl->self, Register(*store, head, impl->mark));
  LUCID_TRY(impl->mark.Write(impl->self));
  impl->store = std::move(store);
  LUCID_TRY(impl->PayAll());  // what cannot be written must not even start
  LUCID_TRY(impl->ReadBalances());
  impl->queue.emplace([impl = impl.get()](std::span<const CommitQueue::Job> jobs) -> Status {
    impl->waiting.clear();
    for (const CommitQueue::Job& job : jobs) LUCID_TRY(job.work());
    return impl->PayAll();
  });
  return impl;
}

Status Ledger::Impl::ReadBalances() {
  LUCID_ASSIGN(const auto accounts, store->Accounts());
  const std::lock_guard lock(mutex);
  for (const auto& [name, account] : accounts) {
    balances[name] = {EpsilonUnits(account.spent), account.answers};
  }
  return Ok();
}

// All that waits, in one transaction. The same steps whatever becomes of each answer, so that time
// tells nothing of it: whether the budget is spent, and whether another account has paid for this
// very answer.
Status Ledger::Impl::PayAll() {
  if (broken) return *broken;
  Batch batch;
  for (const Charging* charging : waiting) {
    const auto [at, is_new] =
        batch.place_of.try_emplace(charging->request.account, batch.names.size());
    if (is_new) batch.names.push_back(charging->request.account);
    for (const AnswerName& answer : charging->request.answers) {
      batch.questions.push_back({at->second, answer});
      batch.questions.push_back({0, answer});
    }
  }
  if (waiting.empty()) batch.questions.push_back({0, NewName()});  // a probe
  LUCID_ASSIGN(batch.found, store->Begin(self.server, batch.names, batch.questions));
  if (const Status sound = CheckUnbroken(batch.found); !sound.ok()) {
    store->RollBack();
    return sound;
  }
  batch.charged.resize(batch.names.size());
  for (std::size_t i = 0; i < batch.questions.size(); ++i) {
    const auto& [account, answer] = batch.questions[i];
    batch.charged[account][answer] = batch.found.charged[i];
  }
  for (const LedgerStore::Account& account : batch.found.accounts) {
    batch.changes.push_back({account.id, 0, 0, 0});
  }
  batch.changes[0].limit = overall_budget ? overall_budget->count() : kNoLimit;
  for (Charging* charging : waiting) Pay(batch, *charging);
  if (waiting.empty()) Note(batch, 0, AnswerName{}, EpsilonUnits(), /*charge=*/false);
  return Commit(batch);
}

// What this server committed is what the ledger says it did, or it is not the same ledger any more.
Status Ledger::Impl::CheckUnbroken(const LedgerStore::Found& found) {
  if (found.head.merged_into) {
    broken = CheckNotMerged(*store, found.head).error();
  } else if (found.head.id != self.ledger || found.commits <= self.commits) {
    broken = Mismatch(
        fmt::format("{} was rolled back while it was in use: it knows {} commits of this server, "
                    "which saw {}; nothing is answered until the newest copy is back and the "
                    "server is started anew",
                    store->place(), std::max<std::int64_t>(found.commits - 1, 0), self.commits));
  } else if (found.commits > self.commits + (was_in_doubt ? 2 : 1)) {
    broken = Mismatch(
        fmt::format("{}: another server uses the name of this one: each needs a mark of its own "
                    "(the option ledger_mark); start this one anew",
                    store->place()));
  }
  if (broken) return *broken;
  self.commits = found.commits - 1;  // now it is known whether the last one was
  was_in_doubt = false;
  return Ok();
}

void Ledger::Impl::Pay(Batch& batch, Charging& charging) {
  const Request& request = charging.request;
  const std::size_t account = batch.place_of.at(request.account);
  charging.budgets.clear();
  for (const AnswerName& answer : request.answers) {
    charging.budgets.push_back(PayOne(batch, account, request, answer));
  }
}

Budget Ledger::Impl::PayOne(Batch& batch, std::size_t account, const Request& request,
                            const AnswerName& answer) {
  const std::int64_t cost = request.cost.count();
  const auto can_pay = [&](std::size_t i, std::int64_t limit) {
    return batch.found.accounts[i].spent <= limit - cost;
  };
  const std::int64_t limit = request.budget ? request.budget->count() : kNoLimit;
  const bool known_to_account = batch.charged[account][answer];
  const bool known = batch.charged[0][answer];
  const bool own = can_pay(account, limit), whole = can_pay(0, batch.changes[0].limit);
  const bool affordable = own && (known || whole);
  const bool charge = !known_to_account && affordable;
  if (charge) {
    batch.changes[account].limit = std::max(batch.changes[account].limit, limit);
  }
  Note(batch, account, answer, request.cost, charge);
  Note(batch, 0, answer, request.cost, charge && !known);
  return known_to_account || affordable ? Budget::kLeft : Budget::kSpent;
}

// One row is written, whether there is a charge or not: without one it is a decoy.
void Ledger::Impl::Note(Batch& batch, std::size_t account, const AnswerName& answer,
                        EpsilonUnits cost, bool charge) {
  AnswerName decoy{};
  const std::uint64_t words[] = {decoys(), decoys()};
  static_assert(sizeof(words) == sizeof(decoy));
  std::memcpy(decoy.data(), words, sizeof(words));
  LedgerStore::Account& paying = batch.found.accounts[account];
  batch.lines.push_back({paying.id, charge ? answer : decoy, cost.count(), !charge});
  if (!charge) return;
  batch.charged[account][answer] = true;
  batch.changes[account].cost += cost.count();
  batch.changes[account].answers += 1;
  paying.spent += cost.count();
  paying.answers += 1;
}

Status Ledger::Impl::Commit(Batch& batch) {
  const Status committed = store->Finish(batch.lines, batch.changes, nullptr);
  was_in_doubt = !committed.ok() && store->in_doubt();
  if (!committed.ok()) return committed;
  self.commits = batch.found.commits;
  {
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < batch.names.size(); ++i) {
      const LedgerStore::Account& account = batch.found.accounts[i];
      balances[batch.names[i]] = {EpsilonUnits(account.spent), account.answers};
    }
  }
  mark.WriteNowAndThen(self);
  return Ok();
}

Ledger::Ledger(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Ledger::~Ledger() = default;
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;

Status Ledger::Create(const LedgerOptions& options) {
  LUCID_TRY(PrepareSodium());
  if (!options.mark.empty()) {
    LUCID_ASSIGN(const auto known, LedgerMark::Peek(options.mark));
    if (known) {
      return Mismatch(fmt::format(
          "'{}' says that a server with this guard key charged the ledger {}: use that one; if it "
          "is lost, what it counted is lost: remove '{}' to begin anew, with lower budgets",
          options.mark, HexOf(known->ledger), options.mark));
    }
  }
  return IsPostgres(options.location) ? CreatePostgresLedger(options, NewName())
                                      : CreateSqliteLedger(options, NewName());
}

Result<Ledger> Ledger::Open(const LedgerOptions& options) {
  LUCID_ASSIGN(auto impl, Impl::Open(options));
  return Ledger(std::move(impl));
}

Status Ledger::AllowKey(const LedgerOptions& options) {
  LUCID_ASSIGN(const auto store, OpenStore(options.location, options.population));
  return store->AddGuardKey(options.guard_key);
}

Result<LedgerView> Ledger::Look(const std::string& location, const Digest& population) {
  LUCID_ASSIGN(const auto store, OpenStore(location, population));
  LUCID_ASSIGN(const LedgerHead head, store->Head());
  LedgerView view{.id = head.id, .merged_into = head.merged_into};
  LUCID_ASSIGN(view.guard_keys, store->GuardKeys());
  LUCID_ASSIGN(view.servers, store->Servers());
  LUCID_ASSIGN(const auto accounts, store->Accounts());
  for (const auto& [name, account] : accounts) {
    if (name == kOverallAccount) {
      view.spent = EpsilonUnits(account.spent);
      view.answers = account.answers;
    } else {
      view.accounts.push_back({name, EpsilonUnits(account.spent), account.answers});
    }
  }
  return view;
}

namespace {

// All that a ledger has charged.
struct Contents {
  std::vector<std::pair<std::string, LedgerStore::Account>> accounts;
  std::vector<std::vector<LedgerStore::Charge>> charges;  // by account
};

Result<Contents> ReadAll(LedgerStore& store) {
  Contents contents;
  LUCID_ASSIGN(contents.accounts, store.Accounts());
  for (const auto& [name, account] : contents.accounts) {
    LUCID_ASSIGN(auto charges, store.Charges(account.id));
    contents.charges.push_back(std::move(charges));
  }
  return contents;
}

// A part of an account's charges, those that `into` has not. What it has is left as it is, so that
// this may be done again after it was stopped.
Status AbsorbSome(LedgerStore& into, const LedgerName& self, const std::string& account,
                  std::span<const LedgerStore::Charge> charges) {
  const std::string names[] = {account};
  std::vector<LedgerStore::Question> questions;
  for (const LedgerStore::Charge& charge : charges) questions.push_back({0, charge.answer});
  LUCID_ASSIGN(const LedgerStore::Found found, into.Begin(self, names, questions));
  LedgerStore::Change change{found.accounts[0].id, 0, 0, kNoLimit};
  std::vector<LedgerStore::Line> lines;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    if (found.charged[i]) continue;
    lines.push_back({change.account, charges[i].answer, charges[i].cost, /*decoy=*/false});
    change.cost += charges[i].cost;
    change.answers += 1;
  }
  return into.Finish(lines, {&change, 1}, nullptr);
}

// What the accounts paid beyond the costs of their charges: an old file does not know those. Notes,
// in the same transaction, that all of `from` is there.
Status AbsorbRest(LedgerStore& into, const LedgerName& self, const LedgerName& from,
                  const Contents& contents) {
  std::vector<std::string> names;
  for (const auto& [name, account] : contents.accounts) names.push_back(name);
  LUCID_ASSIGN(const LedgerStore::Found found, into.Begin(self, names, {}));
  std::vector<LedgerStore::Change> changes;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& [name, account] = contents.accounts[i];
    LedgerStore::Change change{found.accounts[i].id, account.spent,
                               account.answers - std::ssize(contents.charges[i]), kNoLimit};
    for (const LedgerStore::Charge& charge : contents.charges[i]) change.cost -= charge.cost;
    changes.push_back(change);
  }
  return into.Finish({}, changes, &from);
}

Status Absorb(LedgerStore& into, const LedgerName& from, const Contents& contents) {
  const LedgerName self = NewName();
  LUCID_TRY(into.AddServer(self));
  for (std::size_t i = 0; i < contents.accounts.size(); ++i) {
    std::span<const LedgerStore::Charge> left(contents.charges[i]);
    while (!left.empty()) {
      const std::size_t count = std::min(left.size(), CommitQueue::kMostAtOnce);
      LUCID_TRY(AbsorbSome(into, self, contents.accounts[i].first, left.first(count)));
      left = left.subspan(count);
    }
  }
  return AbsorbRest(into, self, from, contents);
}

}  // namespace

Status Ledger::Merge(const std::string& from, const std::string& into, const Digest& population) {
  LUCID_TRY(PrepareSodium());
  LUCID_ASSIGN(const auto source, OpenStore(from, population));
  LUCID_ASSIGN(const auto target, OpenStore(into, population));
  LUCID_ASSIGN(const LedgerHead source_head, source->Head());
  LUCID_ASSIGN(const LedgerHead target_head, target->Head());
  if (source_head.id == target_head.id) {
    return InvalidInput(fmt::format("{} and {} are one ledger", source->place(), target->place()));
  }
  LUCID_TRY(CheckNotMerged(*target, target_head));
  if (source_head.merged_into != target_head.id) LUCID_TRY(CheckNotMerged(*source, source_head));
  LUCID_TRY(source->MergeInto(target_head.id));  // first: from here on nobody charges it
  LUCID_ASSIGN(const bool done, target->HasAbsorbed(source_head.id));
  if (done) return Ok();
  LUCID_ASSIGN(const std::vector<LedgerName> keys, source->GuardKeys());
  for (const LedgerName& key : keys) LUCID_TRY(target->AddGuardKey(key));
  LUCID_ASSIGN(const Contents contents, ReadAll(*source));
  return Absorb(*target, source_head.id, contents);
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
  const std::size_t weight = std::max<std::size_t>(1, charging->request.answers.size());
  impl->queue->Submit({.work =
                           [impl, charging] {
                             impl->waiting.push_back(charging.get());
                             return Ok();
                           },
                       .done =
                           [charging](const Status& committed) {
                             if (!committed.ok()) return charging->done(committed.error());
                             charging->done(std::move(charging->budgets));
                           },
                       .weight = weight});
}

void Ledger::Probe(std::function<void(const Status&)> done) {
  Impl* const impl = impl_.get();
  impl->queue->Submit({.work = [] { return Ok(); },
                       .done =
                           [impl, done = std::move(done)](const Status& committed) {
                             if (committed.ok() && impl->store->shared()) {
                               static_cast<void>(impl->ReadBalances());
                             }
                             done(committed);
                           }});
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
    if (name == kOverallAccount) {
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
