// Two replicas with all that a fleet has, for a given time: one ledger in PostgreSQL, HTTP and
// gRPC, TLS, API keys, and a SIGHUP every few seconds after which certificate and keys are others.
// LUCID_SOAK_SECONDS: how long (default: a minute). bench/run_soak runs it for an hour.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

#include "grpc/grpc_client.h"
#include "support/postgres.h"
#include "support/tls_files.h"

namespace lucid::test {
namespace {

constexpr int kReplicas = 2, kClients = 8;
constexpr int kShared = 3;          // every third row is asked by all clients
constexpr int kOfConnection = 200;  // requests, then there is a new one

double SecondsFromEnvironment() {
  const char* text = std::getenv("LUCID_SOAK_SECONDS");
  return text == nullptr ? 60 : std::strtod(text, nullptr);
}

double ResidentMegabytes(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/statm", pid));
  double pages = 0, resident = 0;
  in >> pages >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

// HTTP over TLS, kept alive.
class TlsConnection {
 public:
  explicit TlsConnection(int port) : context_(SSL_CTX_new(TLS_client_method())) {
    bio_ = BIO_new_ssl_connect(context_);
    BIO_set_conn_hostname(bio_, fmt::format("127.0.0.1:{}", port).c_str());
    open_ = BIO_do_connect(bio_) == 1 && BIO_do_handshake(bio_) == 1;
  }
  ~TlsConnection() {
    BIO_free_all(bio_);
    SSL_CTX_free(context_);
  }
  TlsConnection(const TlsConnection&) = delete;
  TlsConnection& operator=(const TlsConnection&) = delete;

  Reply Ask(const std::string& request) {
    Reply reply;
    if (!open_ || BIO_write(bio_, request.data(), static_cast<int>(request.size())) <= 0) return {};
    std::string bytes;
    std::size_t end = std::string::npos, whole = 0;
    while (end == std::string::npos || bytes.size() < whole) {
      char block[4096];
      const int n = BIO_read(bio_, block, sizeof(block));
      if (n <= 0) return {};
      bytes.append(block, static_cast<std::size_t>(n));
      if (end == std::string::npos && (end = bytes.find("\r\n\r\n")) != std::string::npos) {
        reply.head = bytes.substr(0, end + 4);
        whole = end + 4 + std::stoul("0" + reply.Field("Content-Length"));
      }
    }
    reply.status = std::stoi(reply.head.substr(9, 3));
    reply.body = bytes.substr(end + 4);
    return reply;
  }

 private:
  SSL_CTX* context_;
  BIO* bio_;
  bool open_ = false;
};

class SoakTest : public GrpcTest {
 protected:
  void SetUp() override {
    if (!PostgresServer::Missing().empty()) GTEST_SKIP() << PostgresServer::Missing();
    GrpcTest::SetUp();
    postgres_ = std::make_unique<PostgresServer>();
    ASSERT_EQ(RunLucid({"ledger", "init", scratch_ / "run", "--ledger", postgres_->Url(),
                        "--key-file", scratch_ / "key"})
                  .code,
              0);
    for (std::size_t k = 0; k < keys_.size(); ++k) keys_[k] = Keys(k, "create", {});
    for (const char* which : {"0", "1"}) {
      MakeTlsFiles("lucid.test", scratch_ / "tls.pem" + which, scratch_ / "tls.key" + which);
      trusted_ += ReadBytes(scratch_ / "tls.pem" + which);
    }
    UseCertificate(0);
    for (int r = 0; r < kReplicas; ++r) {
      WriteBytes(LogOf(r), "");
      replicas_.push_back(std::make_unique<ServerProcess>(
          scratch_,
          std::vector<std::string>{
              "--grpc", "127.0.0.1:0", "--epsilon", "0.25", "--ledger", postgres_->Url(),
              "--ledger-mark", scratch_ / fmt::format("mark{}", r), "--budget", "1000000",
              "--api-keys", scratch_ / "keys.toml", "--tls-cert", scratch_ / "tls.pem", "--tls-key",
              scratch_ / "tls.key", "--request-time", "60s"},
          RunOptions{.stderr_to = LogOf(r), .timeout = 1e6}));
      ASSERT_GT(replicas_.back()->grpc_port(), 0) << ReadBytes(LogOf(r));
    }
  }

  std::string LogOf(int replica) const { return scratch_ / fmt::format("log{}", replica); }
  static std::string IdOf(std::size_t key) { return key == 0 ? "alice" : "bob"; }
  std::string Keys(std::size_t key, const std::string& verb,
                   const std::vector<std::string>& more) const {
    const Outcome made =
        RunLucid(std::vector<std::string>{"keys", verb, "--file", scratch_ / "keys.toml", "--id",
                                          IdOf(key), "--quiet"} +
                 more);
    EXPECT_EQ(made.code, 0) << made;
    return made.out.substr(0, made.out.find('\n'));
  }
  void UseCertificate(int which) const {
    for (const std::string& file : {scratch_ / "tls.pem", scratch_ / "tls.key"}) {
      std::filesystem::copy_file(file + std::to_string(which), file,
                                 std::filesystem::copy_options::overwrite_existing);
    }
  }
  // Another certificate, and a new secret for one of the keys.
  void Reload(int count) {
    UseCertificate(count % 2);
    const std::size_t changed = static_cast<std::size_t>(count) % keys_.size();
    const std::string secret = Keys(changed, "rotate", {"--overlap", "1h"});
    for (const auto& replica : replicas_) {
      replica->process().Signal(SIGHUP);
      const std::string line = fmt::format("\nlucid_reloads_total {}\n", count);
      EXPECT_TRUE(WaitFor(
          [&] {
            SleepSeconds(0.05);
            return replica->AskAdmin(Get("/metrics")).body.find(line) != std::string::npos;
          },
          60));
    }
    const std::lock_guard lock(mutex_);
    keys_[changed] = secret;
  }

  // Rows that a float32 holds; no two are the same.
  static Row OwnRow(int client, int i) { return {(client + 1) / 16.0, i / 4194304.0}; }
  static Row SharedRow(int i) { return {15 / 16.0, i / kShared / 4194304.0}; }

  // What one client does until it is told to stop; counts what was answered.
  void Ask(int client);
  std::vector<int> LabelsByHttp(TlsConnection& connection, const std::string& key,
                                const std::vector<Row>& rows) {
    const Reply reply = connection.Ask(
        Post("/predict", PredictBody(rows), "Authorization: Bearer " + key + "\r\n"));
    if (reply.status != 200) {
      Fail(fmt::format("HTTP {} {}", reply.status, reply.body));
      return {};
    }
    return reply.Json()["labels"].get<std::vector<int>>();
  }
  std::vector<int> LabelsByGrpc(Stub& stub, const std::string& key, const std::vector<Row>& rows) {
    ModelInferResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(70));
    context.AddMetadata("authorization", "Bearer " + key);
    const grpc::Status status = stub.ModelInfer(&context, Raw(rows), &response);
    if (status.ok()) return LabelsIn(response);
    Fail(fmt::format("gRPC {} {}", static_cast<int>(status.error_code()), status.error_message()));
    return {};
  }
  void Fail(const std::string& why) {
    if (++errors_ <= 20) std::printf("%s\n", why.c_str()), std::fflush(stdout);
  }
  void Report(double seconds) const {
    std::int64_t answers = 0;
    for (const auto& count : answered_) answers += count;
    std::printf("%6.0f s  resident %.1f and %.1f MB, %lld requests answered, %d errors\n", seconds,
                ResidentMegabytes(replicas_[0]->process().pid()),
                ResidentMegabytes(replicas_[1]->process().pid()), static_cast<long long>(answers),
                errors_.load());
    std::fflush(stdout);
  }
  // What the ledger says beside what the clients have counted.
  void ExpectSumsRight() const;

  std::unique_ptr<PostgresServer> postgres_;
  std::vector<std::unique_ptr<ServerProcess>> replicas_;
  std::string trusted_;
  std::atomic<bool> done_{false};
  std::atomic<int> errors_{0};
  std::array<std::atomic<int>, kClients> answered_{};  // requests of each client
  std::mutex mutex_;                                   // guards keys_ and shared_labels_
  std::array<std::string, 2> keys_;
  std::vector<int> shared_labels_;
};

void SoakTest::Ask(int client) {
  const ServerProcess& replica = *replicas_[static_cast<std::size_t>(client) % kReplicas];
  const bool by_grpc = client / 2 % 2 == 1;
  const std::size_t account = static_cast<std::size_t>(client) / 4;
  std::unique_ptr<TlsConnection> http;
  std::unique_ptr<Stub> stub;
  for (int i = 0; !done_; ++i) {
    if (i % kOfConnection == 0 && by_grpc) stub = TlsStubOf(replica, trusted_);
    if (i % kOfConnection == 0 && !by_grpc) http = std::make_unique<TlsConnection>(replica.port());
    std::string key;
    {
      const std::lock_guard lock(mutex_);
      key = keys_[account];
    }
    const std::vector<Row> rows = {OwnRow(client, i), SharedRow(i)};
    const std::vector<int> labels =
        by_grpc ? LabelsByGrpc(*stub, key, rows) : LabelsByHttp(*http, key, rows);
    if (labels.size() != rows.size()) return Fail(fmt::format("client {} gives up", client));
    ++answered_[static_cast<std::size_t>(client)];
    {
      const std::lock_guard lock(mutex_);
      const auto at = static_cast<std::size_t>(i / kShared);
      if (at >= shared_labels_.size()) shared_labels_.push_back(labels[1]);
      if (shared_labels_[at] != labels[1]) Fail("one input, one key, two answers");
    }
    SleepSeconds(0.02);
  }
}

void SoakTest::ExpectSumsRight() const {
  constexpr std::int64_t kCost = std::int64_t{1} << 38;  // epsilon 0.25
  const auto expect = [&](const std::string& account, std::size_t first, std::size_t last) {
    std::int64_t own = 0, shared = 0;
    for (std::size_t c = first; c < last; ++c) {
      own += answered_[c];
      shared = std::max<std::int64_t>(shared, (answered_[c] + kShared - 1) / kShared);
    }
    const std::string name = account.empty() ? "''" : fmt::format("'{}'", account);
    EXPECT_EQ(postgres_->Sql("SELECT answers, spent FROM lucid_ledger.accounts WHERE name = " +
                             name + "::bytea"),
              fmt::format("{}|{}", own + shared, kCost * (own + shared)))
        << account;
    std::printf("account %s: %lld rows answered for the first time, as many charged\n",
                name.c_str(), static_cast<long long>(own + shared));
  };
  expect("", 0, kClients);
  expect("alice", 0, kClients / 2);
  expect("bob", kClients / 2, kClients);
  EXPECT_EQ(postgres_->Sql("SELECT count(*) FROM lucid_ledger.accounts a WHERE (spent, answers) <> "
                           "(SELECT coalesce(sum(cost), 0), count(*) FROM lucid_ledger.charges "
                           "WHERE account = a.id)"),
            "0");
}

TEST_F(SoakTest, MemoryStaysNothingFailsAndEverySumIsRight) {
  const double seconds = SecondsFromEnvironment();
  const double settled = std::min(60.0, seconds / 3);
  std::array<double, kReplicas> at_first{};
  int reloads = 0;
  {
    Report(0);
    std::vector<std::jthread> clients;
    for (int c = 0; c < kClients; ++c) clients.emplace_back([this, c] { Ask(c); });
    const double start = Now();
    double next_reload = 5, next_report = settled;
    for (double now = 0; now < seconds && errors_ == 0; now = Now() - start) {
      SleepSeconds(0.2);
      if (now >= next_reload) {
        Reload(++reloads);
        next_reload += 20;
      }
      if (now < next_report) continue;
      Report(now);
      next_report += std::max(300.0, settled);
      for (std::size_t r = 0; r < kReplicas && at_first[r] == 0; ++r) {
        at_first[r] = ResidentMegabytes(replicas_[r]->process().pid());
      }
    }
    done_ = true;
  }
  Report(seconds);
  std::printf("%d reloads of each replica\n", reloads);
  for (std::size_t r = 0; r < kReplicas; ++r) {
    EXPECT_LT(ResidentMegabytes(replicas_[r]->process().pid()), 1.1 * at_first[r] + 4) << r;
  }
  EXPECT_EQ(errors_, 0);
  ExpectSumsRight();
  for (int r = 0; r < kReplicas; ++r) {
    EXPECT_EQ(replicas_[static_cast<std::size_t>(r)]->Stop().code, 0);
    std::ifstream log(LogOf(r));
    for (std::string line; std::getline(log, line);) {
      EXPECT_EQ(line.find(" error: "), std::string::npos) << line;
    }
  }
}

}  // namespace
}  // namespace lucid::test
