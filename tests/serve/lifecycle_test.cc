// Starting, reloading, draining, dying.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>

#include "serve/server.h"
#include "support/tls_files.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;

class LifecycleTest : public testing::Test {
 protected:
  void SetUp() override { MakeRun(scratch_ / "run"); }

  // `lucid keys create`: the new key.
  std::string AddKey(const std::string& id, const std::vector<std::string>& more = {}) {
    const Outcome outcome = RunLucid(
        std::vector<std::string>{"keys", "create", "--file", scratch_ / "keys.toml", "--id", id} +
        more);
    EXPECT_EQ(outcome.code, 0) << outcome;
    const std::vector<std::string> words = Words(outcome.out);
    const auto key = std::ranges::find_if(
        words, [](const std::string& word) { return word.starts_with("lucid."); });
    return key == words.end() ? "" : *key;
  }
  static int StatusFor(const ServerProcess& server, const std::string& key) {
    return server.Ask(Post("/predict", kBody, "Authorization: Bearer " + key + "\r\n")).status;
  }

  static constexpr const char* kBody = R"({"input":[[0.2,0.7]]})";
  Scratch scratch_;
};

struct TlsReply {
  bool connected = false;
  std::string subject, response;
};

// `certificate`, `key`: files of the client's own; empty: it has none.
TlsReply AskByTls(int port, const std::string& request, int newest = TLS1_3_VERSION,
                  const std::string& certificate = "", const std::string& key = "") {
  TlsReply reply;
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (!certificate.empty()) {
    EXPECT_EQ(SSL_CTX_use_certificate_file(context, certificate.c_str(), SSL_FILETYPE_PEM), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM), 1);
  }
  SSL_CTX_set_security_level(context, 0);  // so that only the server's rules are tried
  SSL_CTX_set_min_proto_version(context, TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context, newest);
  BIO* bio = BIO_new_ssl_connect(context);
  BIO_set_conn_hostname(bio, fmt::format("127.0.0.1:{}", port).c_str());
  if (BIO_do_connect(bio) == 1 && BIO_do_handshake(bio) == 1) {
    reply.connected = true;
    SSL* ssl = nullptr;
    BIO_get_ssl(bio, &ssl);
    X509* peer = SSL_get1_peer_certificate(ssl);
    char name[256];
    X509_NAME_oneline(X509_get_subject_name(peer), name, sizeof(name));
    reply.subject = name;
    X509_free(peer);
    BIO_write(bio, request.data(), static_cast<int>(request.size()));
    char block[4096];
    for (int n = 0; (n = BIO_read(bio, block, sizeof(block))) > 0;) {
      reply.response.append(block, static_cast<std::size_t>(n));
    }
  }
  BIO_free_all(bio);
  SSL_CTX_free(context);
  return reply;
}

TEST_F(LifecycleTest, SigtermDropsNoAcceptedRequest) {
  ServerProcess server(scratch_, {"--drain-grace", "500ms"});
  std::atomic<bool> stopping{false};
  std::atomic<int> answered{0}, answered_late{0}, lost{0};
  const auto ask = [&](int client) {
    while (true) {
      Socket socket(server.port());
      bool open = true;
      for (int i = 0; open; ++i) {
        socket.Send(Post("/predict", PredictBody({{0.1 * client, 1e-4 * i}})));
        const Reply reply = socket.Read();
        if (reply.status != 200) {
          // A connection that came too late to be accepted is refused or reset. One that was
          // accepted ends only after an answer that says so.
          if (i > 0 || !stopping) ++lost;
          return;
        }
        ++(stopping ? answered_late : answered);
        open = reply.Field("Connection") != "close";
      }
    }
  };
  std::vector<std::jthread> clients;
  for (int client = 0; client < 8; ++client) clients.emplace_back(ask, client);
  ASSERT_TRUE(WaitFor([&] { return answered > 500; }, 60));
  stopping = true;
  server.process().Signal(SIGTERM);
  const Outcome outcome = server.process().Wait();
  clients.clear();
  EXPECT_EQ(outcome.code, 0) << outcome.code;
  EXPECT_EQ(lost, 0);
  EXPECT_GT(answered_late, 0);
}

TEST_F(LifecycleTest, ARequestThatHasBegunIsAnsweredDuringTheDrain) {
  ServerProcess server(scratch_, {"--drain-grace", "1ms"});
  const std::string request = Post("/predict", kBody);
  Socket begun(server.port()), idle(server.port());
  for (Socket* socket : {&begun, &idle}) {  // so that neither counts until it begins a request
    socket->Send(Get("/v2"));
    EXPECT_EQ(socket->Read().status, 200);
  }
  begun.Send(request.substr(0, request.size() - 5));
  ASSERT_TRUE(WaitFor(
      [&] { return server.AskAdmin(Get("/status.json")).Json()["traffic"]["half_open"] == 1; },
      10));
  server.process().Signal(SIGTERM);
  EXPECT_TRUE(idle.AtEnd()) << "idle connections end";
  SleepSeconds(3);  // a slow client: longer than an idle connection would be given
  begun.Send(request.substr(request.size() - 5));
  const Reply reply = begun.Read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.Field("Connection"), "close");
  EXPECT_TRUE(begun.AtEnd());
  const Outcome outcome = server.process().Wait();
  EXPECT_EQ(outcome.code, 0) << outcome;
}

TEST_F(LifecycleTest, TheDrainEndsEvenIfAClientDoesNot) {
  ServerProcess server(scratch_, {"--drain-grace", "1ms", "--drain-time", "300ms"});
  Socket stuck(server.port());
  stuck.Send(Get("/v2"));  // so that it does not count until it begins a request
  EXPECT_EQ(stuck.Read().status, 200);
  const std::string request = Post("/predict", kBody);
  stuck.Send(request.substr(0, request.size() - 5));
  ASSERT_TRUE(WaitFor(
      [&] { return server.AskAdmin(Get("/status.json")).Json()["traffic"]["half_open"] == 1; },
      10));
  const double start = Now();
  EXPECT_EQ(server.Stop().code, 0);
  EXPECT_LT(Now() - start, 5);
}

TEST_F(LifecycleTest, ExpiredAndRevokedKeysAndReload) {
  const std::string alice = AddKey("alice");
  ASSERT_THAT(alice, HasSubstr("alice"));
  const std::string old = AddKey("old", {"--expires", "2099-01-01"});
  std::string file = ReadBytes(scratch_ / "keys.toml");
  const std::string year = "expires = 2099";  // the digits alone may stand in a hash, too
  ASSERT_THAT(file, HasSubstr(year));
  file.replace(file.find(year), year.size(), "expires = 2020");
  WriteBytes(scratch_ / "keys.toml", file);
  ServerProcess server(scratch_, {"--api-keys", scratch_ / "keys.toml"});
  EXPECT_EQ(StatusFor(server, alice), 200);
  EXPECT_EQ(StatusFor(server, old), 401);
  EXPECT_EQ(StatusFor(server, "nonsense"), 401);
  EXPECT_EQ(server.Ask(Post("/predict", kBody)).status, 401);
  EXPECT_EQ(server.Ask(Post("/predict", kBody, "X-API-Key: " + alice + "\r\n")).status, 200);

  const std::string bob = AddKey("bob");
  EXPECT_EQ(StatusFor(server, bob), 401) << "not before the reload";
  ASSERT_EQ(RunLucid({"keys", "revoke", "--file", scratch_ / "keys.toml", "--id", "alice"}).code,
            0);
  server.process().Signal(SIGHUP);
  EXPECT_TRUE(WaitFor([&] { return StatusFor(server, bob) == 200; }, 10));
  EXPECT_EQ(StatusFor(server, alice), 403);

  WriteBytes(scratch_ / "keys.toml", "version = ");
  server.process().Signal(SIGHUP);
  ASSERT_TRUE(WaitFor(
      [&] { return server.process().Err().find("reload failed") != std::string::npos; }, 10));
  EXPECT_EQ(StatusFor(server, bob), 200) << "the old keys stay in service";
  EXPECT_THAT(server.AskAdmin(Get("/status.json")).Json()["note"].get<std::string>(),
              HasSubstr("reload failed"));
  EXPECT_EQ(server.Stop().code, 0);
}

TEST_F(LifecycleTest, AKeyMayHaveItsOwnRate) {
  const std::string slow = AddKey("slow", {"--rate", "0.1"}), free = AddKey("free");
  const ServerProcess server(scratch_, {"--api-keys", scratch_ / "keys.toml"});
  EXPECT_EQ(StatusFor(server, slow), 200);
  EXPECT_EQ(StatusFor(server, slow), 429);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(StatusFor(server, free), 200) << "not the other's";
}

TEST_F(LifecycleTest, ABadCertificateAtReloadLeavesTheOldInService) {
  ServerProcess server(scratch_);
  const std::string path = scratch_ / "run/certificate.json";
  const std::string good = ReadBytes(path);
  const std::vector<int> labels = server.Labels({{0.2, 0.7}, {0.7, 0.2}});
  std::string damaged = good;
  damaged[good.size() / 2] ^= 1;
  WriteBytes(path, damaged);
  server.process().Signal(SIGHUP);
  ASSERT_TRUE(WaitFor(
      [&] { return server.process().Err().find("reload failed") != std::string::npos; }, 10));
  EXPECT_EQ(server.Labels({{0.2, 0.7}, {0.7, 0.2}}), labels);
  WriteBytes(path, good);
  server.process().Signal(SIGHUP);
  ASSERT_TRUE(
      WaitFor([&] { return server.process().Err().find("reloaded") != std::string::npos; }, 10));
  EXPECT_EQ(server.Labels({{0.2, 0.7}, {0.7, 0.2}}), labels);
}

TEST_F(LifecycleTest, TlsIsModernAndReloads) {
  const std::string certificate = scratch_ / "tls.pem", key = scratch_ / "tls.key";
  MakeTlsFiles("first", certificate, key);
  ServerProcess server(scratch_, {"--tls-cert", certificate, "--tls-key", key});
  const std::string request = Post("/predict", kBody, "Connection: close\r\n");
  const TlsReply first = AskByTls(server.port(), request);
  EXPECT_THAT(first.subject, HasSubstr("first"));
  EXPECT_THAT(first.response, HasSubstr("200 OK"));
  EXPECT_THAT(first.response, HasSubstr("Strict-Transport-Security"));
  EXPECT_TRUE(AskByTls(server.port(), request, TLS1_2_VERSION).connected);
  EXPECT_FALSE(AskByTls(server.port(), request, TLS1_1_VERSION).connected);
  EXPECT_EQ(server.Ask(Get("/v2")).status, 0) << "plain HTTP gets nothing";

  MakeTlsFiles("second", certificate, key);
  server.process().Signal(SIGHUP);
  EXPECT_TRUE(WaitFor(
      [&] { return AskByTls(server.port(), request).subject.find("second") != std::string::npos; },
      10));
  EXPECT_EQ(server.Stop().code, 0);
}

TEST_F(LifecycleTest, APrivateKeyThatOthersMayReadIsRefused) {
  const std::string certificate = scratch_ / "tls.pem", key = scratch_ / "tls.key";
  MakeTlsFiles("first", certificate, key);
  for (const unsigned mode : {0604U, 0602U, 0640U}) {
    std::filesystem::permissions(key, std::filesystem::perms(mode));
    if (mode == 0640) {  // of a group, as a server that is not its owner needs it
      ServerProcess server(scratch_, {"--tls-cert", certificate, "--tls-key", key});
      EXPECT_EQ(server.Stop().code, 0);
      continue;
    }
    const Outcome refused = RunLucid({"serve", scratch_ / "run", "--key-file", scratch_ / "key",
                                      "--unchecked", "--listen", "127.0.0.1:0", "--admin", "",
                                      "--tls-cert", certificate, "--tls-key", key});
    EXPECT_EQ(refused.code, 2) << refused;
    EXPECT_THAT(refused.err, HasSubstr(fmt::format("has mode {:04o}", mode)));
  }
}

// With --tls-client-ca whoever has no certificate of it gets nothing, with TLS 1.2 and 1.3.
TEST_F(LifecycleTest, ClientsMayNeedACertificate) {
  const auto file = [&](const char* name) { return scratch_ / name; };
  for (const char* name : {"server", "client", "stranger"}) {
    MakeTlsFiles(name, scratch_ / (std::string(name) + ".pem"),
                 scratch_ / (std::string(name) + ".key"));
  }
  ServerProcess server(scratch_, {"--tls-cert", file("server.pem"), "--tls-key", file("server.key"),
                                  "--tls-client-ca", file("client.pem")});
  const std::string request = Post("/predict", kBody, "Connection: close\r\n");
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    for (int again = 0; again < 2; ++again) {  // also not by a session that is resumed
      EXPECT_THAT(AskByTls(server.port(), request, version, file("client.pem"), file("client.key"))
                      .response,
                  HasSubstr("200 OK"));
      EXPECT_EQ(AskByTls(server.port(), request, version).response, "");
      EXPECT_EQ(
          AskByTls(server.port(), request, version, file("stranger.pem"), file("stranger.key"))
              .response,
          "");
    }
  }
  WriteBytes(scratch_ / "junk", "junk");
  const Outcome refused =
      RunLucid({"serve", scratch_ / "run", "--key-file", scratch_ / "key", "--unchecked",
                "--listen", "127.0.0.1:0", "--admin", "", "--tls-cert", file("server.pem"),
                "--tls-key", file("server.key"), "--tls-client-ca", file("junk")});
  EXPECT_EQ(refused.code, 2) << refused;
  EXPECT_THAT(refused.err, HasSubstr("holds no certificates"));
}

TEST_F(LifecycleTest, TheOperatorsPagesMayBeASocketOfTheFileSystem) {
  const std::string path = scratch_ / "admin.sock";
  const std::vector<std::string> arguments = {"--admin", "unix:" + path};
  const auto ask = [&](const std::string& request) {
    Socket socket(path);
    socket.Send(request);
    return socket.ReadSecrets();
  };
  ServerProcess server(scratch_, arguments);
  EXPECT_EQ(ask(Get("/status.json")).status, 421) << "a Host that is not its own";
  const std::string local = "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(ask(local).Json()["ready"], true);
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(server.Labels({{0.2, 0.7}}).size(), 1);
  const auto serve = [&](const std::string& admin) {
    return RunLucid({"serve", scratch_ / "run", "--key-file", scratch_ / "key", "--unchecked",
                     "--listen", "127.0.0.1:0", "--admin", admin},
                    {.timeout = 20});
  };
  const Outcome second = serve("unix:" + path);
  EXPECT_EQ(second.code, 2) << second;
  EXPECT_THAT(second.err, HasSubstr("another server does"));
  EXPECT_EQ(ask(local).status, 200) << "and the first goes on";
  server.process().Signal(SIGKILL);
  server.process().Wait();
  ASSERT_TRUE(std::filesystem::exists(path));
  ServerProcess next(scratch_, arguments);
  EXPECT_EQ(ask(local).status, 200) << "what a killed one left is no obstacle";
  EXPECT_EQ(next.Stop().code, 0);
  EXPECT_FALSE(std::filesystem::exists(path));
  WriteBytes(path, "a file");
  EXPECT_THAT(serve("unix:" + path).err, HasSubstr("it is a file"));
  EXPECT_EQ(ReadBytes(path), "a file");
  EXPECT_THAT(serve("unix:relative").err, HasSubstr("from the root on"));
}

TEST_F(LifecycleTest, TheOperatorsPagesMayAskForAToken) {
  const std::string token = "0123456789abcdef0123";
  WriteBytes(scratch_ / "token", token + "\n");
  const auto serve = [&] {
    return RunLucid({"serve", scratch_ / "run", "--key-file", scratch_ / "key", "--unchecked",
                     "--listen", "127.0.0.1:0", "--admin-token", scratch_ / "token"},
                    {.timeout = 20});
  };
  std::filesystem::permissions(scratch_ / "token", std::filesystem::perms(0644));
  EXPECT_THAT(serve().err, HasSubstr("has mode 0644"));
  std::filesystem::permissions(scratch_ / "token", std::filesystem::perms(0600));
  ServerProcess server(scratch_, {"--admin-token", scratch_ / "token"});
  const auto ask = [&](const std::string& path, const std::string& authorization) {
    return server
        .AskAdmin(
            Get(path, authorization.empty() ? "" : "Authorization: " + authorization + "\r\n"))
        .status;
  };
  for (const char* path : {"/", "/status.json", "/metrics", "/nothing"}) {
    for (const std::string& wrong :
         {std::string(), "Bearer " + token + "4", "Bearer " + token.substr(1),
          std::string("Bearer "), std::string("Basic !"), std::string("Basic Og=="), token}) {
      EXPECT_EQ(ask(path, wrong), 401) << path << wrong;
    }
  }
  EXPECT_EQ(ask("/status.json", "Bearer " + token), 200);
  EXPECT_EQ(ask("/metrics", "bearer " + token), 200);
  // "operator:0123456789abcdef0123", as a browser sends it.
  EXPECT_EQ(ask("/", "Basic b3BlcmF0b3I6MDEyMzQ1Njc4OWFiY2RlZjAxMjM="), 200);
  EXPECT_EQ(ask("/healthz", ""), 200);
  const Outcome stopped = server.Stop();
  EXPECT_EQ(stopped.err.find(token), std::string::npos);
  WriteBytes(scratch_ / "token", "short\n");
  EXPECT_THAT(serve().err, HasSubstr("16 to 256"));
}

TEST_F(LifecycleTest, WhatIsWrongIsSaidAtTheStart) {
  const auto run = [&](const std::vector<std::string>& more) {
    return RunLucid(std::vector<std::string>{"serve", scratch_ / "run", "--key-file",
                                             scratch_ / "key", "--unchecked"} +
                        WithDefaults({"--admin", "127.0.0.1:0"}, more),
                    {.timeout = 20});
  };
  WriteBytes(scratch_ / "junk", "junk");
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--listen", "0.0.0.0:0"}, "--insecure-listen"},
      {{"--listen", "0.0.0.0:0", "--api-keys", scratch_ / "none"}, "--insecure-listen"},
      {{"--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0"}, "admin: 0.0.0.0:0 can be reached"},
      {{"--listen", "localhost"}, "ADDRESS:PORT"},
      {{"--listen", "127.0.0.1:99999"}, "ADDRESS:PORT"},
      {{"--listen", ""}, "ADDRESS:PORT"},
      {{"--listen", "127.0.0.1:0", "--epsilon", "1"}, "--ledger"},
      {{"--listen", "127.0.0.1:0", "--epsilon", "-1"}, "epsilon"},
      {{"--listen", "127.0.0.1:0", "--epsilon", "nan"}, "epsilon"},
      {{"--listen", "127.0.0.1:0", "--api-keys", scratch_ / "none"}, "none"},
      {{"--listen", "127.0.0.1:0", "--tls-cert", scratch_ / "junk"}, "both"},
      {{"--listen", "127.0.0.1:0", "--tls-cert", scratch_ / "junk", "--tls-key", scratch_ / "junk"},
       "junk"},
      {{"--listen", "127.0.0.1:0", "--name", "a/b"}, "name"},
      {{"--listen", "127.0.0.1:0", "--max-rows", "0"}, "max-rows"},
      {{"--listen", "127.0.0.1:0", "--memo", "dictionary"}, "memo-file"},
      {{"--listen", "127.0.0.1:0", "--memo", "dictionary", "--memo-file", scratch_ / "memo.db",
        "--memo-limit", "10"},
       "memo-limit"},
      {{"--listen", "127.0.0.1:0", "--tls-cert", scratch_ / "none", "--tls-key", scratch_ / "junk"},
       "No such file"},
      {{"--listen", "127.0.0.1:0", "--certificate", scratch_ / "junk"}, "junk"},
      {{"--listen", "127.0.0.1:0", "--latency-floor", "2s", "--request-time", "2s"},
       "latency-floor: 2 s is not below request-time"},
      {{"--listen", "127.0.0.1:0", "--epsilon", "1", "--ledger", scratch_ / "a.db", "--memo",
        "dictionary", "--memo-file", scratch_ / "./a.db"},
       "memo-file and ledger: both"},
      {{"--listen", "127.0.0.1:0", "--epsilon", "1", "--ledger", scratch_ / "key"}, "key-file"},
  };
  for (const auto& [arguments, word] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments.back() << "\n" << outcome;
    EXPECT_THAT(outcome.err, HasSubstr(word)) << arguments.back();
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome;
    for (const char* file : {"key", "a.db", "memo.db"}) {
      EXPECT_FALSE(std::filesystem::exists(scratch_ / file)) << arguments.back();
    }
  }
  ServerProcess first(scratch_);
  const Outcome taken = run({"--listen", fmt::format("127.0.0.1:{}", first.port())});
  EXPECT_EQ(taken.code, 2);
  EXPECT_THAT(taken.err, HasSubstr("cannot listen"));
}

TEST_F(LifecycleTest, ARotatedKeyIsTheSameClient) {
  const std::string alice = AddKey("alice");
  ServerProcess server(scratch_, {"--api-keys", scratch_ / "keys.toml", "--epsilon", "1",
                                  "--ledger", scratch_ / "ledger.db"});
  EXPECT_EQ(StatusFor(server, alice), 200);
  const Outcome rotated =
      RunLucid({"keys", "rotate", "--file", scratch_ / "keys.toml", "--id", "alice", "--json"});
  ASSERT_EQ(rotated.code, 0) << rotated;
  const std::string renewed = rotated.Json()["key"];
  EXPECT_EQ(StatusFor(server, renewed), 401) << "not before it is read";
  server.process().Signal(SIGHUP);
  EXPECT_TRUE(WaitFor([&] { return StatusFor(server, renewed) == 200; }, 10));
  EXPECT_EQ(StatusFor(server, alice), 200) << "for the time of the overlap";
  const nlohmann::json budget = server.AskAdmin(Get("/status.json")).Json()["budget"];
  ASSERT_EQ(budget["accounts"].size(), 1) << budget;
  EXPECT_EQ(budget["accounts"][0]["answers"], 1) << "one row, asked with both";
  ASSERT_EQ(RunLucid({"keys", "rotate", "--file", scratch_ / "keys.toml", "--id", "alice",
                      "--overlap", "1s"})
                .code,
            0);
  server.process().Signal(SIGHUP);
  EXPECT_TRUE(WaitFor([&] { return StatusFor(server, renewed) == 401; }, 10));
  EXPECT_EQ(StatusFor(server, alice), 401);
}

// How long the exact guard looks tells which inputs are noised.
TEST_F(LifecycleTest, TheExactGuardIsNotServedWithoutALatencyFloor) {
  const std::vector<std::string> serve = {
      "serve",       scratch_ / "run", "--key-file", scratch_ / "key", "--unchecked", "--listen",
      "127.0.0.1:0", "--admin",        "",           "--guard",        "exact"};
  const Outcome refused = RunLucid(serve);
  EXPECT_EQ(refused.code, 2) << refused;
  EXPECT_THAT(refused.err, HasSubstr("give --latency-floor"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "key"));
  const ServerProcess server(scratch_, {"--guard", "exact", "--latency-floor", "5ms"});
  EXPECT_EQ(server.Labels({{0.2, 0.7}}).size(), 1);
}

TEST_F(LifecycleTest, NoCoreDumpCanHoldKeys) {
  ServerProcess server(scratch_);
  const std::string limits = ReadBytes(fmt::format("/proc/{}/limits", server.process().pid()));
  const std::size_t at = limits.find("Max core file size");
  ASSERT_NE(at, std::string::npos) << limits;
  const std::vector<std::string> words = Words(limits.substr(at, limits.find('\n', at) - at));
  EXPECT_THAT(words, testing::ElementsAre("Max", "core", "file", "size", "0", "0", "bytes"));
}

TEST_F(LifecycleTest, ItWarnsOfRoot) {
  ServerProcess server(scratch_);
  const std::string log = server.Stop().err;
  EXPECT_EQ(log.find("runs as root") != std::string::npos, geteuid() == 0) << log;
}

TEST_F(LifecycleTest, ConnectionsThatCannotBeOpenedAreNotPromised) {
  const auto serve = [&](const std::string& limit, int connections) {
    const std::string command = fmt::format(
        "ulimit {}; exec {} serve {} --unchecked --key-file {} --listen 127.0.0.1:0 --admin '' "
        "--max-connections {} --ready-file {}",
        limit, LUCID_PROGRAM, scratch_ / "run", scratch_ / "key", connections, scratch_ / "ready");
    return std::make_unique<Process>(std::vector<std::string>{"-c", command},
                                     RunOptions{.program = "/bin/sh"});
  };
  const Outcome refused = serve("-n 200", 100)->Wait();
  EXPECT_EQ(refused.code, 2) << refused;
  EXPECT_THAT(refused.err, HasSubstr("max-connections: 100 connections need 292 open files"));
  const auto raised = serve("-Sn 200", 100);
  EXPECT_TRUE(WaitFor([&] { return std::filesystem::exists(scratch_ / "ready"); }, 30));
  raised->Signal(SIGTERM);
  EXPECT_EQ(raised->Wait().code, 0) << "the soft limit is the server's to raise";
}

TEST_F(LifecycleTest, WhatTheCertificateDoesNotPromiseIsLogged) {
  const std::string run = scratch_ / "run";
  std::filesystem::remove_all(run);
  for (const std::string& command :
       {"train --data " + run + "-data --out " + run + " --members 3 --epochs 5 --arch 2x6",
        "bound " + run + " --time-limit 30s"}) {
    ASSERT_EQ(RunLucid(Words(command)).code, 0) << command;
  }
  ServerProcess server(scratch_);
  const auto warned = [&](const std::string& words) {
    int times = 0;
    const std::string& log = server.process().Err();
    for (auto at = log.find(words); at != std::string::npos; ++times) at = log.find(words, at + 1);
    return times;
  };
  EXPECT_TRUE(WaitFor([&] { return warned("is partial") == 1; }, 10)) << server.process().Err();
  EXPECT_EQ(warned("nothing is proved"), 0);
  // A certificate that is there would keep its bounds of class 1.
  std::filesystem::remove(run + "/certificate.json");
  ASSERT_EQ(RunLucid(Words("bound " + run + " --time-limit 30s --class 0")).code, 0);
  server.process().Signal(SIGHUP);
  EXPECT_TRUE(WaitFor([&] { return warned("is partial") == 2; }, 10)) << "at every reload";
  EXPECT_TRUE(WaitFor([&] { return warned("nothing is proved about class 1 (above)") == 1; }, 10))
      << server.process().Err();
}

TEST_F(LifecycleTest, ListensOnIpv6Loopback) {
  const int probe = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const bool there = probe >= 0 && ::bind(probe, reinterpret_cast<const sockaddr*>(&loopback),
                                          sizeof(loopback)) == 0;
  if (probe >= 0) ::close(probe);
  if (!there) GTEST_SKIP() << "this machine has no IPv6 loopback address";
  ServerProcess server(scratch_, {"--listen", "[::1]:0", "--admin", "[::1]:0"});
  Socket socket(server.port(), AF_INET6);
  socket.Send(Post("/predict", kBody));
  EXPECT_EQ(socket.Read().status, 200);
  Socket admin(server.admin_port(), AF_INET6);
  admin.Send("GET /healthz HTTP/1.1\r\nHost: [::1]\r\n\r\n");
  EXPECT_EQ(admin.Read().status, 200);
  EXPECT_EQ(server.Stop().code, 0);
}

}  // namespace
}  // namespace lucid::test
