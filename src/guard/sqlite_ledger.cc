// A ledger in a SQLite file of this process alone.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "guard/database.h"
#include "guard/ledger_store.h"

namespace lucid {
namespace {

// The account without a name is the overall one. WITHOUT ROWID: the key is the whole row.
constexpr std::string_view kCharges = R"(
      CREATE TABLE accounts (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        spent INTEGER NOT NULL CHECK (spent >= 0),
        answers INTEGER NOT NULL CHECK (answers >= 0)) STRICT;
      CREATE TABLE charges (
        account INTEGER NOT NULL REFERENCES accounts,
        answer BLOB NOT NULL CHECK (length(answer) = 16),
        cost INTEGER NOT NULL CHECK (cost >= 0),
        PRIMARY KEY (account, answer)) STRICT, WITHOUT ROWID;
    )";
constexpr std::string_view kIdentity = R"(
      CREATE TABLE ledger (
        id BLOB NOT NULL CHECK (length(id) = 16),
        population BLOB NOT NULL CHECK (length(population) = 32),
        merged_into BLOB) STRICT;
      CREATE TABLE guard_keys (
        name BLOB PRIMARY KEY CHECK (length(name) = 16)) STRICT, WITHOUT ROWID;
      CREATE TABLE servers (
        name BLOB PRIMARY KEY CHECK (length(name) = 16),
        commits INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE absorbed (
        ledger BLOB PRIMARY KEY CHECK (length(ledger) = 16)) STRICT, WITHOUT ROWID;
    )";
// Version 1 knew no costs of single charges (an account's sum is there), and had no name. Its guard
// key is the one that it is opened with next.
constexpr std::string_view kFromVersion1 = R"(
      ALTER TABLE charges ADD COLUMN cost INTEGER NOT NULL DEFAULT 0 CHECK (cost >= 0);
      INSERT INTO ledger SELECT randomblob(16), digest, NULL FROM training_set;
      DROP TABLE training_set;
    )";

constexpr DatabaseFormat FormatWith(std::string_view schema, std::string_view upgrade) {
  return {.kind = "ledger",
          .application = 0x4c75634c,  // "LucL"
          .version = 2,
          .schema = schema,
          .how = ": lucid ledger init makes one, with nothing spent",
          .upgrade = upgrade};
}

template <typename Bytes>
std::string Literal(const Bytes& bytes) {
  std::string text = "x'";
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text + "'";
}

class SqliteLedger : public LedgerStore {
 public:
  static Result<std::unique_ptr<LedgerStore>> Open(Database database, const Digest& population);

  Result<Found> Begin(const LedgerName& server, std::span<const std::string> names,
                      std::span<const Question> questions) override;
  Status Finish(std::span<const Line> lines, std::span<const Change> changes,
                const LedgerName* absorbed) override;
  void RollBack() override { database_.RollBack(); }
  bool in_doubt() const override { return false; }
  bool shared() const override { return false; }
  std::string place() const override { return fmt::format("'{}'", database_.path()); }

  Result<LedgerHead> Head() override;
  Result<std::vector<LedgerName>> GuardKeys() override;
  Status AddGuardKey(const LedgerName& key) override;
  Result<std::vector<std::pair<LedgerName, std::int64_t>>> Servers() override;
  Status AddServer(const LedgerName& server) override;
  Result<bool> HasAbsorbed(const LedgerName& ledger) override;
  Status MergeInto(const LedgerName& ledger) override;
  Result<std::vector<std::pair<std::string, Account>>> Accounts() override;
  Result<std::vector<Charge>> Charges(std::int64_t account) override;

 private:
  struct Statements {
    Statement head, count_commit, find_account, add_account, touch_account, charge_account;
    Statement find_charge, add_charge, drop_charge;
  };
  SqliteLedger(Database database, Statements statements)
      : database_(std::move(database)), do_(std::move(statements)) {}

  Result<Found> Find(const LedgerName& server, std::span<const std::string> names,
                     std::span<const Question> questions);
  Status Write(std::span<const Line> lines, std::span<const Change> changes,
               const LedgerName* absorbed);
  Result<Account> FindAccount(std::string_view name);
  Status RunWith(std::string_view sql, const LedgerName& name);

  Database database_;
  Statements do_;  // ends before the database
};

Result<Digest> PopulationIn(Database& database) {
  LUCID_ASSIGN(Statement find, database.Prepare("SELECT population FROM ledger"));
  LUCID_ASSIGN(const bool row, find.Step());
  Digest digest;
  if (!row) {
    return InvalidInput(fmt::format("'{}' is damaged: it has no population", database.path()));
  }
  std::ranges::copy(find.Bytes(0), digest.bytes.begin());
  return digest;
}

Result<std::unique_ptr<LedgerStore>> SqliteLedger::Open(Database database,
                                                        const Digest& population) {
  LUCID_ASSIGN(const Digest its, PopulationIn(database));
  if (its != population) {
    return Mismatch(
        fmt::format("'{}' is the ledger of another population: its budget is about other rows; "
                    "give this one a ledger of its own",
                    database.path()));
  }
  LUCID_ASSIGN(Statement head, database.Prepare("SELECT id, merged_into FROM ledger"));
  LUCID_ASSIGN(Statement count_commit,
               database.Prepare("UPDATE servers SET commits = commits + 1 WHERE name = ? "
                                "RETURNING commits"));
  LUCID_ASSIGN(Statement find_account,
               database.Prepare("SELECT id, spent, answers FROM accounts WHERE name = ?"));
  LUCID_ASSIGN(Statement add_account,
               database.Prepare("INSERT INTO accounts (name, spent, answers) VALUES (?, 0, 0) "
                                "RETURNING id"));
  // Twice, because SQLite writes no page for values that are as they were.
  LUCID_ASSIGN(Statement touch_account,
               database.Prepare("UPDATE accounts SET answers = answers + 1 WHERE id = ?"));
  LUCID_ASSIGN(
      Statement charge_account,
      database.Prepare("UPDATE accounts SET spent = spent + ?2, answers = answers - 1 + ?3 "
                       "WHERE id = ?1 AND (?2 = 0 OR spent + ?2 <= ?4)"));
  LUCID_ASSIGN(Statement find_charge,
               database.Prepare("SELECT 1 FROM charges WHERE account = ? AND answer = ?"));
  LUCID_ASSIGN(Statement add_charge,
               database.Prepare("INSERT INTO charges VALUES (?, ?, ?) ON CONFLICT DO NOTHING"));
  LUCID_ASSIGN(
      Statement drop_charge,
      database.Prepare("DELETE FROM charges WHERE account = ?1 AND answer = ?2 AND ?3 = 1"));
  Statements statements{std::move(head),        std::move(count_commit),  std::move(find_account),
                        std::move(add_account), std::move(touch_account), std::move(charge_account),
                        std::move(find_charge), std::move(add_charge),    std::move(drop_charge)};
  return std::unique_ptr<LedgerStore>(new SqliteLedger(std::move(database), std::move(statements)));
}

Result<LedgerHead> SqliteLedger::Head() {
  const Result<bool> row = do_.head.Step();
  LedgerHead head;
  if (row.ok() && *row) {
    head.id = LedgerNameOf(do_.head.Bytes(0));
    if (!do_.head.Bytes(1).empty()) head.merged_into = LedgerNameOf(do_.head.Bytes(1));
  }
  do_.head.Reset();
  LUCID_TRY(row);
  return head;
}

Result<LedgerStore::Account> SqliteLedger::FindAccount(std::string_view name) {
  Account account;
  const Result<bool> there = do_.find_account.Bind(1, name).Step();
  if (there.ok() && *there) {
    account = {do_.find_account.Whole(0), do_.find_account.Whole(1), do_.find_account.Whole(2)};
  }
  do_.find_account.Reset();
  LUCID_TRY(there);
  if (*there) return account;
  const Result<bool> added = do_.add_account.Bind(1, name).Step();
  if (added.ok()) account.id = do_.add_account.Whole(0);
  do_.add_account.Reset();
  LUCID_TRY(added);
  return account;
}

Result<LedgerStore::Found> SqliteLedger::Begin(const LedgerName& server,
                                               std::span<const std::string> names,
                                               std::span<const Question> questions) {
  LUCID_TRY(database_.Execute("BEGIN IMMEDIATE"));
  Result<Found> found = Find(server, names, questions);
  if (!found.ok()) database_.RollBack();
  return found;
}

Result<LedgerStore::Found> SqliteLedger::Find(const LedgerName& server,
                                              std::span<const std::string> names,
                                              std::span<const Question> questions) {
  Found found;
  LUCID_ASSIGN(found.head, Head());
  const Result<bool> counted = do_.count_commit.Bind(1, server).Step();
  if (counted.ok() && *counted) found.commits = do_.count_commit.Whole(0);
  do_.count_commit.Reset();
  LUCID_TRY(counted);
  for (const std::string& name : names) {
    LUCID_ASSIGN(const Account account, FindAccount(name));
    found.accounts.push_back(account);
  }
  for (const auto& [account, answer] : questions) {
    const Result<bool> there =
        do_.find_charge.Bind(1, found.accounts[account].id).Bind(2, answer).Step();
    do_.find_charge.Reset();
    LUCID_TRY(there);
    found.charged.push_back(*there);
  }
  return found;
}

Status SqliteLedger::Finish(std::span<const Line> lines, std::span<const Change> changes,
                            const LedgerName* absorbed) {
  Status status = Write(lines, changes, absorbed);
  if (status.ok()) status = database_.Execute("COMMIT");
  if (!status.ok()) database_.RollBack();
  return status;
}

// One row goes in, and one deletion is tried, for a charge as for a decoy: the transaction writes
// the same pages.
Status SqliteLedger::Write(std::span<const Line> lines, std::span<const Change> changes,
                           const LedgerName* absorbed) {
  const auto must_be_one = [this]() -> Status {
    if (database_.Changes() == 1) return Ok();
    return InternalError(fmt::format("{}: a charge does not fit to what was read", place()));
  };
  for (const Line& line : lines) {
    LUCID_TRY(do_.add_charge.Bind(1, line.account).Bind(2, line.answer).Bind(3, line.cost).Run());
    LUCID_TRY(must_be_one());
    LUCID_TRY(do_.drop_charge.Bind(1, line.account)
                  .Bind(2, line.answer)
                  .Bind(3, static_cast<std::int64_t>(line.decoy ? 1 : 0))
                  .Run());
  }
  for (const Change& change : changes) {
    LUCID_TRY(do_.touch_account.Bind(1, change.account).Run());
    LUCID_TRY(do_.charge_account.Bind(1, change.account)
                  .Bind(2, change.cost)
                  .Bind(3, change.answers)
                  .Bind(4, change.limit)
                  .Run());
    LUCID_TRY(must_be_one());
  }
  if (absorbed == nullptr) return Ok();
  return RunWith("INSERT INTO absorbed VALUES (?)", *absorbed);
}

Status SqliteLedger::RunWith(std::string_view sql, const LedgerName& name) {
  LUCID_ASSIGN(Statement statement, database_.Prepare(sql));
  return statement.Bind(1, name).Run();
}

Result<std::vector<LedgerName>> SqliteLedger::GuardKeys() {
  std::vector<LedgerName> keys;
  LUCID_ASSIGN(Statement all, database_.Prepare("SELECT name FROM guard_keys ORDER BY name"));
  while (true) {
    LUCID_ASSIGN(const bool row, all.Step());
    if (!row) return keys;
    keys.push_back(LedgerNameOf(all.Bytes(0)));
  }
}

Status SqliteLedger::AddGuardKey(const LedgerName& key) {
  return RunWith("INSERT INTO guard_keys VALUES (?) ON CONFLICT DO NOTHING", key);
}

Result<std::vector<std::pair<LedgerName, std::int64_t>>> SqliteLedger::Servers() {
  std::vector<std::pair<LedgerName, std::int64_t>> servers;
  LUCID_ASSIGN(Statement all, database_.Prepare("SELECT name, commits FROM servers ORDER BY name"));
  while (true) {
    LUCID_ASSIGN(const bool row, all.Step());
    if (!row) return servers;
    servers.emplace_back(LedgerNameOf(all.Bytes(0)), all.Whole(1));
  }
}

Status SqliteLedger::AddServer(const LedgerName& server) {
  return RunWith("INSERT INTO servers VALUES (?, 0)", server);
}

Result<bool> SqliteLedger::HasAbsorbed(const LedgerName& ledger) {
  LUCID_ASSIGN(Statement find, database_.Prepare("SELECT 1 FROM absorbed WHERE ledger = ?"));
  return find.Bind(1, ledger).Step();
}

Status SqliteLedger::MergeInto(const LedgerName& ledger) {
  return RunWith("UPDATE ledger SET merged_into = ?", ledger);
}

Result<std::vector<std::pair<std::string, LedgerStore::Account>>> SqliteLedger::Accounts() {
  std::vector<std::pair<std::string, Account>> accounts;
  LUCID_ASSIGN(Statement all,
               database_.Prepare("SELECT name, id, spent, answers FROM accounts ORDER BY name"));
  while (true) {
    LUCID_ASSIGN(const bool row, all.Step());
    if (!row) return accounts;
    accounts.emplace_back(std::string(all.Text(0)),
                          Account{all.Whole(1), all.Whole(2), all.Whole(3)});
  }
}

Result<std::vector<LedgerStore::Charge>> SqliteLedger::Charges(std::int64_t account) {
  std::vector<Charge> charges;
  LUCID_ASSIGN(Statement all,
               database_.Prepare("SELECT answer, cost FROM charges WHERE account = ?"));
  all.Bind(1, account);
  while (true) {
    LUCID_ASSIGN(const bool row, all.Step());
    if (!row) return charges;
    charges.push_back({LedgerNameOf(all.Bytes(0)), all.Whole(1)});
  }
}

}  // namespace

Status CreateSqliteLedger(const LedgerOptions& options, const LedgerName& id) {
  const std::string schema = fmt::format(
      "{}{}INSERT INTO ledger VALUES ({}, {}, NULL); INSERT INTO guard_keys VALUES ({});",
      kIdentity, kCharges, Literal(id), Literal(options.population.bytes),
      Literal(options.guard_key));
  LUCID_TRY(Database::Open(options.location, FormatWith(schema, ""), FileMode::kNew));
  return Ok();
}

Result<std::unique_ptr<LedgerStore>> OpenSqliteLedger(const std::string& path,
                                                      const Digest& population) {
  const std::string upgrade = std::string(kIdentity) + std::string(kFromVersion1);
  LUCID_ASSIGN(Database database, Database::Open(path, FormatWith("", upgrade), FileMode::kThere));
  return SqliteLedger::Open(std::move(database), population);
}

}  // namespace lucid
