// A ledger that a PostgreSQL server keeps, for any number of LUCID servers.
//
// A transaction begins by locking the row of its ledger, so that transactions of one ledger follow
// each other and what one has read stays true until it commits. What it then reads, all at once, is
// on one way there and back, what it writes on another, the commit on a third.
//
// Nothing rests on the state of a session: a pooler in between may give every transaction another
// one. So settings are the transaction's own, and statements are not prepared.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "guard/ledger_store.h"
#include "guard/postgres.h"

namespace lucid {
namespace {

using Clock = Postgres::Clock;

constexpr std::int64_t kVersion = 1;

// A transaction takes no longer than this here, from its first statement (the wait for the lock is
// one) to its commit, with connections that have to be made anew. PostgreSQL gives up a little
// earlier, so that the usual end is its error and not a lost connection.
constexpr std::chrono::seconds kTransactionTime{10};
// Who has the lock sends the next statement within this time, or gives it up. PostgreSQL throws out
// whoever has sent nothing for so long. So a server that stops in the middle holds the lock ten
// seconds at most. (From version 17 on PostgreSQL ends the whole transaction after them.)
constexpr std::chrono::seconds kLockTime{5};

// Whoever commits, waits for the disk, and for the standbys that the server waits for. Every look
// at a charge goes by the key, however few there are: a scan would take longer the more there are.
constexpr const char* kSettings = R"(
  SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
           WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true),
         set_config('search_path', 'pg_catalog, pg_temp', true),
         set_config('statement_timeout', '9s', true),
         set_config('idle_in_transaction_session_timeout', '5s', true),
         CASE WHEN current_setting('server_version_num')::int >= 170000
              THEN set_config('transaction_timeout', '10s', true) END,
         set_config('enable_seqscan', 'off', true),
         set_config('enable_hashjoin', 'off', true),
         set_config('enable_mergejoin', 'off', true),
         set_config('jit', 'off', true))";

constexpr const char* kBegin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

constexpr const char* kLock = R"(
  SELECT id, merged_into, current_setting('fsync') = 'on',
         current_setting('synchronous_commit') IN ('on', 'remote_apply')
  FROM lucid_ledger.ledgers WHERE number = $1 FOR UPDATE)";

constexpr const char* kCountCommit = R"(
  UPDATE lucid_ledger.servers SET commits = commits + 1 WHERE ledger = $1 AND name = $2
  RETURNING commits)";

constexpr const char* kMakeAccounts = R"(
  INSERT INTO lucid_ledger.accounts (ledger, name, spent, answers)
  SELECT $1, name, 0, 0 FROM unnest($2::bytea[]) AS wanted (name)
  ON CONFLICT (ledger, name) DO NOTHING)";

constexpr const char* kFindAccounts = R"(
  SELECT account.id, account.spent, account.answers
  FROM unnest($2::bytea[]) WITH ORDINALITY AS wanted (name, place)
  JOIN lucid_ledger.accounts AS account
    ON account.ledger = $1 AND account.name = wanted.name
  ORDER BY wanted.place)";

constexpr const char* kFindCharges = R"(
  WITH ids AS (
    SELECT array_agg(account.id ORDER BY wanted.place) AS of
    FROM unnest($2::bytea[]) WITH ORDINALITY AS wanted (name, place)
    JOIN lucid_ledger.accounts AS account
      ON account.ledger = $1 AND account.name = wanted.name)
  SELECT EXISTS (SELECT FROM lucid_ledger.charges AS charge
                 WHERE charge.account = ids.of[question.account]
                   AND charge.answer = question.answer)
  FROM ids, unnest($3::bigint[], $4::bytea[]) WITH ORDINALITY
         AS question (account, answer, place)
  ORDER BY question.place)";

constexpr const char* kAddCharges = R"(
  INSERT INTO lucid_ledger.charges (account, answer, cost)
  SELECT account, answer, cost
  FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS line (account, answer, cost)
  ON CONFLICT (account, answer) DO NOTHING)";

// Every line is looked for again; `dropped` is a decoy's cost, and -1 for a charge, which stays.
constexpr const char* kDropDecoys = R"(
  DELETE FROM lucid_ledger.charges AS charge
  USING unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS line (account, answer, dropped)
  WHERE charge.account = line.account AND charge.answer = line.answer
    AND charge.cost = line.dropped)";

constexpr const char* kChargeAccounts = R"(
  UPDATE lucid_ledger.accounts AS account
  SET spent = account.spent + change.cost, answers = account.answers + change.answers
  FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
         AS change (id, cost, answers, budget)
  WHERE account.id = change.id
    AND (change.cost = 0 OR account.spent + change.cost <= change.budget))";

// No foreign key of `charges`: the accounts are locked with their ledger, and a look at each for
// every line would cost more than the line.
constexpr const char* kTables[] = {
    "CREATE SCHEMA lucid_ledger",
    "CREATE TABLE lucid_ledger.format (version bigint NOT NULL)",
    R"(CREATE TABLE lucid_ledger.ledgers (
         number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
         id bytea NOT NULL UNIQUE CHECK (octet_length(id) = 16),
         population bytea NOT NULL UNIQUE CHECK (octet_length(population) = 32),
         merged_into bytea CHECK (octet_length(merged_into) = 16)))",
    R"(CREATE TABLE lucid_ledger.guard_keys (
         ledger bigint NOT NULL REFERENCES lucid_ledger.ledgers,
         name bytea NOT NULL CHECK (octet_length(name) = 16),
         PRIMARY KEY (ledger, name)))",
    R"(CREATE TABLE lucid_ledger.servers (
         ledger bigint NOT NULL REFERENCES lucid_ledger.ledgers,
         name bytea NOT NULL CHECK (octet_length(name) = 16),
         commits bigint NOT NULL,
         PRIMARY KEY (ledger, name)) WITH (fillfactor = 50))",
    R"(CREATE TABLE lucid_ledger.absorbed (
         ledger bigint NOT NULL REFERENCES lucid_ledger.ledgers,
         id bytea NOT NULL CHECK (octet_length(id) = 16),
         PRIMARY KEY (ledger, id)))",
    R"(CREATE TABLE lucid_ledger.accounts (
         id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
         ledger bigint NOT NULL REFERENCES lucid_ledger.ledgers,
         name bytea NOT NULL,
         spent bigint NOT NULL CHECK (spent >= 0),
         answers bigint NOT NULL CHECK (answers >= 0),
         UNIQUE (ledger, name)) WITH (fillfactor = 50))",
    R"(CREATE TABLE lucid_ledger.charges (
         account bigint NOT NULL,
         answer bytea NOT NULL CHECK (octet_length(answer) = 16),
         cost bigint NOT NULL CHECK (cost >= 0),
         PRIMARY KEY (account, answer)))",
};

PostgresValue NameValue(const LedgerName& name) {
  return PostgresValue::Of(std::span<const std::uint8_t>(name));
}

// In a transaction of its own, durable when it returns; for statements that say what they change.
Result<PostgresRows> RunDurably(Postgres& connection, PostgresQuery query) {
  const PostgresQuery all[] = {{kBegin}, {kSettings}, std::move(query), {"COMMIT"}};
  Result<std::vector<PostgresRows>> rows = connection.Run(all);
  if (!rows.ok()) {
    if (!connection.lost()) static_cast<void>(connection.RunOne({"ROLLBACK"}));
    return rows.error();
  }
  if (rows->back().command() != "COMMIT") return IoError("PostgreSQL rolled the change back");
  return std::move((*rows)[2]);
}

// Whether LUCID's tables are there. Errors: they are of another version, or not on its disk.
Result<bool> HasTables(Postgres& connection, const PostgresAddress& address,
                       Clock::time_point deadline = Clock::now() + Postgres::kPatience) {
  LUCID_ASSIGN(const PostgresRows there,
               connection.RunOne({"SELECT to_regclass('lucid_ledger.format') IS NOT NULL"},
                                 deadline - Clock::now()));
  if (!there.Truth(0, 0)) return false;
  const PostgresQuery queries[] = {
      {"SELECT version FROM lucid_ledger.format"},
      {"SELECT count(*) FROM pg_class WHERE relnamespace = 'lucid_ledger'::regnamespace "
       "AND relkind = 'r' AND relpersistence <> 'p'"}};
  LUCID_ASSIGN(const std::vector<PostgresRows> rows,
               connection.Run(queries, deadline - Clock::now()));
  const std::int64_t version = rows[0].count() == 1 ? rows[0].Whole(0, 0) : 0;
  if (version != kVersion) {
    return InvalidInput(fmt::format("{} is of version {}; this program knows {}", address.name(),
                                    version, kVersion));
  }
  if (rows[1].Whole(0, 0) != 0) {
    return InvalidInput(fmt::format(
        "{}: some of its tables are unlogged: a crash would empty them, and give the budget back",
        address.name()));
  }
  return true;
}

class PostgresLedger : public LedgerStore {
 public:
  PostgresLedger(PostgresAddress address, std::int64_t number, Postgres connection)
      : address_(std::move(address)), number_(number), connection_(std::move(connection)) {}

  Result<Found> Begin(const LedgerName& server, std::span<const std::string> names,
                      std::span<const Question> questions) override;
  Status Finish(std::span<const Line> lines, std::span<const Change> changes,
                const LedgerName* absorbed) override;
  void RollBack() override;
  bool in_doubt() const override { return in_doubt_; }
  bool shared() const override { return true; }
  std::string place() const override { return address_.name(); }

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
  Status Reconnect();
  Status ReconnectForOne() {  // for a question outside of a transaction of Begin
    deadline_ = Clock::now() + kTransactionTime;
    return Reconnect();
  }
  // What is left of the time of the transaction that has begun.
  Clock::duration Left() const { return deadline_ - Clock::now(); }
  Result<Found> Find(const LedgerName& server, std::span<const std::string> names,
                     std::span<const Question> questions);
  Status CheckWritten(const std::vector<PostgresRows>& rows, std::span<const Line> lines,
                      std::span<const Change> changes) const;
  Result<PostgresRows> Read(const char* sql);
  Status WriteName(const char* sql, const LedgerName& name);

  PostgresAddress address_;
  std::int64_t number_;                 // of the ledger among those of this database
  std::optional<Postgres> connection_;  // none: it was lost
  Clock::time_point deadline_;          // of the transaction, or of what else is asked
  Clock::time_point lock_until_;        // when the last statement has to be sent at the latest
  bool in_doubt_ = false;
};

// Requires: deadline_ is set.
Status PostgresLedger::Reconnect() {
  if (connection_ && !connection_->lost()) return Ok();
  connection_.reset();
  LUCID_ASSIGN(connection_, Postgres::Connect(address_, Left()));
  LUCID_ASSIGN(const bool there, HasTables(*connection_, address_, deadline_));
  if (there) return Ok();
  connection_.reset();
  return Mismatch(
      fmt::format("{} is gone: the database is there, its tables are not", address_.name()));
}

void PostgresLedger::RollBack() {
  if (!connection_) return;
  // Without an answer the connection is closed, which rolls it back, too.
  if (connection_->lost() || !connection_->RunOne({"ROLLBACK"}, Left()).ok()) connection_.reset();
}

// A connection that was lost while nothing was under way (a restart of the server, say) is made
// anew once, if there is time left: nothing can have been charged yet.
Result<LedgerStore::Found> PostgresLedger::Begin(const LedgerName& server,
                                                 std::span<const std::string> names,
                                                 std::span<const Question> questions) {
  in_doubt_ = false;
  deadline_ = Clock::now() + kTransactionTime;
  for (bool again = false;; again = true) {
    LUCID_TRY(Reconnect());
    Result<Found> found = Find(server, names, questions);
    if (found.ok()) {
      lock_until_ = Clock::now() + kLockTime;
      return found;
    }
    const bool lost = connection_->lost();
    RollBack();
    if (!lost || again || Left() < Postgres::kLeastConnectPatience) return found;
  }
}

Result<LedgerStore::Found> PostgresLedger::Find(const LedgerName& server,
                                                std::span<const std::string> names,
                                                std::span<const Question> questions) {
  std::vector<std::int64_t> accounts;
  std::vector<AnswerName> answers;
  for (const Question& question : questions) {
    accounts.push_back(static_cast<std::int64_t>(question.account) + 1);
    answers.push_back(question.answer);
  }
  const auto number = PostgresValue::Of(number_);
  const auto all_names = PostgresValue::Of(names);
  const PostgresQuery queries[] = {
      {kBegin},
      {kSettings},
      {kLock, {number}},
      {kCountCommit, {number, NameValue(server)}},
      {kMakeAccounts, {number, all_names}},
      {kFindAccounts, {number, all_names}},
      {kFindCharges,
       {number, all_names, PostgresValue::Of(std::span<const std::int64_t>(accounts)),
        PostgresValue::Of(std::span<const AnswerName>(answers))}}};
  LUCID_ASSIGN(const std::vector<PostgresRows> rows, connection_->Run(queries, Left()));
  const PostgresRows& locked = rows[2];
  Found found;
  if (locked.count() == 1) {
    found.head.id = LedgerNameOf(locked.Bytes(0, 0));
    if (!locked.IsNull(0, 1)) found.head.merged_into = LedgerNameOf(locked.Bytes(0, 1));
    if (!locked.Truth(0, 2) || !locked.Truth(0, 3)) {
      return InvalidInput(fmt::format(
          "{} does not wait for its disk: with fsync or synchronous_commit off a power cut gives "
          "budget back; set both to on",
          address_.name()));
    }
  }
  if (rows[3].count() == 1) found.commits = rows[3].Whole(0, 0);
  for (int i = 0; i < rows[5].count(); ++i) {
    found.accounts.push_back({rows[5].Whole(i, 0), rows[5].Whole(i, 1), rows[5].Whole(i, 2)});
  }
  for (int i = 0; i < rows[6].count(); ++i) found.charged.push_back(rows[6].Truth(i, 0));
  if (found.accounts.size() != names.size() || found.charged.size() != questions.size()) {
    return InternalError(fmt::format("{}: an account is not there", address_.name()));
  }
  return found;
}

Status PostgresLedger::Finish(std::span<const Line> lines, std::span<const Change> changes,
                              const LedgerName* absorbed) {
  std::vector<std::int64_t> accounts, costs, dropped, ids, sums, counts, limits;
  std::vector<AnswerName> answers;
  for (const Line& line : lines) {
    accounts.push_back(line.account);
    answers.push_back(line.answer);
    costs.push_back(line.cost);
    dropped.push_back(line.decoy ? line.cost : -1);
  }
  for (const Change& change : changes) {
    ids.push_back(change.account);
    sums.push_back(change.cost);
    counts.push_back(change.answers);
    limits.push_back(change.limit);
  }
  const auto numbers = [](const std::vector<std::int64_t>& values) {
    return PostgresValue::Of(std::span<const std::int64_t>(values));
  };
  const auto names = PostgresValue::Of(std::span<const AnswerName>(answers));
  std::vector<PostgresQuery> queries = {
      {kAddCharges, {numbers(accounts), names, numbers(costs)}},
      {kDropDecoys, {numbers(accounts), names, numbers(dropped)}},
      {kChargeAccounts, {numbers(ids), numbers(sums), numbers(counts), numbers(limits)}}};
  if (absorbed != nullptr) {
    queries.push_back({"INSERT INTO lucid_ledger.absorbed VALUES ($1, $2)",
                       {PostgresValue::Of(number_), NameValue(*absorbed)}});
  }
  const auto run = [&](std::span<const PostgresQuery> some) -> Result<std::vector<PostgresRows>> {
    if (Clock::now() < lock_until_) return connection_->Run(some, Left());
    return IoError(fmt::format("this server held the lock of {} for too long", address_.name()));
  };
  const Result<std::vector<PostgresRows>> rows = run(queries);
  Status written = rows.ok() ? CheckWritten(*rows, lines, changes) : Status(rows.error());
  if (!written.ok()) {
    RollBack();
    return written;
  }
  const PostgresQuery commit{"COMMIT"};
  const Result<std::vector<PostgresRows>> committed = run({&commit, 1});
  in_doubt_ = !committed.ok() && connection_->lost();
  if (!committed.ok()) {
    RollBack();
    return committed.error();
  }
  if (committed->front().command() == "COMMIT") return Ok();
  return IoError(fmt::format("{} rolled a charge back", address_.name()));
}

// The statements have done exactly what was meant, or nothing of it may be committed.
Status PostgresLedger::CheckWritten(const std::vector<PostgresRows>& rows,
                                    std::span<const Line> lines,
                                    std::span<const Change> changes) const {
  const auto decoys = std::ranges::count(lines, true, &Line::decoy);
  if (rows[0].affected() == std::ssize(lines) && rows[1].affected() == decoys &&
      rows[2].affected() == std::ssize(changes)) {
    return Ok();
  }
  return InternalError(fmt::format("{}: a charge does not fit to what was read", address_.name()));
}

Result<PostgresRows> PostgresLedger::Read(const char* sql) {
  LUCID_TRY(ReconnectForOne());
  return connection_->RunOne({sql, {PostgresValue::Of(number_)}});
}

Status PostgresLedger::WriteName(const char* sql, const LedgerName& name) {
  LUCID_TRY(ReconnectForOne());
  LUCID_TRY(RunDurably(*connection_, {sql, {PostgresValue::Of(number_), NameValue(name)}}));
  return Ok();
}

Result<LedgerHead> PostgresLedger::Head() {
  LUCID_ASSIGN(const PostgresRows rows,
               Read("SELECT id, merged_into FROM lucid_ledger.ledgers WHERE number = $1"));
  LedgerHead head;
  if (rows.count() != 1) return Mismatch(fmt::format("{} is gone", address_.name()));
  head.id = LedgerNameOf(rows.Bytes(0, 0));
  if (!rows.IsNull(0, 1)) head.merged_into = LedgerNameOf(rows.Bytes(0, 1));
  return head;
}

Result<std::vector<LedgerName>> PostgresLedger::GuardKeys() {
  LUCID_ASSIGN(const PostgresRows rows,
               Read("SELECT name FROM lucid_ledger.guard_keys WHERE ledger = $1 ORDER BY name"));
  std::vector<LedgerName> keys;
  keys.reserve(static_cast<std::size_t>(rows.count()));
  for (int i = 0; i < rows.count(); ++i) keys.push_back(LedgerNameOf(rows.Bytes(i, 0)));
  return keys;
}

Status PostgresLedger::AddGuardKey(const LedgerName& key) {
  return WriteName("INSERT INTO lucid_ledger.guard_keys VALUES ($1, $2) ON CONFLICT DO NOTHING",
                   key);
}

Result<std::vector<std::pair<LedgerName, std::int64_t>>> PostgresLedger::Servers() {
  LUCID_ASSIGN(
      const PostgresRows rows,
      Read("SELECT name, commits FROM lucid_ledger.servers WHERE ledger = $1 ORDER BY name"));
  std::vector<std::pair<LedgerName, std::int64_t>> servers;
  servers.reserve(static_cast<std::size_t>(rows.count()));
  for (int i = 0; i < rows.count(); ++i) {
    servers.emplace_back(LedgerNameOf(rows.Bytes(i, 0)), rows.Whole(i, 1));
  }
  return servers;
}

Status PostgresLedger::AddServer(const LedgerName& server) {
  return WriteName("INSERT INTO lucid_ledger.servers VALUES ($1, $2, 0)", server);
}

Result<bool> PostgresLedger::HasAbsorbed(const LedgerName& ledger) {
  LUCID_TRY(ReconnectForOne());
  LUCID_ASSIGN(
      const PostgresRows rows,
      connection_->RunOne(
          {"SELECT EXISTS (SELECT FROM lucid_ledger.absorbed WHERE ledger = $1 AND id = $2)",
           {PostgresValue::Of(number_), NameValue(ledger)}}));
  return rows.Truth(0, 0);
}

// Waits for whoever charges it at this moment; whoever comes later sees that it is closed.
Status PostgresLedger::MergeInto(const LedgerName& ledger) {
  return WriteName("UPDATE lucid_ledger.ledgers SET merged_into = $2 WHERE number = $1", ledger);
}

Result<std::vector<std::pair<std::string, LedgerStore::Account>>> PostgresLedger::Accounts() {
  LUCID_ASSIGN(const PostgresRows rows,
               Read("SELECT name, id, spent, answers FROM lucid_ledger.accounts WHERE ledger = $1 "
                    "ORDER BY name"));
  std::vector<std::pair<std::string, Account>> accounts;
  accounts.reserve(static_cast<std::size_t>(rows.count()));
  for (int i = 0; i < rows.count(); ++i) {
    accounts.emplace_back(std::string(rows.Text(i, 0)),
                          Account{rows.Whole(i, 1), rows.Whole(i, 2), rows.Whole(i, 3)});
  }
  return accounts;
}

Result<std::vector<LedgerStore::Charge>> PostgresLedger::Charges(std::int64_t account) {
  LUCID_TRY(ReconnectForOne());
  LUCID_ASSIGN(const PostgresRows rows,
               connection_->RunOne({"SELECT answer, cost FROM lucid_ledger.charges "
                                    "WHERE account = $1",
                                    {PostgresValue::Of(account)}},
                                   std::chrono::minutes(10)));
  std::vector<Charge> charges;
  charges.reserve(static_cast<std::size_t>(rows.count()));
  for (int i = 0; i < rows.count(); ++i) {
    charges.push_back({LedgerNameOf(rows.Bytes(i, 0)), rows.Whole(i, 1)});
  }
  return charges;
}

}  // namespace

Status CreatePostgresLedger(const LedgerOptions& options, const LedgerName& id) {
  LUCID_ASSIGN(const PostgresAddress address, PostgresAddress::Parse(options.location));
  LUCID_ASSIGN(Postgres connection, Postgres::Connect(address));
  LUCID_ASSIGN(const bool there, HasTables(connection, address));
  std::vector<PostgresQuery> queries = {{kBegin}, {kSettings}};
  if (!there) {
    for (const char* table : kTables) queries.push_back({table});
    queries.push_back(
        {"INSERT INTO lucid_ledger.format VALUES ($1)", {PostgresValue::Of(kVersion)}});
  }
  const auto population =
      PostgresValue::Of(std::span<const std::uint8_t>(options.population.bytes));
  const std::size_t made = queries.size();
  queries.push_back(
      {"INSERT INTO lucid_ledger.ledgers (id, population) VALUES ($1, $2) ON CONFLICT DO NOTHING",
       {NameValue(id), population}});
  queries.push_back(
      {"INSERT INTO lucid_ledger.guard_keys "
       "SELECT number, $2 FROM lucid_ledger.ledgers WHERE id = $1",
       {NameValue(id), NameValue(options.guard_key)}});
  queries.push_back(
      {"INSERT INTO lucid_ledger.accounts (ledger, name, spent, answers) "
       "SELECT number, ''::bytea, 0, 0 FROM lucid_ledger.ledgers WHERE id = $1",
       {NameValue(id)}});
  queries.push_back({"COMMIT"});
  LUCID_ASSIGN(const std::vector<PostgresRows> rows, connection.Run(queries));
  if (rows[made].affected() == 0) {
    return InvalidInput(fmt::format("{} has a ledger of this population already", address.name()));
  }
  if (rows.back().command() != "COMMIT") {
    return IoError(fmt::format("{} rolled the new ledger back", address.name()));
  }
  return Ok();
}

Result<std::unique_ptr<LedgerStore>> OpenPostgresLedger(const std::string& url,
                                                        const Digest& population) {
  LUCID_ASSIGN(PostgresAddress address, PostgresAddress::Parse(url));
  LUCID_ASSIGN(Postgres connection, Postgres::Connect(address));
  LUCID_ASSIGN(const bool there, HasTables(connection, address));
  std::int64_t number = 0;
  if (there) {
    LUCID_ASSIGN(
        const PostgresRows rows,
        connection.RunOne({"SELECT number FROM lucid_ledger.ledgers WHERE population = $1",
                           {PostgresValue::Of(std::span<const std::uint8_t>(population.bytes))}}));
    if (rows.count() == 1) number = rows.Whole(0, 0);
  }
  if (number == 0) {
    return InvalidInput(fmt::format(
        "{} has no ledger of this population: lucid ledger init makes one, with nothing spent",
        address.name()));
  }
  return std::unique_ptr<LedgerStore>(
      std::make_unique<PostgresLedger>(std::move(address), number, std::move(connection)));
}

}  // namespace lucid
