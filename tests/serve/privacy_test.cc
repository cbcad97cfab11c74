// What the server promises about answers: the same ones, paid for, and nothing beside them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <thread>

#include "serve/server.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
using Rows = std::vector<std::pair<double, double>>;

class PrivacyTest : public testing::Test {
 protected:
  void SetUp() override { MakeRun(scratch_ / "run"); }

  // A grid over the domain: some of it is noised, whatever the bounds are.
  static Rows Grid(int n) {
    Rows rows;
    for (int i = 0; i < n * n; ++i) rows.emplace_back(1.0 / n * (i % n), 1.0 / n * (i / n));
    return rows;
  }
  std::vector<std::string> Charged(const std::string& ledger) {
    return {"--epsilon", "1", "--ledger", scratch_ / ledger, "--budget", "1000000"};
  }
  static std::int64_t AnswersPaidFor(const ServerProcess& server) {
    return server.AskAdmin(Get("/status.json")).Json()["budget"]["answers"].get<std::int64_t>();
  }
  // How many of the first `rows` answers were noised. An answer is counted when it was sent, which
  // may be a little after it was read.
  static std::int64_t Noised(const ServerProcess& server, std::size_t rows) {
    nlohmann::json traffic;
    EXPECT_TRUE(WaitFor(
        [&] {
          traffic = server.AskAdmin(Get("/status.json")).Json()["traffic"];
          return traffic["rows"] == rows;
        },
        10))
        << traffic["rows"];
    return traffic["noised"].get<std::int64_t>();
  }

  Scratch scratch_;
};

// A client that asks for its counts again and again must not see when the answer was ready.
TEST_F(PrivacyTest, StatsCountNoAnswerBeforeTheLatencyFloor) {
  const Outcome made =
      RunLucid({"keys", "create", "--file", scratch_ / "keys.toml", "--id", "alice"});
  ASSERT_EQ(made.code, 0) << made;
  const std::vector<std::string> words = Words(made.out);
  const auto key = std::ranges::find_if(
      words, [](const std::string& word) { return word.starts_with("lucid."); });
  ASSERT_NE(key, words.end());
  const std::string fields = "X-API-Key: " + *key + "\r\n";
  const ServerProcess server(scratch_,
                             {"--api-keys", scratch_ / "keys.toml", "--latency-floor", "3s"});
  const auto counts = [&] {
    const nlohmann::json stats =
        server.Ask(Get("/v2/models/lucid/stats", fields)).Json()["model_stats"][0];
    return std::pair(stats["inference_stats"]["success"]["count"].get<int>(),
                     stats["inference_stats"]["fail"]["count"].get<int>());
  };
  Socket good(server.port()), bad(server.port());
  const double start = Now();
  good.Send(Post("/predict", PredictBody({{0.2, 0.7}}), fields));
  bad.Send(Post("/predict", "{}", fields));
  int looks = 0;
  while (Now() - start < 2) {
    const auto seen = counts();
    if (Now() - start < 2.5) EXPECT_EQ(seen, std::pair(0, 0)) << Now() - start;
    ++looks;
    SleepSeconds(0.1);
  }
  EXPECT_GT(looks, 3);
  EXPECT_EQ(good.Read().status, 200);
  EXPECT_EQ(bad.Read().status, 400);
  EXPECT_EQ(counts(), std::pair(1, 1));
}

TEST_F(PrivacyTest, SingleBatchRestartAndReplicaGiveTheSameAnswers) {
  const Rows rows = Grid(20);
  std::vector<int> batch;
  {
    ServerProcess server(scratch_);
    batch = server.Labels(rows);
    ASSERT_EQ(batch.size(), rows.size());
    std::vector<int> single;
    for (const auto& row : rows) single.push_back(server.Labels({row}).at(0));
    EXPECT_EQ(single, batch);
    Rows reversed(rows.rbegin(), rows.rend());
    std::vector<int> backwards = server.Labels(reversed);
    std::ranges::reverse(backwards);
    EXPECT_EQ(backwards, batch);
    EXPECT_EQ(server.Stop().code, 0);
  }
  const ServerProcess again(scratch_), replica(scratch_);
  EXPECT_EQ(again.Labels(rows), batch) << "after a restart";
  EXPECT_EQ(replica.Labels(rows), batch) << "with the same key file";
  EXPECT_GT(Noised(again, rows.size()), 10) << "or nothing was tested";
}

TEST_F(PrivacyTest, AnotherKeyGivesOtherNoise) {
  const Rows rows = Grid(30);
  const ServerProcess one(scratch_);
  Scratch elsewhere;
  std::filesystem::copy(scratch_ / "run", elsewhere / "run");
  const ServerProcess other(elsewhere);
  // With n noised rows and two classes, equal by chance with probability 2^-n.
  const std::vector<int> labels = one.Labels(rows);
  ASSERT_GT(Noised(one, rows.size()), 64);
  EXPECT_NE(labels, other.Labels(rows));
}

TEST_F(PrivacyTest, EveryGuardGivesTheLabelsOfLucidPredict) {
  const Rows rows = Grid(30);
  std::string csv = "x1,x2\n";
  for (const auto& [x1, x2] : rows) csv += fmt::format("{},{}\n", x1, x2);
  WriteBytes(scratch_ / "rows.csv", csv);
  std::int64_t noised_before = std::ssize(rows);
  for (const char* guard : {"scalar", "spatial", "exact"}) {
    const ServerProcess server(scratch_, {"--guard", guard, "--latency-floor", "20ms"});
    const std::vector<int> labels = server.Labels(rows);
    const Outcome predicted =
        RunLucid({"predict", scratch_ / "run", "--input", scratch_ / "rows.csv", "--guard", guard,
                  "--key-file", scratch_ / "key", "--json"});
    ASSERT_EQ(predicted.code, 0) << predicted;
    EXPECT_EQ(predicted.Json()["labels"], nlohmann::json(labels)) << guard;
    EXPECT_EQ(server.AskAdmin(Get("/status.json")).Json()["guard"]["kind"], guard);
    const std::int64_t noised = Noised(server, rows.size());
    EXPECT_GT(noised, 0) << guard << ": or nothing was tested";
    EXPECT_LE(noised, noised_before) << guard;
    noised_before = noised;
  }
}

// The whole way from a request to its answer. By Hoeffding's inequality a share of n answers is off
// by more than the margin with a probability of at most 1e-9: 2e-9 for both. The keys are random.
TEST_F(PrivacyTest, NoisedLabelsAreAsLikelyAsStated) {
  // A certificate that is there would keep its bounds of class 1.
  std::filesystem::remove(scratch_ / "run/certificate.json");
  const Outcome bound = RunLucid({"bound", scratch_ / "run", "--class", "0", "--no-index",
                                  "--no-spatial", "--time-limit", "30s"});
  ASSERT_EQ(bound.code, 0) << bound;  // nothing is known about class 1: all of it is noised
  const Rows rows = Grid(100);
  const auto labels = [&](const char* mechanism, const char* epsilon) {
    const ServerProcess server(scratch_,
                               {"--epsilon", epsilon, "--mechanism", mechanism, "--ledger",
                                scratch_ / fmt::format("{}-{}.db", mechanism, epsilon)});
    std::vector<int> all;
    for (std::size_t i = 0; i < rows.size(); i += 1000) {
      const std::vector<int> some = server.Labels({rows.begin() + i, rows.begin() + i + 1000});
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  };
  const std::vector<int> truth = labels("paper", "200");  // another label: e^-100
  const double count = static_cast<double>(std::ranges::count(truth, 1));
  ASSERT_GT(count, 2000);
  const double margin = std::sqrt(std::log(2 / 1e-9) / (2 * count));
  for (const auto& [mechanism, power] :
       {std::pair{"paper", std::exp(1.0)}, {"krr", std::exp(2.0)}}) {
    const std::vector<int> noised = labels(mechanism, "2");
    double kept = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) kept += truth[i] == 1 && noised[i] == 1 ? 1 : 0;
    EXPECT_NEAR(kept / count, power / (power + 1), margin) << mechanism;
  }
}

TEST_F(PrivacyTest, EveryNewRowIsChargedOnce) {
  std::vector<int> labels;
  {
    ServerProcess server(scratch_, Charged("l.db"));
    labels = server.Labels(Grid(5));
    EXPECT_EQ(AnswersPaidFor(server), 25);
    EXPECT_EQ(server.Labels(Grid(5)), labels);
    EXPECT_EQ(AnswersPaidFor(server), 25) << "the same rows are free";
    server.Ask(Post("/predict", R"({"input":[[0.5,2]]})"));
    EXPECT_EQ(AnswersPaidFor(server), 25) << "what is refused costs nothing";
    EXPECT_EQ(server.Stop().code, 0);
  }
  const ServerProcess server(scratch_, Charged("l.db"));
  EXPECT_EQ(server.Labels(Grid(5)), labels);
  EXPECT_EQ(AnswersPaidFor(server), 25) << "also after a restart";
}

TEST_F(PrivacyTest, AUsedUpBudgetIsNoError) {
  const ServerProcess server(scratch_,
                             {"--epsilon", "1", "--ledger", scratch_ / "l.db", "--budget", "10"});
  const Reply first = server.Ask(Post("/predict", PredictBody(Grid(3))));
  const Reply later = server.Ask(Post("/predict", PredictBody(Grid(20))));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(later.status, 200);
  EXPECT_EQ(later.Json()["labels"].size(), 400);
  EXPECT_EQ(AnswersPaidFor(server), 10);
}

TEST_F(PrivacyTest, Kill9DuringLedgerWritesLosesNoCharge) {
  std::atomic<int> answered{0};
  {
    ServerProcess server(scratch_, Charged("l.db"));
    std::vector<std::jthread> clients;
    for (int c = 0; c < 4; ++c) {
      clients.emplace_back([&, c] {
        Socket socket(server.port());
        for (int i = 0;; ++i) {
          socket.Send(Post("/predict", PredictBody({{0.2 * c, 1e-5 * i}})));
          if (socket.Read().status != 200) return;
          ++answered;
        }
      });
    }
    ASSERT_TRUE(WaitFor([&] { return answered >= 40; }, 60));
    server.process().Signal(SIGKILL);
    server.process().Wait();
  }
  const ServerProcess server(scratch_, Charged("l.db"));
  EXPECT_GE(AnswersPaidFor(server), answered) << "an answer was given that nobody paid for";
  EXPECT_LE(AnswersPaidFor(server), answered + 4) << "one for each that was being answered";
}

TEST_F(PrivacyTest, ALedgerThatCannotBeWrittenMeansNoAnswer) {
  std::int64_t paid = 0;
  {
    ServerProcess server(scratch_, Charged("l.db"), {.file_size_limit = 256 << 10});
    int answered = 0;
    Reply reply;
    for (int i = 0; i < 5000; ++i) {
      reply = server.Ask(Post("/predict", PredictBody({{1e-4 * i, 0.5}, {1e-4 * i, 0.6}})));
      if (reply.status != 200) break;
      answered += 2;
    }
    EXPECT_EQ(reply.status, 503) << reply;
    EXPECT_EQ(reply.Field("Retry-After"), "1");
    EXPECT_EQ(AnswersPaidFor(server), answered);
    EXPECT_EQ(server.Ask(Get("/v2/health/live")).status, 200) << "the server goes on";
    for (const char* path : {"/v2/health/ready", "/v2/models/lucid/ready"}) {
      EXPECT_TRUE(WaitFor([&] { return server.Ask(Get(path)).status == 503; }, 5))
          << path << ": who cannot pay must not be asked";
    }
    paid = answered;
    EXPECT_EQ(server.Stop().code, 0);
  }
  const ServerProcess server(scratch_, Charged("l.db"));
  EXPECT_EQ(AnswersPaidFor(server), paid);
  EXPECT_EQ(server.Ask(Get("/v2/health/ready")).status, 200);
  EXPECT_EQ(AnswersPaidFor(server), paid) << "to look costs nothing";
}

TEST_F(PrivacyTest, TheDictionaryRemembersAcrossRestarts) {
  const std::vector<std::string> dictionary = {"--memo", "dictionary", "--memo-file",
                                               scratch_ / "memo.db"};
  std::vector<int> labels;
  {
    ServerProcess server(scratch_, dictionary);
    labels = server.Labels(Grid(15));
    EXPECT_EQ(server.Labels(Grid(15)), labels);
    EXPECT_EQ(server.Stop().code, 0);
  }
  const ServerProcess server(scratch_, dictionary);
  EXPECT_EQ(server.Labels(Grid(15)), labels);
  EXPECT_EQ(server.AskAdmin(Get("/status.json")).Json()["guard"]["memo"], "dictionary");
}

// No response, header or log line says how an answer came about.
TEST_F(PrivacyTest, NothingAboutConfidenceBoundsNoiseOrBudgetsIsSaid) {
  std::string said;
  std::string log;
  for (const char* format : {"text", "json"}) {
    ServerProcess server(scratch_, {"--epsilon", "1", "--ledger", scratch_ / format, "--budget",
                                    "5", "--log-format", format});
    const std::string requests[] = {
        Get("/v2"),
        Get("/v2/models/lucid"),
        Get("/v2/health/ready"),
        Get("/metrics"),
        Get("/status.json"),
        Post("/predict", PredictBody(Grid(10))),
        Post("/predict", PredictBody({{0.123456, 0.654321}})),
        Post("/predict", PredictBody({{0.5, 1.5}})),
        Post("/predict", R"({"rows":[{"x1":"a"}]})"),
        Post("/v2/models/lucid/infer", R"({"inputs":[{"name":"input","datatype":"FP32",)"
                                       R"("shape":[1,2],"data":[0.5,0.5]}]})"),
    };
    for (const std::string& request : requests) {
      const Reply reply = server.Ask(request);
      EXPECT_NE(reply.status, 0) << request;
      said += reply.head + reply.body;
    }
    const Outcome outcome = server.Stop();
    log += outcome.err;
  }
  EXPECT_THAT(log, HasSubstr("/predict"));
  EXPECT_EQ(log.find("0.123456"), std::string::npos) << "a row is in the log";
  EXPECT_EQ(SecretIn(said + log), "");
}

}  // namespace
}  // namespace lucid::test
