// Several `lucid serve` with one key, and one ledger in PostgreSQL.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "serve/server.h"
#include "support/postgres.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Row = std::pair<double, double>;

class ReplicasTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!PostgresServer::Missing().empty()) GTEST_SKIP() << PostgresServer::Missing();
    MakeRun(scratch_ / "run");
    postgres_.emplace();
    const Outcome made = RunLucid({"ledger", "init", scratch_ / "run", "--ledger", postgres_->Url(),
                                   "--key-file", scratch_ / "key", "--json"});
    ASSERT_EQ(made.code, 0) << made;
    EXPECT_TRUE(made.Json()["made_key"].get<bool>());
  }
  std::vector<std::string> Arguments(int replica, const std::string& budget) const {
    return {"--epsilon",      "1",
            "--ledger",       postgres_->Url(),
            "--ledger-mark",  scratch_ / fmt::format("mark{}", replica),
            "--budget",       budget,
            "--request-time", "5s"};
  }
  std::int64_t Charged() const {
    return std::stoll(postgres_->Sql("SELECT answers FROM lucid_ledger.accounts WHERE name = ''"));
  }
  void ExpectSumsRight(std::int64_t cost_of_one) const {
    EXPECT_EQ(postgres_->Sql("SELECT count(*) FROM lucid_ledger.accounts a WHERE (spent, answers) "
                             "<> (SELECT coalesce(sum(cost), 0), count(*) FROM "
                             "lucid_ledger.charges WHERE account = a.id)"),
              "0");
    EXPECT_EQ(postgres_->Sql(fmt::format("SELECT count(*) FROM lucid_ledger.charges WHERE cost <> "
                                         "{}",
                                         cost_of_one)),
              "0");
  }

  const Scratch scratch_;
  std::optional<PostgresServer> postgres_;
};

// Rows are asked of whichever replica is there, some of them of all. One replica is killed and
// comes back, and the database crashes and comes back.
TEST_F(ReplicasTest, UnderLoadWithKillsEveryAnswerIsChargedOnce) {
  constexpr int kReplicas = 3, kClients = 6;
  std::vector<std::unique_ptr<ServerProcess>> replicas;
  for (int r = 0; r < kReplicas; ++r) {
    replicas.push_back(std::make_unique<ServerProcess>(scratch_, Arguments(r, "1000000")));
  }
  std::vector<int> ports;
  for (const auto& replica : replicas) ports.push_back(replica->port());
  std::atomic<bool> done{false};
  std::atomic<int> refused{0}, cut{0}, killed_port{0};
  std::mutex mutex;
  std::map<Row, int> answers;  // label by row
  {
    std::vector<std::jthread> clients;
    for (int c = 0; c < kClients; ++c) {
      clients.emplace_back([&, c] {
        for (int i = 0; !done; ++i) {
          const int port = ports[static_cast<std::size_t>(i + c) % kReplicas];
          if (port == killed_port) continue;
          // Every third row is asked by all clients.
          const double own = i % 3 == 0 ? 0.5 : 0.01 * c;
          const std::vector<Row> rows = {{own, 1e-4 * i}, {own, 1e-4 * i + 5e-5}};
          Socket socket(port);
          socket.Send(Post("/predict", PredictBody(rows)));
          const Reply reply = socket.Read();
          if (reply.status == 0) ++cut;
          if (reply.status != 200 && reply.status != 0) {
            EXPECT_EQ(reply.status, 503) << reply;
            ++refused;
            SleepSeconds(0.02);
          }
          if (reply.status != 200) continue;
          const auto labels = reply.Json()["labels"].get<std::vector<int>>();
          const std::lock_guard lock(mutex);
          for (std::size_t k = 0; k < rows.size(); ++k) {
            const auto [at, is_new] = answers.try_emplace(rows[k], labels[k]);
            EXPECT_EQ(at->second, labels[k]) << "one key, one answer";
          }
        }
      });
    }
    SleepSeconds(2);
    killed_port = ports[1];
    replicas[1]->process().Signal(SIGKILL);
    replicas[1]->process().Wait();
    SleepSeconds(0.5);
    postgres_->Stop(SIGQUIT);
    for (const int r : {0, 2}) {
      EXPECT_TRUE(
          WaitFor([&] { return replicas[r]->Ask(Get("/v2/health/ready")).status == 503; }, 10))
          << "who cannot pay must not be asked";
    }
    postgres_->Start();
    EXPECT_TRUE(
        WaitFor([&] { return replicas[0]->Ask(Get("/v2/health/ready")).status == 200; }, 10));
    SleepSeconds(2);
    done = true;
  }
  replicas[1] = std::make_unique<ServerProcess>(scratch_, Arguments(1, "1000000"));
  const std::int64_t charged = Charged();
  std::printf("%zd rows answered, %lld charged, %d refused, %d cut\n", answers.size(),
              static_cast<long long>(charged), refused.load(), cut.load());
  EXPECT_GT(answers.size(), 200);
  EXPECT_GT(refused, 0) << "or the crash was not noticed";
  EXPECT_GE(charged, std::ssize(answers));
  // Two rows for each request that ended without an answer; its charge may have been made.
  EXPECT_LE(charged, std::ssize(answers) + 2 * (refused + cut));
  ExpectSumsRight(std::int64_t{1} << 40);
  // All answers that were given are charged: to ask for them again, of any replica, is free.
  std::vector<Row> rows;
  std::vector<int> labels;
  for (const auto& [row, label] : answers) {
    rows.push_back(row);
    labels.push_back(label);
  }
  for (std::size_t at = 0, r = 0; at < rows.size(); at += 500, ++r) {
    const std::size_t end = std::min(rows.size(), at + 500);
    const std::vector<Row> some(rows.begin() + at, rows.begin() + end);
    EXPECT_EQ(replicas[r % kReplicas]->Labels(some),
              std::vector<int>(labels.begin() + at, labels.begin() + end));
  }
  EXPECT_EQ(Charged(), charged) << "an answer was given that nobody paid for";
  for (const auto& replica : replicas) EXPECT_EQ(replica->Stop().code, 0);
}

TEST_F(ReplicasTest, OneBudgetIsSpentOverAllOfThem) {
  constexpr int kReplicas = 3, kBudget = 100;
  std::vector<std::unique_ptr<ServerProcess>> replicas;
  for (int r = 0; r < kReplicas; ++r) {
    replicas.push_back(
        std::make_unique<ServerProcess>(scratch_, Arguments(r, std::to_string(kBudget))));
  }
  {
    std::vector<std::jthread> clients;
    for (int c = 0; c < 6; ++c) {
      clients.emplace_back([&, c] {
        for (int i = 0; i < 40; ++i) {
          EXPECT_EQ(replicas[c % kReplicas]->Labels({{0.1 * c, 0.01 * i}}).size(), 1);
        }
      });
    }
  }
  EXPECT_EQ(Charged(), kBudget);
  EXPECT_EQ(postgres_->Sql("SELECT spent / (1::bigint << 40) FROM lucid_ledger.accounts WHERE "
                           "name = ''"),
            std::to_string(kBudget));
  // Every replica knows of it, and so does the operator's page after a look at readiness.
  for (const auto& replica : replicas) {
    EXPECT_EQ(replica->Ask(Get("/v2/health/ready")).status, 200);
    EXPECT_EQ(replica->AskAdmin(Get("/status.json")).Json()["budget"]["spent"], kBudget);
  }
}

TEST_F(ReplicasTest, KeyAndLedgerGoTogether) {
  const auto serve = [&](const std::string& key, const std::string& ledger) {
    return RunLucid({"serve", scratch_ / "run", "--key-file", scratch_ / key, "--ledger", ledger,
                     "--epsilon", "1", "--listen", "127.0.0.1:0", "--admin", "", "--unchecked"},
                    {.timeout = 20});
  };
  // A key that is missing beside a ledger, a ledger beside a key, a key of another ledger.
  const Outcome no_key = serve("none", postgres_->Url());
  EXPECT_EQ(no_key.code, 2) << no_key;
  EXPECT_THAT(no_key.err, HasSubstr("there is no guard key"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "none")) << "none is made";
  const Outcome no_ledger = serve("key", scratch_ / "none.db");
  EXPECT_EQ(no_ledger.code, 2) << no_ledger;
  EXPECT_THAT(no_ledger.err, HasSubstr("lucid ledger init"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "none.db")) << "none is made";
  ASSERT_EQ(RunLucid({"ledger", "init", scratch_ / "run", "--ledger", scratch_ / "other.db",
                      "--key-file", scratch_ / "other"})
                .code,
            0);
  const Outcome other = serve("other", postgres_->Url());
  EXPECT_EQ(other.code, 1) << other;
  EXPECT_THAT(other.err, HasSubstr("lucid ledger allow"));
  ASSERT_EQ(RunLucid({"ledger", "allow", scratch_ / "run", "--ledger", postgres_->Url(),
                      "--key-file", scratch_ / "other"})
                .code,
            0);
  const ServerProcess server(scratch_, Arguments(0, "10"));
  EXPECT_EQ(server.Labels({{0.5, 0.5}}).size(), 1);
  // What the mark is for: the ledger that this server charged is not replaced by another.
  const Outcome replaced =
      RunLucid({"ledger", "init", scratch_ / "run", "--ledger", scratch_ / "new.db", "--key-file",
                scratch_ / "key", "--ledger-mark", scratch_ / "mark0"});
  EXPECT_EQ(replaced.code, 1) << replaced;
  EXPECT_THAT(replaced.err, HasSubstr("begin anew"));
}

TEST_F(ReplicasTest, TheCommandsShowAndMergeAndSayNoPassword) {
  const std::string run = scratch_ / "run";
  {
    ServerProcess server(scratch_, Arguments(0, "10"));
    server.Labels({{0.5, 0.5}, {0.25, 0.5}});
    const Outcome shown = RunLucid({"ledger", "show", run, "--ledger", postgres_->Url(), "--json"});
    EXPECT_EQ(shown.code, 0) << shown;
    EXPECT_EQ(shown.Json()["spent"], 2);
    EXPECT_EQ(shown.Json()["accounts"][0]["id"], "anonymous");
    EXPECT_GE(shown.Json()["servers"][0]["commits"], 2);
    EXPECT_EQ(server.Stop().code, 0);
  }
  ASSERT_EQ(RunLucid({"ledger", "init", run, "--ledger", scratch_ / "file.db", "--key-file",
                      scratch_ / "key"})
                .code,
            0);
  const Outcome merged = RunLucid(
      {"ledger", "merge", run, "--from", postgres_->Url(), "--ledger", scratch_ / "file.db"});
  EXPECT_EQ(merged.code, 0) << merged;
  EXPECT_THAT(merged.out, HasSubstr("anonymous"));
  const Outcome closed = RunLucid(
      std::vector<std::string>{"serve", run, "--key-file", scratch_ / "key", "--unchecked"} +
          Arguments(0, "10"),
      {.timeout = 20});
  EXPECT_EQ(closed.code, 2);
  EXPECT_THAT(closed.err, HasSubstr("is closed"));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"ledger", "show", run},
        std::vector<std::string>{"ledger", "init", run},
        std::vector<std::string>{"serve", run, "--epsilon", "1", "--unchecked", "--key-file",
                                 scratch_ / "key"}}) {
    const Outcome outcome =
        RunLucid(command + std::vector<std::string>{"--ledger", "postgresql://u:geheim@h/d"},
                 {.timeout = 20});
    EXPECT_EQ(outcome.code, 2) << outcome;
    EXPECT_THAT(outcome.err, HasSubstr("has a password"));
    EXPECT_THAT(outcome.err + outcome.out, Not(HasSubstr("geheim")));
  }
}

}  // namespace
}  // namespace lucid::test
