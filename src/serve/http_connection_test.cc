// What becomes of a request when the site behind the connection is slow, throws, or forgets it.
#include "serve/http_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/listener.h"

namespace lucid {
namespace {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using testing::HasSubstr;

// Lets everything in; answers as the test says.
class FakeSite : public Site {
 public:
  using Behaviour = std::function<void(Reply)>;
  explicit FakeSite(Behaviour behaviour) : behaviour_(std::move(behaviour)) {}
  std::optional<Response> Admit(Exchange&) const override { return std::nullopt; }
  void Answer(Exchange& exchange, std::string_view, Reply reply) const override {
    const std::string peer(exchange.head.peer);
    if (peer.ends_with("/64")) return reply({.status = 200, .body = peer});
    behaviour_(std::move(reply));
  }
  void OnSend(const Exchange&, const Response&) const override {}

 private:
  Behaviour behaviour_;
};

// A connection of a client.
class Client {
 public:
  explicit Client(const tcp::endpoint& server) { socket_.connect(server); }

  // Status 0: the connection ended before a whole response had come.
  http::response<http::string_body> Ask() {
    http::request<http::empty_body> request(http::verb::get, "/", 11);
    request.set(http::field::host, "x");
    http::response<http::string_body> response;
    boost::system::error_code error;
    http::write(socket_, request, error);
    if (!error) http::read(socket_, buffer_, response, error);
    if (error) response.result(0U);
    return response;
  }
  bool AtEnd() {
    char byte = 0;
    boost::system::error_code error;
    socket_.read_some(boost::asio::buffer(&byte, 1), error);
    return error == boost::asio::error::eof;
  }

 private:
  boost::asio::io_context io_;
  tcp::socket socket_{io_};
  boost::beast::flat_buffer buffer_;
};

// A worker on two threads that listens on loopback, with a FakeSite on its public port.
class HttpConnectionTest : public testing::Test {
 protected:
  ~HttpConnectionTest() override { Stop(); }

  void SetSite(FakeSite::Behaviour behaviour) {
    auto service = std::make_shared<Service>();
    service->sites[static_cast<std::size_t>(Port::kPublic)] =
        std::make_shared<FakeSite>(std::move(behaviour));
    current_.Set(std::move(service));
  }
  void Serve(FakeSite::Behaviour behaviour, const char* address = "127.0.0.1:0") {
    SetSite(std::move(behaviour));
    worker_.emplace(options_, current_, metrics_, *log_);
    auto listener = Listener::Open(address, Port::kPublic, *worker_,
                                   Places::Create(8, 8, metrics_.connections_open));
    ASSERT_TRUE(listener.ok());
    listener_ = *std::move(listener);
    listener_->Start();
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { worker_->Run(); });
  }
  // Everything of the log, which is whole only then.
  std::string Stop() {
    if (!threads_.empty()) {
      listener_->Stop();
      worker_->Drain(5);
      threads_.clear();  // joins
    }
    log_.reset();
    return events_;
  }
  tcp::endpoint Address() const { return ParseAddress(listener_->address()).value(); }

  ServeOptions options_;
  std::string events_;
  std::optional<ServerLog> log_{std::in_place, [this](std::string_view lines) { events_ += lines; },
                                /*json=*/false, /*access=*/true};
  Metrics metrics_;
  CurrentService current_;
  std::optional<Worker> worker_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::jthread> threads_;
};

TEST_F(HttpConnectionTest, AnAnswerThatTakesTooLongIs503AndItsPlaceComesBack) {
  options_.limits.request_seconds = 0.2;
  std::promise<Site::Reply> kept;
  std::atomic<bool> first{true};
  Serve([&](Site::Reply reply) {
    first.exchange(false) ? kept.set_value(std::move(reply)) : reply(Response{});
  });
  const auto start = std::chrono::steady_clock::now();
  Client client(Address());
  const auto response = client.Ask();
  EXPECT_EQ(response.result_int(), 503);
  EXPECT_EQ(response.body(), R"({"error":"the answer took too long"})");
  EXPECT_EQ(response[http::field::retry_after], "1");
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(200));
  EXPECT_EQ(metrics_.requests_in_flight, 0);
  EXPECT_TRUE(client.AtEnd()) << "an answer that comes later must not be taken for the next one";

  kept.get_future().get()(Response{});  // too late, and on another thread
  EXPECT_EQ(Client(Address()).Ask().result_int(), 200) << "the server goes on";
}

// Rates and turns are of it: whoever has one address of a /64 network has all of them.
TEST_F(HttpConnectionTest, ThePeerOfIpv6IsItsNetwork) {
  Serve([](Site::Reply reply) { reply(Response{}); }, "[::1]:0");
  EXPECT_EQ(Client(Address()).Ask().body(), "::/64");
}

TEST_F(HttpConnectionTest, AThrowInASiteIs500AndTheConnectionGoesOn) {
  std::atomic<bool> first{true};
  Serve([&](Site::Reply reply) {
    if (first.exchange(false)) throw std::bad_alloc();
    reply(Response{});
  });
  Client client(Address());
  const auto response = client.Ask();
  EXPECT_EQ(response.result_int(), 500);
  EXPECT_EQ(response.body(), R"({"error":"internal error"})") << "and nothing about what it was";
  EXPECT_EQ(metrics_.requests_in_flight, 0);
  EXPECT_EQ(client.Ask().result_int(), 200);
  EXPECT_THAT(Stop(), HasSubstr("error: std::bad_alloc"));
}

TEST_F(HttpConnectionTest, RepliesMayComeFromOrBeDroppedOnAnyThread) {
  int asked = 0;
  std::jthread other;
  Serve([&](Site::Reply reply) {
    const bool drop = ++asked % 2 == 0;
    other = std::jthread([drop, reply = std::move(reply)]() mutable {
      if (!drop) reply(Response{});
      reply = nullptr;
    });
  });
  Client client(Address());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.Ask().result_int(), i % 2 == 0 ? 200 : 500) << i;
  EXPECT_EQ(metrics_.requests_in_flight, 0);
}

TEST_F(HttpConnectionTest, ThreadsShareConnectionsAlsoWhileTheServiceChanges) {
  constexpr int kClients = 6, kRequests = 200;
  std::atomic<int> answered{0};
  const auto site = [](Site::Reply reply) { reply(Response{}); };
  Serve(site);
  {
    std::vector<std::jthread> clients;
    clients.reserve(kClients);
    for (int c = 0; c < kClients; ++c) {
      clients.emplace_back([&] {
        Client client(Address());
        for (int i = 0; i < kRequests; ++i) answered += client.Ask().result_int() == 200 ? 1 : 0;
      });
    }
    while (answered < kClients * kRequests / 2) SetSite(site);
  }
  EXPECT_EQ(answered, kClients * kRequests);
  Stop();  // with the last requests of all connections recorded
  EXPECT_EQ(metrics_.Take(Metrics::Clock::now()).Requests(), kClients * kRequests);
  EXPECT_EQ(metrics_.connections_open, 0);
}

}  // namespace
}  // namespace lucid
