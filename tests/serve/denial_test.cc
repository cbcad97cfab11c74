// What a few clients can do to the others: hold places, keep the server busy, look like a flood.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <thread>
#include <vector>

#include "serve/server.h"

namespace lucid::test {
namespace {

class DenialTest : public testing::Test {
 protected:
  void SetUp() override { MakeRun(scratch_ / "run"); }

  static Socket From(const ServerProcess& server, const std::string& address) {
    return Socket(server.port(), AF_INET, address);
  }
  // Asks for health and for a label, again and again, each on a new connection. All must be good.
  static void ExpectService(const ServerProcess& server, int times) {
    double slowest = 0;
    for (int i = 0; i < times; ++i) {
      const double start = Now();
      EXPECT_EQ(server.Ask(Get("/v2/health/ready")).status, 200) << i;
      slowest = std::max(slowest, Now() - start);
      EXPECT_EQ(server.Ask(Post("/predict", kBody)).status, 200) << i;
    }
    std::cout << fmt::format("slowest health: {:.1f} ms\n", slowest * 1e3);
  }

  static constexpr const char* kBody = R"({"input":[[0.2,0.7]]})";
  Scratch scratch_;
};

// Issue 32: every client and the probes of health got 503 for ten seconds.
TEST_F(DenialTest, HalfSentRequestsOfTwoAddressesDenyNobody) {
  const ServerProcess server(scratch_);
  const std::string request = Post("/predict", kBody);
  std::vector<Socket> held;
  for (int i = 0; i < 512; ++i) {
    held.push_back(From(server, i % 2 == 0 ? "127.0.0.2" : "127.0.0.3"));
    held.back().Send(request.substr(0, request.size() - 5));
  }
  ExpectService(server, 20);
  EXPECT_EQ(held.front().Read().status, 503) << "the oldest are dropped first";
  EXPECT_TRUE(held.front().AtEnd());
  held.back().Send(request.substr(request.size() - 5));
  EXPECT_EQ(held.back().Read().status, 200) << "the youngest are not";
}

TEST_F(DenialTest, ManyHalfSentRequestsOfSixAddressesCostNobodyElseHis) {
  const ServerProcess server(scratch_, {"--max-half-open", "16"});  // four of one address
  const std::string request = Post("/predict", kBody);
  Socket mine(server.port());
  mine.Send(request.substr(0, request.size() - 5));
  SleepSeconds(0.3);  // so that it is the oldest
  std::vector<Socket> held;
  for (int i = 0; i < 18; ++i) {  // three of each: within what an address may have
    held.push_back(From(server, fmt::format("127.0.0.{}", 2 + i % 6)));
    held.back().Send(request.substr(0, request.size() - 5));
    // The server has read what it sent: a connection that said nothing would get no answer.
    if (i == 0) SleepSeconds(0.3);
  }
  EXPECT_EQ(held.front().Read().status, 503) << "three too many";
  mine.Send(request.substr(request.size() - 5));
  EXPECT_EQ(mine.Read().status, 200);
}

TEST_F(DenialTest, ConnectionsThatSayNothingCostTheOldestOfTheirAddress) {
  const ServerProcess server(scratch_, {"--max-half-open", "8"});  // two of one address
  Socket mine(server.port());
  std::vector<Socket> silent;
  for (int i = 0; i < 5; ++i) silent.push_back(From(server, "127.0.0.2"));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(silent[static_cast<std::size_t>(i)].AtEnd()) << i;
  for (Socket* left : {&silent[3], &silent[4], &mine}) {
    left->Send(Get("/v2"));
    EXPECT_EQ(left->Read().status, 200);
  }
}

TEST_F(DenialTest, ASlowRequestDoesNotDropItself) {
  const ServerProcess server(scratch_, {"--max-half-open-per-client", "1"});
  const std::string request = Post("/predict", kBody);
  const std::size_t head = request.size() - std::string_view(kBody).size();
  Socket slow(server.port());
  slow.Send(request.substr(0, head));
  SleepSeconds(0.3);
  slow.Send(request.substr(head));
  EXPECT_EQ(slow.Read().status, 200);
  const std::string asking = Post("/predict", kBody, "Expect: 100-continue\r\n");
  Socket asks(server.port());
  asks.Send(asking.substr(0, asking.size() - std::string_view(kBody).size()));
  EXPECT_EQ(asks.Read().status, 100);
  SleepSeconds(0.3);
  asks.Send(kBody);
  EXPECT_EQ(asks.Read().status, 200);
}

TEST_F(DenialTest, ASlowUploadOfAKeyCountsAmongThoseOfTheKey) {
  const Outcome made =
      RunLucid({"keys", "create", "--file", scratch_ / "keys.toml", "--id", "alice"});
  ASSERT_EQ(made.code, 0) << made;
  const std::vector<std::string> words = Words(made.out);
  const auto key = std::ranges::find_if(
      words, [](const std::string& word) { return word.starts_with("lucid."); });
  ASSERT_NE(key, words.end());
  const ServerProcess server(scratch_, {"--api-keys", scratch_ / "keys.toml", "--max-half-open",
                                        "40", "--max-half-open-per-client", "2"});
  const std::string request = Post("/predict", kBody, "X-API-Key: " + *key + "\r\n");
  std::vector<Socket> uploads;
  for (int i = 2; i < 5; ++i) {  // each from an address of its own
    uploads.push_back(From(server, fmt::format("127.0.0.{}", i)));
    uploads.back().Send(request.substr(0, request.size() - 5));
    ASSERT_TRUE(WaitFor(
        [&] {
          return server.AskAdmin(Get("/status.json")).Json()["traffic"]["connections"] == i - 1;
        },
        10));
    SleepSeconds(0.05);  // so that the server reads them in this order
  }
  EXPECT_EQ(uploads[0].Read().status, 503) << "a third of the same key drops its first";
  for (std::size_t i : {1U, 2U}) {
    uploads[i].Send(request.substr(request.size() - 5));
    EXPECT_EQ(uploads[i].Read().status, 200) << i;
  }
}

TEST_F(DenialTest, HealthHasPlacesThatNobodyElseTakes) {
  const ServerProcess server(scratch_,
                             {"--max-connections", "32", "--max-connections-per-address", "16"});
  std::vector<Socket> idle;  // kept alive after an answer, so that none is half-open
  for (int i = 0; i < 32; ++i) {
    idle.push_back(From(server, i % 2 == 0 ? "127.0.0.2" : "127.0.0.3"));
    idle.back().Send(Get("/v2"));
    ASSERT_EQ(idle.back().Read().status, 200) << i;
  }
  std::vector<Socket> more;  // and these want the places of health
  for (int i = 0; i < 200; ++i) more.push_back(From(server, "127.0.0.2"));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(server.Ask(Get("/v2/health/ready")).status, 200) << i;
    EXPECT_EQ(server.Ask(Get("/v2/health/live")).status, 200) << i;
  }
  EXPECT_EQ(server.Ask(Post("/predict", kBody)).status, 503) << "labels have none";
}

// Each lived two seconds after its 503 and counted nowhere, until the server had no file left.
TEST_F(DenialTest, ConnectionsBeyondTheLimitDoNotPileUp) {
  ServerProcess server(scratch_, {"--max-connections", "8", "--max-connections-per-address", "2"});
  std::vector<Socket> held;
  for (int i = 0; i < 2; ++i) {
    held.push_back(From(server, "127.0.0.2"));
    held.back().Send(Get("/v2"));
    ASSERT_EQ(held.back().Read().status, 200) << i;
  }
  const std::string post = Post("/predict", kBody);
  const auto files = [&] {
    const std::filesystem::directory_iterator all(
        fmt::format("/proc/{}/fd", server.process().pid()));
    return std::distance(begin(all), end(all));
  };
  const auto before = files();
  for (const std::string& sent : {Get("/v2"), Get("/v2/health/live"), post.substr(0, 20), post}) {
    std::vector<Socket> more;  // none is closed by the client
    std::ptrdiff_t most = 0;
    for (int i = 0; i < 400; ++i) {
      more.push_back(From(server, fmt::format("127.0.0.{}", 2 + i % 8)));
      more.back().Send(sent);
      if (i % 20 == 19) most = std::max(most, files() - before);
    }
    EXPECT_EQ(server.Ask(Get("/v2/health/ready")).status, 200);
    EXPECT_TRUE(WaitFor([&] { return files() <= before + 6 + 64; }, 1.5)) << sent << files();
    std::cout << fmt::format("most files for connections beyond the limit: {}\n", most);
    EXPECT_LE(most, 6 + 64 + 40) << sent;  // 40: those whose turn in the event loop is to come
  }
}

// Whoever asks much waits for himself: before, others waited for all that had come before them.
TEST_F(DenialTest, AClientWithMuchToAskDoesNotHoldUpTheOthers) {
  const ServerProcess server(
      scratch_, {"--max-rows", "100000", "--max-body", "8000000", "--request-time", "120s"});
  std::string rows = R"({"input":[)";
  for (int i = 0; i < 100'000; ++i) {
    rows += fmt::format("{}[{:.5f},{:.5f}]", i == 0 ? "" : ",", i * 1e-5, 1 - i * 1e-5);
  }
  const std::string large = Post("/predict", rows + "]}");
  constexpr int kConnections = 8, kRequests = 4;
  std::atomic<int> answered{0};
  std::vector<std::jthread> greedy;
  for (int c = 0; c < kConnections; ++c) {
    greedy.emplace_back([&] {
      Socket socket = From(server, "127.0.0.2");
      for (int i = 0; i < kRequests; ++i) {
        socket.Send(large);
        if (socket.Read().status == 200) ++answered;
      }
    });
  }
  ASSERT_TRUE(WaitFor([&] { return answered >= 1; }, 120));
  std::vector<int> ended;  // large requests that did while a small one waited
  while (answered < kConnections * (kRequests - 1)) {
    const int before = answered;
    EXPECT_EQ(server.Ask(Post("/predict", kBody)).status, 200);
    ended.push_back(answered - before);
  }
  greedy.clear();  // joins
  EXPECT_EQ(answered, kConnections * kRequests);
  ASSERT_GE(ended.size(), 3);
  std::ranges::nth_element(ended, ended.begin() + std::ssize(ended) / 2);
  EXPECT_LE(ended[ended.size() / 2], 1)
      << "of eight that were there before, in the median of " << ended.size();
}

TEST_F(DenialTest, OneClientCannotHaveAllPlacesOfRequests) {
  const ServerProcess server(scratch_, {"--max-requests", "4", "--latency-floor", "2s"});
  std::vector<Socket> greedy;
  for (int i = 0; i < 3; ++i) {
    greedy.push_back(From(server, "127.0.0.2"));
    greedy.back().Send(Post("/predict", kBody));
    SleepSeconds(0.1);  // so that the server reads them in this order
  }
  EXPECT_EQ(greedy[2].Read().status, 503) << "half of four is two";
  EXPECT_EQ(server.Ask(Post("/predict", kBody)).status, 200);
  for (std::size_t i : {0U, 1U}) EXPECT_EQ(greedy[i].Read().status, 200);
}

TEST_F(DenialTest, TwoClientsCannotHaveAllPlacesOfRequests) {
  const ServerProcess server(scratch_, {"--max-requests", "4", "--latency-floor", "2s"});
  std::vector<Socket> greedy;
  for (int i = 0; i < 4; ++i) {
    greedy.push_back(From(server, i < 2 ? "127.0.0.2" : "127.0.0.3"));
    greedy.back().Send(Post("/predict", kBody));
    SleepSeconds(0.1);  // so that the server reads them in this order
  }
  EXPECT_EQ(server.Ask(Post("/predict", kBody)).status, 200) << "the last is for a third";
  EXPECT_EQ(greedy[3].Read().status, 503);
  for (std::size_t i : {0U, 1U, 2U}) EXPECT_EQ(greedy[i].Read().status, 200);
}

}  // namespace
}  // namespace lucid::test
