// The ledger in PostgreSQL beside the one in SQLite, and what may go wrong with it.
#include "lucid/guard/ledger.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "guard/ledger_store.h"
#include "lucid/base/digest.h"
#include "support/postgres.h"
#include "support/run_lucid.h"

namespace lucid::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
constexpr Budget kLeft = Budget::kLeft, kSpent = Budget::kSpent;

AnswerName Name(std::uint64_t number) {
  AnswerName name{};
  const std::uint64_t words[] = {number * 0x9e3779b97f4a7c15u, number};
  std::memcpy(name.data(), words, sizeof words);
  return name;
}

EpsilonUnits Units(double epsilon) { return EpsilonUnits::RoundedUp(epsilon).value(); }

Ledger::Request Request(const std::string& account, std::optional<double> budget, double cost,
                        const std::vector<std::uint64_t>& numbers) {
  Ledger::Request request{.account = account, .budget = {}, .cost = Units(cost), .answers = {}};
  if (budget) request.budget = Units(*budget);
  for (const std::uint64_t number : numbers) request.answers.push_back(Name(number));
  return request;
}

std::vector<Budget> Pay(Ledger& ledger, const std::string& account, std::optional<double> budget,
                        double cost, const std::vector<std::uint64_t>& numbers) {
  auto outcome = ledger.Charge(Request(account, budget, cost, numbers));
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  return outcome.ok() ? *std::move(outcome) : std::vector<Budget>{};
}

std::string MessageOf(const auto& result) { return result.ok() ? "" : result.error().message; }

// One server for all tests; each has a database of its own.
class PostgresLedgerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (PostgresServer::Missing().empty()) server_ = new PostgresServer;
  }
  static void TearDownTestSuite() { delete std::exchange(server_, nullptr); }
  void SetUp() override {
    if (server_ == nullptr) GTEST_SKIP() << PostgresServer::Missing();
    static int made = 0;
    database_ = fmt::format("test{}", ++made);
    server_->Sql("CREATE DATABASE " + database_);
  }

  LedgerOptions Options(const std::string& mark = "mark") const {
    return {.location = server_->Url(database_),
            .population = Sha256Of("rows"),
            .guard_key = Name(77),
            .overall_budget = {},
            .mark = mark.empty() ? "" : scratch_ / mark};
  }
  Ledger Make(std::optional<double> overall = {}, const std::string& mark = "mark") const {
    LedgerOptions options = Options(mark);
    if (overall) options.overall_budget = Units(*overall);
    const Status created = Ledger::Create(options);
    EXPECT_TRUE(created.ok()) << created.error().message;
    return Open(overall, mark);
  }
  Ledger Open(std::optional<double> overall = {}, const std::string& mark = "mark") const {
    LedgerOptions options = Options(mark);
    if (overall) options.overall_budget = Units(*overall);
    auto ledger = Ledger::Open(options);
    EXPECT_TRUE(ledger.ok()) << ledger.error().message;
    return std::move(ledger).value();
  }
  std::string Sql(const std::string& sql) const { return server_->Sql(sql, database_); }
  std::int64_t Number(const std::string& sql) const { return std::stoll(Sql(sql)); }
  // What the tables say is what they must: every account's sum is that of its charges.
  void ExpectSumsRight() const {
    EXPECT_EQ(Sql("SELECT count(*) FROM lucid_ledger.accounts a WHERE (spent, answers) <> "
                  "(SELECT coalesce(sum(cost), 0), count(*) FROM lucid_ledger.charges "
                  "WHERE account = a.id)"),
              "0");
  }

  static PostgresServer* server_;
  std::string database_;
  const Scratch scratch_;
};
PostgresServer* PostgresLedgerTest::server_ = nullptr;

TEST_F(PostgresLedgerTest, PaysOncePerAnswerUntilTheBudgetIsSpent) {
  {
    Ledger ledger = Make(2.0);
    EXPECT_THAT(Pay(ledger, "a", 1.0, 0.25, {1, 2, 1}), ElementsAre(kLeft, kLeft, kLeft));
    EXPECT_EQ(ledger.BalanceOf("a").spent.epsilon(), 0.5);
    EXPECT_THAT(Pay(ledger, "a", 1.0, 0.25, {3, 4, 5, 2}),
                ElementsAre(kLeft, kLeft, kSpent, kLeft));
    EXPECT_THAT(Pay(ledger, "b", {}, 1.0, {1, 10, 11}), ElementsAre(kLeft, kLeft, kSpent));
    EXPECT_EQ(ledger.totals().overall.spent.epsilon(), 2.0);
  }
  Ledger ledger = Open(2.0);
  EXPECT_EQ(ledger.BalanceOf("a").answers, 4);
  EXPECT_THAT(Pay(ledger, "a", 1.25, 0.25, {5, 10, 1}), ElementsAre(kSpent, kLeft, kLeft));
  ExpectSumsRight();
}

// One logic, two stores: whatever is asked, both say the same, also across reopening.
TEST_F(PostgresLedgerTest, AgreesWithSqliteOnAnything) {
  std::random_device entropy;
  const std::uint64_t seed = entropy();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  LedgerOptions in_file = Options("mark-sqlite");
  in_file.location = scratch_ / "ledger.db";
  ASSERT_TRUE(Ledger::Create(in_file).ok());
  ASSERT_TRUE(Ledger::Create(Options()).ok());
  for (int round = 0; round < 4; ++round) {
    const double overall = 10 + 5 * round;
    in_file.overall_budget = Units(overall);
    Ledger sqlite = Ledger::Open(in_file).value();
    Ledger postgres = Open(overall);
    for (int i = 0; i < 40; ++i) {
      const std::string account(1, static_cast<char>('a' + random() % 3));
      const std::optional<double> budget =
          random() % 3 == 0 ? std::nullopt
                            : std::optional(0.25 * static_cast<double>(random() % 30));
      const double cost = 0.125 * static_cast<double>(1 + random() % 4);
      std::vector<std::uint64_t> numbers(random() % 6);
      for (std::uint64_t& number : numbers) number = random() % 60;
      EXPECT_EQ(Pay(sqlite, account, budget, cost, numbers),
                Pay(postgres, account, budget, cost, numbers));
    }
    const Ledger::Totals one = sqlite.totals(), other = postgres.totals();
    EXPECT_EQ(one.overall.spent, other.overall.spent);
    ASSERT_EQ(one.accounts.size(), other.accounts.size());
    for (std::size_t i = 0; i < one.accounts.size(); ++i) {
      EXPECT_EQ(one.accounts[i].first, other.accounts[i].first);
      EXPECT_EQ(one.accounts[i].second.spent, other.accounts[i].second.spent);
      EXPECT_EQ(one.accounts[i].second.answers, other.accounts[i].second.answers);
    }
  }
  ExpectSumsRight();
}

TEST_F(PostgresLedgerTest, ReplicasNeverPayTwiceAndNeverOverdraw) {
  constexpr int kReplicas = 3, kThreads = 3, kAnswers = 60;
  { const Ledger made = Make({}, ""); }
  std::atomic<int> paid_small{0};
  {
    std::vector<std::unique_ptr<Ledger>> replicas;
    for (int r = 0; r < kReplicas; ++r) {
      replicas.push_back(std::make_unique<Ledger>(Open(1000.0, fmt::format("mark{}", r))));
    }
    std::vector<std::jthread> threads;
    for (int t = 0; t < kReplicas * kThreads; ++t) {
      threads.emplace_back([&, t] {
        Ledger& ledger = *replicas[t % kReplicas];
        for (std::uint64_t i = 0; i < kAnswers; ++i) {
          EXPECT_THAT(Pay(ledger, t % 2 == 0 ? "even" : "odd", {}, 0.5, {i}), ElementsAre(kLeft));
          const auto own = Pay(ledger, "small", 5.0, 0.25, {1000 + 100 * std::uint64_t(t) + i});
          paid_small += own.at(0) == kLeft ? 1 : 0;
        }
      });
    }
  }
  EXPECT_EQ(paid_small, 20);
  Ledger ledger = Open(1000.0);
  EXPECT_EQ(ledger.BalanceOf("even").answers, kAnswers);
  EXPECT_EQ(ledger.BalanceOf("odd").answers, kAnswers);
  EXPECT_EQ(ledger.BalanceOf("small").spent.epsilon(), 5.0);
  EXPECT_EQ(ledger.totals().overall.answers, kAnswers + 20);
  EXPECT_EQ(ledger.totals().overall.spent.epsilon(), 0.5 * kAnswers + 5.0);
  ExpectSumsRight();
}

// Connections are cut at random moments, also in the middle of a transaction, and the server is
// killed. What was acknowledged is charged, whatever else is.
TEST_F(PostgresLedgerTest, LostConnectionsAndRestartsLoseNoCharge) {
  constexpr int kReplicas = 3;
  { const Ledger made = Make({}, ""); }
  std::atomic<bool> done{false};
  std::atomic<int> failed{0};
  std::vector<std::set<std::uint64_t>> acknowledged(kReplicas);
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < kReplicas; ++r) {
      threads.emplace_back([&, r] {
        Ledger ledger = Open({}, fmt::format("mark{}", r));
        for (std::uint64_t i = 0; !done; ++i) {
          const std::uint64_t number = 3 * i + static_cast<std::uint64_t>(r);
          const auto outcome = ledger.Charge(Request("a", {}, 0.5, {number, number / 2}));
          if (outcome.ok()) {
            acknowledged[r].insert({number, number / 2});
            EXPECT_THAT(*outcome, Each(kLeft));
          } else {
            ++failed;
            EXPECT_EQ(outcome.error().kind, ErrorKind::kIo) << outcome.error().message;
            SleepSeconds(0.01);
          }
        }
      });
    }
    SleepSeconds(0.5);
    for (int i = 0; i < 20; ++i) {
      server_->TrySql(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
          "application_name = 'lucid' AND state <> 'idle'");
      SleepSeconds(0.03);
    }
    server_->Stop(SIGQUIT);
    SleepSeconds(0.3);
    server_->Start();
    SleepSeconds(1);
    done = true;
  }
  EXPECT_GT(failed, 0) << "or nothing was tested";
  std::set<std::uint64_t> all;
  for (const auto& some : acknowledged) {
    EXPECT_GT(some.size(), 20);
    all.insert(some.begin(), some.end());
  }
  ExpectSumsRight();
  Ledger ledger = Open();
  const Ledger::Balance before = ledger.BalanceOf("a");
  EXPECT_GE(before.answers, std::ssize(all));
  EXPECT_LE(before.answers, std::ssize(all) + 2 * failed);
  EXPECT_EQ(before.spent.epsilon(), 0.5 * static_cast<double>(before.answers));
  EXPECT_THAT(Pay(ledger, "a", 0.0, 0.5, {all.begin(), all.end()}), Each(kLeft))
      << "an answer was given that nobody paid for";
  std::printf("%zd acknowledged, %lld charged, %d failed\n", all.size(),
              static_cast<long long>(before.answers), failed.load());
}

TEST_F(PostgresLedgerTest, IsNeverMadeByChance) {
  EXPECT_THAT(MessageOf(Ledger::Open(Options())), HasSubstr("no ledger of this population"));
  { const Ledger made = Make(); }
  LedgerOptions again = Options("");
  EXPECT_THAT(MessageOf(Ledger::Create(again)), HasSubstr("already"));
  // Where this server's mark says that there was a ledger, no new one is made.
  Sql("DROP SCHEMA lucid_ledger CASCADE");
  EXPECT_THAT(MessageOf(Ledger::Create(Options())), HasSubstr("remove"));
  ASSERT_TRUE(Ledger::Create(again).ok());
  EXPECT_THAT(MessageOf(Ledger::Open(Options())), HasSubstr("not the ledger that this server"));
}

TEST_F(PostgresLedgerTest, AnotherKeyIsLetInOnlyByName) {
  { const Ledger made = Make(); }
  LedgerOptions other = Options("other mark");
  other.guard_key = Name(78);
  const auto refused = Ledger::Open(other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kMismatch);
  EXPECT_THAT(refused.error().message, HasSubstr("lucid ledger allow"));
  ASSERT_TRUE(Ledger::AllowKey(other).ok());
  EXPECT_TRUE(Ledger::Open(other).ok());
}

TEST_F(PostgresLedgerTest, PopulationsHaveBudgetsOfTheirOwn) {
  Ledger one = Make(1.0);
  LedgerOptions options = Options("other");
  options.population = Sha256Of("other rows");
  EXPECT_THAT(MessageOf(Ledger::Open(options)), HasSubstr("no ledger of this population"));
  ASSERT_TRUE(Ledger::Create(options).ok());
  options.overall_budget = Units(1.0);
  Ledger other = Ledger::Open(options).value();
  EXPECT_THAT(Pay(one, "a", {}, 1.0, {1, 2}), ElementsAre(kLeft, kSpent));
  EXPECT_THAT(Pay(other, "a", {}, 1.0, {1, 2}), ElementsAre(kLeft, kSpent));
  EXPECT_EQ(one.totals().overall.answers, 1);
  EXPECT_EQ(other.totals().overall.answers, 1);
}

// A dump from before some charges is put in the place of the ledger: at the start, and while a
// server charges it. Charges would be forgotten, and the budget given twice.
TEST_F(PostgresLedgerTest, ARestoredDumpIsNoticed) {
  {
    Ledger ledger = Make(10.0);
    Pay(ledger, "a", {}, 1.0, {1, 2});
  }
  const std::string dump = server_->Dump(database_);
  const auto restore = [&] {
    Sql("DROP SCHEMA lucid_ledger CASCADE");
    server_->Restore(dump, database_);
  };
  {
    Ledger ledger = Open(10.0);
    Pay(ledger, "a", {}, 1.0, {3});
  }
  restore();
  const auto rolled_back = Ledger::Open(Options());
  ASSERT_FALSE(rolled_back.ok());
  EXPECT_EQ(rolled_back.error().kind, ErrorKind::kMismatch);
  EXPECT_THAT(rolled_back.error().message, HasSubstr("was rolled back"));

  Ledger running = Open(10.0, "another server");
  EXPECT_THAT(Pay(running, "a", {}, 1.0, {4, 5}), Each(kLeft));
  restore();
  const auto refused = running.Charge(Request("a", {}, 1.0, {6}));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("rolled back while it was in use"));
  EXPECT_EQ(Number("SELECT answers FROM lucid_ledger.accounts WHERE name = ''"), 2)
      << "nothing was charged";
  EXPECT_FALSE(running.Charge(Request("a", {}, 1.0, {1})).ok()) << "also what is known";
}

TEST_F(PostgresLedgerTest, TwoServersWithOneMarkAreNoticed) {
  Ledger one = Make();
  EXPECT_THAT(MessageOf(Ledger::Open(Options())), HasSubstr("the option ledger_mark"));
  // A copy of the mark, on another machine.
  WriteBytes(scratch_ / "copy", ReadBytes(scratch_ / "mark"));
  Ledger twin = Open({}, "copy");
  EXPECT_FALSE(one.Charge(Request("a", {}, 1.0, {1})).ok());
}

TEST_F(PostgresLedgerTest, AServerThatDoesNotSyncIsRefused) {
  { const Ledger made = Make(); }
  Sql(fmt::format("ALTER ROLE lucid IN DATABASE {} SET synchronous_commit = off", database_));
  Sql(fmt::format(
      "ALTER ROLE lucid IN DATABASE {} SET default_transaction_isolation = serializable",
      database_));
  Sql(fmt::format("ALTER ROLE lucid IN DATABASE {} SET default_transaction_read_only = on",
                  database_));
  {
    Ledger ledger = Open();  // what a role is told is not what a charge takes
    EXPECT_THAT(Pay(ledger, "a", {}, 1.0, {1}), Each(kLeft));
    // Asynchronous commits are written some 200 ms later: this one is there at once.
    server_->Stop(SIGQUIT);
    server_->Start();
  }
  EXPECT_EQ(Number("SELECT answers FROM lucid_ledger.accounts WHERE name = 'a'"), 1);
  Sql(fmt::format("BEGIN READ WRITE; ALTER ROLE lucid IN DATABASE {} RESET ALL; COMMIT",
                  database_));
  Sql("ALTER TABLE lucid_ledger.charges SET UNLOGGED");
  EXPECT_THAT(MessageOf(Ledger::Open(Options())), HasSubstr("unlogged"));
  PostgresServer reckless({"fsync=off"});
  LedgerOptions options = Options("reckless");
  options.location = reckless.Url();
  ASSERT_TRUE(Ledger::Create(options).ok());
  EXPECT_THAT(MessageOf(Ledger::Open(options)), HasSubstr("fsync"));
}

// Whoever asks must not tell a spent budget, or an answer that somebody else paid for, from a new
// one: each writes as many rows, whatever becomes of it.
TEST_F(PostgresLedgerTest, EveryOutcomeWritesAsManyRowsAndLeavesNoDecoy) {
  const auto written = [&] {
    Sql("SELECT pg_stat_force_next_flush()");
    return Number("SELECT sum(n_tup_ins + n_tup_upd) FROM pg_stat_user_tables");
  };
  std::optional<Ledger> ledger(Make(100.0));
  Pay(*ledger, "a", {}, 0.5, {1, 2, 3, 4});
  Pay(*ledger, "b", {}, 0.5, {5, 6, 7, 8});
  const auto rows_of = [&](const std::string& account, std::optional<double> budget,
                           const std::vector<std::uint64_t>& numbers, Budget outcome) {
    ledger.reset();  // its session ends, and what it did is counted
    const std::int64_t before = written();
    ledger.emplace(Open(100.0));
    EXPECT_THAT(Pay(*ledger, account, budget, 0.5, numbers), Each(outcome));
    ledger.reset();
    return written() - before;
  };
  const std::int64_t fresh = rows_of("a", {}, {10, 11}, kLeft);
  EXPECT_GE(fresh, 4);
  EXPECT_EQ(rows_of("a", {}, {10, 11}, kLeft), fresh) << "paid for by itself";
  EXPECT_EQ(rows_of("b", {}, {10, 11}, kLeft), fresh) << "paid for by another";
  EXPECT_EQ(rows_of("b", 0.0, {20, 21}, kSpent), fresh) << "its budget is spent";
  EXPECT_EQ(rows_of("b", 0.0, {1, 2}, kSpent), fresh) << "spent, and paid for by another";
  EXPECT_EQ(Number("SELECT count(*) FROM lucid_ledger.charges"), 6 + 6 + 10);
  ExpectSumsRight();
}

TEST_F(PostgresLedgerTest, NamesAreNoStatements) {
  Ledger ledger = Make();
  std::int64_t accounts = 1;
  for (const std::string& name :
       {std::string("'); DROP TABLE lucid_ledger.charges; --"), std::string("a\0b", 3),
        std::string("\xff\xfe"), std::string("{\"a\",NULL}"), std::string("\\x00"),
        std::string("$1"), std::string(255, '\'')}) {
    EXPECT_THAT(Pay(ledger, name, 1.0, 0.5, {1}), ElementsAre(kLeft));
    EXPECT_EQ(ledger.BalanceOf(name).answers, 1);
    ++accounts;
  }
  EXPECT_EQ(Number("SELECT count(*) FROM lucid_ledger.accounts"), accounts);
  ExpectSumsRight();
}

TEST_F(PostgresLedgerTest, APasswordIsRefusedAndNeverRepeated) {
  for (const std::string url :
       {"postgresql://lucid:geheim@localhost/x", "postgresql://lucid@localhost/x?password=geheim",
        "postgresql://lucid@localhost/x?sslpassword=geheim", "postgresql://lucid:geheim%zz@h/x",
        "postgres://lucid:geheim@localhost:port:/x"}) {
    LedgerOptions options = Options("");
    options.location = url;
    for (const std::string& message :
         {MessageOf(Ledger::Open(options)), MessageOf(Ledger::Create(options))}) {
      EXPECT_NE(message, "");
      EXPECT_THAT(message, Not(HasSubstr("geheim"))) << url;
    }
  }
  LedgerOptions options = Options("");
  options.location = "postgresql://lucid@/nothing?host=" + scratch_.path();
  const std::string message = MessageOf(Ledger::Open(options));
  EXPECT_THAT(message, HasSubstr("cannot reach the PostgreSQL ledger 'nothing' at"));
  EXPECT_THAT(message, Not(HasSubstr("\n")));
}

// What waits for the lock gets an error after ten seconds, not an answer, and not after twenty: a
// connection that gave no answer in time used to be made anew for a second try.
TEST_F(PostgresLedgerTest, AChargeWaitsTenSecondsInAllForALock) {
  Ledger ledger = Make();
  Pay(ledger, "a", {}, 1.0, {1});
  std::jthread holder([&] {
    server_->TrySql("BEGIN; SELECT 1 FROM lucid_ledger.ledgers FOR UPDATE; SELECT pg_sleep(60)",
                    database_);
  });
  ASSERT_TRUE(WaitFor(
      [&] {
        return Number(
                   "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND "
                   "wait_event = 'PgSleep'") == 1;
      },
      30));
  const double start = Now();
  const auto refused = ledger.Charge(Request("a", {}, 1.0, {2}));
  EXPECT_FALSE(refused.ok());
  EXPECT_GE(Now() - start, 8);
  EXPECT_LT(Now() - start, 15) << MessageOf(refused);
  server_->TrySql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' "
      "AND wait_event = 'PgSleep'",
      database_);
  holder.join();
  EXPECT_THAT(Pay(ledger, "a", {}, 1.0, {2}), Each(kLeft));
}

TEST_F(PostgresLedgerTest, AServerThatStopsInTheMiddleIsThrownOutAndChargesNothing) {
  Ledger ledger = Make();
  Pay(ledger, "a", {}, 1.0, {1});
  auto stopped =
      OpenPostgresLedger(server_->Url(database_), Options("mark-stopped").population).value();
  const LedgerName name{7};
  ASSERT_TRUE(stopped->AddServer(name).ok());
  const std::string names[] = {std::string(kOverallAccount)};
  const auto found = stopped->Begin(name, names, {});
  ASSERT_TRUE(found.ok()) << MessageOf(found);
  const double start = Now();
  EXPECT_THAT(Pay(ledger, "a", {}, 1.0, {2}), Each(kLeft)) << "as soon as the lock is free again";
  EXPECT_LT(Now() - start, 10);
  const LedgerStore::Line line{.account = found->accounts[0].id, .answer = Name(3), .cost = 1};
  const LedgerStore::Change change{
      .account = found->accounts[0].id, .cost = 1, .answers = 1, .limit = 1LL << 60};
  const Status late = stopped->Finish({&line, 1}, {&change, 1}, nullptr);
  EXPECT_THAT(MessageOf(late), HasSubstr("for too long"));
  EXPECT_FALSE(stopped->in_doubt());
  EXPECT_EQ(Number("SELECT answers FROM lucid_ledger.accounts WHERE name = ''"), 2);
  EXPECT_TRUE(stopped->Begin(name, names, {}).ok()) << "and it goes on";
  stopped->RollBack();
}

TEST_F(PostgresLedgerTest, MergesAFileAndClosesIt) {
  LedgerOptions in_file = Options("mark-sqlite");
  in_file.location = scratch_ / "ledger.db";
  in_file.guard_key = Name(99);
  ASSERT_TRUE(Ledger::Create(in_file).ok());
  {
    Ledger sqlite = Ledger::Open(in_file).value();
    Pay(sqlite, "a", {}, 0.5, {1, 2, 3});
    Pay(sqlite, "b", {}, 0.25, {10});
  }
  {
    Ledger postgres = Make({}, "");
    Pay(postgres, "a", {}, 0.5, {3, 4});
    Pay(postgres, "c", {}, 0.125, {20});
  }
  const std::string url = server_->Url(database_);
  for (int again = 0; again < 2; ++again) {
    const Status merged = Ledger::Merge(in_file.location, url, in_file.population);
    ASSERT_TRUE(merged.ok()) << merged.error().message;
    const LedgerView view = Ledger::Look(url, in_file.population).value();
    EXPECT_EQ(view.spent.epsilon(), 4 * 0.5 + 0.25 + 0.125);
    EXPECT_EQ(view.answers, 6);
    ASSERT_EQ(view.accounts.size(), 3);
    EXPECT_EQ(view.accounts[0].spent.epsilon(), 4 * 0.5);
    EXPECT_EQ(view.guard_keys.size(), 2);
  }
  ExpectSumsRight();
  EXPECT_THAT(MessageOf(Ledger::Open(in_file)), HasSubstr("is closed"));
  // The server of the file goes on with the other ledger, which knows what it had charged.
  in_file.location = url;
  Ledger goes_on = Ledger::Open(in_file).value();
  EXPECT_THAT(Pay(goes_on, "a", 0.0, 0.5, {1, 2, 3, 4}), Each(kLeft));
  // And back into a new file, while a server still charges the first: it must not go on.
  LedgerOptions back = Options("mark-back");
  back.location = scratch_ / "back.db";
  ASSERT_TRUE(Ledger::Create(back).ok());
  ASSERT_TRUE(Ledger::Merge(url, back.location, back.population).ok());
  EXPECT_THAT(MessageOf(goes_on.Charge(Request("a", {}, 0.5, {1}))), HasSubstr("is closed"));
  EXPECT_EQ(Ledger::Look(back.location, back.population)->spent.epsilon(), 4 * 0.5 + 0.25 + 0.125);
}

}  // namespace
}  // namespace lucid::test
