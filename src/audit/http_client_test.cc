#include "audit/http_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <cmath>
#include <optional>
#include <thread>

#include "audit/attacks.h"
#include "audit/label_server.h"
#include "certificate/test_support.h"

namespace lucid {
namespace {

using boost::asio::ip::tcp;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Two numeric features, three classes.
Schema AnySchema() { return AnyDataset(3, 2, 3).schema; }

// A server of one thread that gives the same bytes to every request, `per_connection` of them.
class CannedServer {
 public:
  CannedServer(std::string response, int connections, int per_connection = 1)
      : acceptor_(io_, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)),
        thread_([=, this, response = std::move(response)] {
          // A connection without a request is the client's look whether anybody is there.
          for (int i = 0; i < connections;) i += Serve(response, per_connection) ? 1 : 0;
        }) {}
  ~CannedServer() { thread_.join(); }
  std::string url() const {
    return fmt::format("http://127.0.0.1:{}", acceptor_.local_endpoint().port());
  }

 private:
  // Whether a request came.
  bool Serve(const std::string& response, int count) {
    tcp::socket socket = acceptor_.accept();
    std::string request;
    for (int i = 0; i < count; ++i) {
      boost::system::error_code error;
      // The body ends with "]]}".
      request.erase(
          0, boost::asio::read_until(socket, boost::asio::dynamic_buffer(request), "]]}", error));
      if (error) return i > 0;
      boost::asio::write(socket, boost::asio::buffer(response), error);
    }
    return true;
  }

  boost::asio::io_context io_;
  tcp::acceptor acceptor_;
  std::thread thread_;
};

std::string Canned(std::string_view status, std::string_view body) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body);
}

constexpr float kPoint[] = {0.5f, 0.25f};

// What the client says of a server that gives this.
std::string ErrorAt(const std::string& response) {
  CannedServer server(response, 1);
  HttpClient client = HttpClient::Connect(server.url()).value();
  const auto label = client.Ask(kPoint);
  return label.ok() ? fmt::format("no error: {}", *label) : label.error().message;
}

TEST(HttpClient, EveryFloatArrivesAsItIs) {
  std::vector<float> got;
  const LabelServer server = LabelServer::Start(AnySchema(), [&](std::span<const float> x) {
                               got.assign(x.begin(), x.end());
                               return x[0] > 0.5f ? 2 : 0;
                             }).value();
  HttpClient client = HttpClient::Connect(server.url()).value();
  Stream stream(3, "floats");
  for (int i = 0; i < 300; ++i) {
    const float a = static_cast<float>(stream.Uniform());
    const float b =
        i == 0 ? std::nextafter(0.5f, 1.0f) : static_cast<float>(stream.Uniform()) / 1e6f;
    const std::vector<float> x = {i % 2 == 0 ? a : b, i % 2 == 0 ? b : a};
    EXPECT_EQ(client.Ask(x).value(), x[0] > 0.5f ? 2 : 0);
    EXPECT_EQ(got, x);
  }
}

TEST(HttpClient, ARefusedRowIsAnAnswer) {
  const LabelServer server =
      LabelServer::Start(AnySchema(), [](std::span<const float>) { return kRefused; }).value();
  HttpClient client = HttpClient::Connect(server.url()).value();
  EXPECT_EQ(client.Ask(kPoint).value(), kRefused);
  const float three[] = {0, 0, 0};
  EXPECT_EQ(client.Ask(three).value(), kRefused) << "of a row of another length, too";
  // A request that is wrong in itself is none.
  EXPECT_THAT(ErrorAt(Canned("400 Bad Request", R"({"error":"not JSON"})")), HasSubstr("not JSON"));
}

TEST(HttpClient, OneLineForWhatIsWrong) {
  const std::string refused = ErrorAt(Canned("401 Unauthorized", R"({"error":"a valid key"})"));
  EXPECT_THAT(refused, AllOf(HasSubstr("http://127.0.0.1:"), HasSubstr("401 Unauthorized"),
                             HasSubstr("a valid key")));
  EXPECT_THAT(ErrorAt(Canned("429 Too Many Requests", R"({"error":"too many requests"})")),
              HasSubstr("429 Too Many Requests: too many requests"));
  EXPECT_THAT(ErrorAt(Canned("502 Bad Gateway", "<html>\n<b>\x1b[31m")), HasSubstr("502"));
  for (const char* body : {"", "[]", "{}", R"({"labels":3})", R"({"labels":[]})", "\x1b[2J\n",
                           R"({"labels":[1,2]})", R"({"labels":[-1]})", R"({"labels":["1"]})",
                           R"({"labels":[5000000000]})", R"({"labels":[1.5]})", "{\"labels\":[1"}) {
    const std::string error = ErrorAt(Canned("200 OK", body));
    EXPECT_THAT(error, HasSubstr("does not answer with one label")) << body;
    EXPECT_THAT(error, AllOf(Not(HasSubstr("\n")), Not(HasSubstr("\x1b"))));
  }
  EXPECT_THAT(ErrorAt("this is not HTTP\r\n\r\n"), HasSubstr("no answer"));
  EXPECT_THAT(ErrorAt(Canned("200 OK", std::string(2 << 20, ' '))), HasSubstr("no answer"));
}

TEST(HttpClient, AServerThatIsAway) {
  std::string url;
  {
    url = LabelServer::Start(AnySchema(), [](auto) { return 0; }).value().url();
  }
  const auto client = HttpClient::Connect(url);
  ASSERT_FALSE(client.ok());
  EXPECT_THAT(client.error().message, AllOf(HasSubstr(url), HasSubstr("cannot be reached")));
}

TEST(HttpClient, AConnectionThatTheServerEndsIsOpenedAgain) {
  CannedServer server(Canned("200 OK", R"({"labels":[1]})"), 3, 2);
  HttpClient client = HttpClient::Connect(server.url()).value();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(client.Ask(kPoint).value(), 1) << i;
}

TEST(HttpClient, UrlsOfOtherForms) {
  for (const char* url :
       {"", "127.0.0.1:80", "https://127.0.0.1:80", "http://", "http://:80", "http://127.0.0.1",
        "http://127.0.0.1:", "http://127.0.0.1:x", "http://127.0.0.1:800000",
        "http://a@127.0.0.1:80", "http://127.0.0.1:80/predict", "http://a b:80"}) {
    const auto client = HttpClient::Connect(url);
    ASSERT_FALSE(client.ok()) << url;
    EXPECT_THAT(client.error().message, HasSubstr("is not http://HOST:PORT")) << url;
  }
  EXPECT_THAT(HttpClient::Connect("http://127.0.0.1:1", "a\r\nb").error().message,
              HasSubstr("API key"));
}

TEST(LabelServer, EndsWhileAClientIsConnected) {
  std::optional<HttpClient> client;
  {
    const LabelServer server =
        LabelServer::Start(AnySchema(), [](std::span<const float>) { return 1; }).value();
    client.emplace(HttpClient::Connect(server.url()).value());
    EXPECT_EQ(client->Ask(kPoint).value(), 1);
  }
  EXPECT_FALSE(client->Ask(kPoint).ok());
}

}  // namespace
}  // namespace lucid
