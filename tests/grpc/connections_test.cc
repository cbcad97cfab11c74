// What clients can do to the gRPC port, and what becomes of its connections: they have the places
// of HTTP's and are half-open as those are, their TLS files are read again, and they carry traces.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>

#include "grpc/grpc_client.h"
#include "support/tls_files.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;

// A frame of HTTP/2, of stream 1 unless it is about the connection.
std::string Frame(char type, char flags, const std::string& payload, char stream = 1) {
  std::string frame = {static_cast<char>(payload.size() >> 16),
                       static_cast<char>(payload.size() >> 8), static_cast<char>(payload.size())};
  return frame + std::string{type, flags, 0, 0, 0, stream} + payload;
}
constexpr char kData = 0, kHeaders = 1, kSettings = 4;
constexpr char kEndStream = 1, kEndHeaders = 4;

std::string Hello() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, "", 0); }

std::string Headers(const std::string& method, char stream = 1) {
  std::string fields;
  for (const auto& [name, value] : {std::pair<std::string, std::string>{":method", "POST"},
                                    {":scheme", "http"},
                                    {":path", method},
                                    {":authority", "x"},
                                    {"content-type", "application/grpc"},
                                    {"te", "trailers"}}) {
    fields += '\0';  // a literal that is not indexed
    fields += static_cast<char>(name.size()) + name + static_cast<char>(value.size()) + value;
  }
  return Frame(kHeaders, kEndHeaders, fields, stream);
}
// A call with an empty message, whole.
std::string Call(const std::string& method, char stream = 1) {
  return Headers(method, stream) + Frame(kData, kEndStream, std::string(5, '\0'), stream);
}
// A call whose message has 100 bytes, of which three come.
std::string HalfCall(const std::string& method, char stream = 1) {
  return Headers(method, stream) + Frame(kData, 0, std::string("\0\0\0\0\x64xyz", 8), stream);
}
const std::string kLive = "/inference.GRPCInferenceService/ServerLive";
const std::string kInfer = "/inference.GRPCInferenceService/ModelInfer";
const std::string kWatch = "/grpc.health.v1.Health/Watch";

class GrpcConnections : public GrpcTest {
 protected:
  static Socket From(const ServerProcess& server, int last_byte) {
    return Socket(server.grpc_port(), AF_INET, fmt::format("127.0.0.{}", last_byte));
  }
  static nlohmann::json Traffic(const ServerProcess& server) {
    return server.AskAdmin(Get("/status.json")).Json()["traffic"];
  }
  // Everybody else is served, on both ports, each time on a new connection.
  static void ExpectService(const ServerProcess& server, int times) {
    double slowest = 0;
    for (int i = 0; i < times; ++i) {
      const double start = Now();
      EXPECT_EQ(Health(Target(server)), "serving") << i;
      EXPECT_EQ(server.Ask(Get("/v2/health/ready")).status, 200) << i;
      slowest = std::max(slowest, Now() - start);
      EXPECT_EQ(Labels(*StubOf(server), Raw({{0.5, 0.5}})).size(), 1) << i;
      EXPECT_EQ(server.Labels({{0.5, 0.5}}).size(), 1) << i;
    }
    std::printf("slowest health, both ports: %.1f ms\n", 1e3 * slowest);
  }
  static bool WaitForHealth(const ServerProcess& server) {
    return WaitFor([&] { return Health(Target(server)) == "serving"; }, 10);
  }
};

// Before, gRPC accepted as many connections as there were files, and then nobody's any more.
TEST_F(GrpcConnections, ThoseThatSayNothingOrHalfOfItDenyNobody) {
  const auto server = Serve();
  ASSERT_TRUE(WaitForHealth(*server));
  for (const std::string& sent : {std::string(), Hello().substr(0, 10), Hello(),
                                  Hello() + Headers(kInfer), Hello() + HalfCall(kInfer)}) {
    std::vector<Socket> held;
    for (int i = 0; i < 512; ++i) {
      held.push_back(From(*server, 2 + i % 2));
      held.back().Send(sent);
    }
    ExpectService(*server, 5);
    EXPECT_TRUE(held.front().EndsWithin(10)) << "the oldest are dropped first: " << sent.size();
    EXPECT_FALSE(held.back().EndsWithin(0.1)) << "the youngest are not: " << sent.size();
    EXPECT_LE(Traffic(*server)["half_open"], 128) << "64 of each address";
  }
  EXPECT_TRUE(WaitFor([&] { return Traffic(*server)["connections"] == 0; }, 10))
      << "and all places come back: " << Traffic(*server);
}

TEST_F(GrpcConnections, HalfOpenOnesOfTheOtherPortCountTogether) {
  const auto server = Serve({"--max-half-open", "8"});  // two of one address
  std::vector<Socket> silent;
  silent.emplace_back(server->port(), AF_INET, "127.0.0.2");
  ASSERT_TRUE(WaitFor([&] { return Traffic(*server)["half_open"] == 1; }, 10));
  silent.push_back(From(*server, 2));
  ASSERT_TRUE(WaitFor([&] { return Traffic(*server)["half_open"] == 2; }, 10));
  silent.push_back(From(*server, 2));
  EXPECT_TRUE(silent[0].EndsWithin(10));
  EXPECT_FALSE(silent[1].EndsWithin(0.2));
}

TEST_F(GrpcConnections, BothPortsShareThePlacesAndHealthHasItsOwn) {
  const auto server = Serve({"--max-connections", "16", "--max-connections-per-address", "4"});
  ASSERT_TRUE(WaitForHealth(*server));
  std::vector<Socket> held;
  for (int i = 0; i < 16; ++i) {  // they have asked, so none is half-open
    held.push_back(From(*server, 2 + i / 4));
    held.back().Send(Hello() + Call(kLive));
  }
  ASSERT_TRUE(WaitFor([&] { return Traffic(*server)["connections"] == 16; }, 10));
  std::vector<Socket> more;  // and these want the places of health
  for (int i = 0; i < 200; ++i) more.push_back(From(*server, 2));
  ModelInferResponse response;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Health(Target(*server)), "serving") << i;
    EXPECT_EQ(server->Ask(Get("/v2/health/ready")).status, 200) << i;
    const grpc::Status label = Infer(*StubOf(*server), Raw({{0.5, 0.5}}), response);
    EXPECT_EQ(label.error_code(), grpc::StatusCode::UNAVAILABLE) << "labels have none";
    EXPECT_THAT(label.error_message(), HasSubstr("too many connections"));
    EXPECT_EQ(server->Ask(Post("/predict", PredictBody({{0.5, 0.5}}))).status, 503);
  }
  more.clear();
  held.clear();
  EXPECT_TRUE(WaitFor([&] { return Traffic(*server)["connections"] == 0; }, 10));
  EXPECT_EQ(Labels(*StubOf(*server), Raw({{0.5, 0.5}})).size(), 1);
  EXPECT_EQ(server->Labels({{0.5, 0.5}}).size(), 1);
}

TEST_F(GrpcConnections, ThoseBeyondTheLimitDoNotPileUp) {
  const auto server = Serve({"--max-connections", "8", "--max-connections-per-address", "2"});
  ASSERT_TRUE(WaitForHealth(*server));
  const auto files = [&] {
    const std::filesystem::directory_iterator all(
        fmt::format("/proc/{}/fd", server->process().pid()));
    return std::distance(begin(all), end(all));
  };
  const auto before = files();
  for (const std::string& sent : {std::string(), Hello() + Call(kLive), Hello() + Call(kWatch)}) {
    std::vector<Socket> more;  // none is closed by the client
    for (int i = 0; i < 400; ++i) {
      more.push_back(From(*server, 2 + i % 8));
      more.back().Send(sent);
    }
    EXPECT_EQ(Health(Target(*server)), "serving");
    EXPECT_TRUE(WaitFor([&] { return files() <= before + 8 + 64 + 8; }, 10)) << files();
  }
}

TEST_F(GrpcConnections, ACallThatNeverEndsHoldsItsConnectionForALimitedTime) {
  const auto server = Serve({"--head-time", "1s", "--request-time", "1s", "--idle-time", "1s"});
  Socket asks(server->grpc_port()), watches(server->grpc_port());
  asks.Send(Hello() + Call(kLive) + HalfCall(kInfer, 3));
  watches.Send(Hello() + Call(kWatch));
  EXPECT_FALSE(asks.EndsWithin(1.5)) << "it may go on until then";
  EXPECT_TRUE(asks.EndsWithin(15));
  SleepSeconds(2);
  EXPECT_FALSE(watches.EndsWithin(0.1)) << "a stream may";
}

// A message of a megabyte that a gigabyte was compressed to took a gigabyte, of anybody.
TEST_F(GrpcConnections, ACompressedMessageIsRefusedAndNotUnpacked) {
  const auto server = Serve();
  const auto most_memory = [&] {  // kB
    const std::string status = ReadBytes(fmt::format("/proc/{}/status", server->process().pid()));
    return std::stoll(status.substr(status.find("VmHWM:") + 6));
  };
  const auto before = most_memory();
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    for (const std::size_t megabytes : {0, 100}) {
      ModelInferRequest request = Raw({{0.5, 0.5}});
      if (megabytes > 0) request.add_raw_input_contents(std::string(megabytes << 20, '\0'));
      grpc::ClientContext context;
      context.set_compression_algorithm(algorithm);
      ModelInferResponse response;
      const auto stub = StubOf(*server);
      EXPECT_EQ(Labels(*stub, Raw({{0.5, 0.5}})).size(), 1);  // compressing holds up its greeting
      const grpc::Status status = stub->ModelInfer(&context, request, &response);
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
    }
  }
  EXPECT_LT(most_memory() - before, 50 << 10);
  EXPECT_EQ(Labels(*StubOf(*server), Raw({{0.5, 0.5}})).size(), 1);
}

TEST_F(GrpcConnections, TlsFilesAreReadAgain) {
  const auto make = [&] {
    MakeTlsFiles("lucid.test", scratch_ / "tls.pem", scratch_ / "tls.key");
    return ReadBytes(scratch_ / "tls.pem");
  };
  const std::string first = make();
  const auto server =
      Serve({"--tls-cert", scratch_ / "tls.pem", "--tls-key", scratch_ / "tls.key"});
  const auto reload = [&](const std::string& counter) {
    const auto metrics = [&] { return server->AskAdmin(Get("/metrics")).body; };
    EXPECT_THAT(metrics(), HasSubstr("\n" + counter + " 0\n"));
    server->process().Signal(SIGHUP);
    return WaitFor([&] { return metrics().find("\n" + counter + " 1\n") != std::string::npos; },
                   10);
  };
  const auto asks = [&](const std::string& trusted) {
    ModelInferResponse response;  // what a client says of a certificate is its own message
    grpc::ClientContext context;
    return TlsStubOf(*server, trusted)->ModelInfer(&context, Raw({{0.5, 0.5}}), &response).ok();
  };
  const auto old = TlsStubOf(*server, first);
  EXPECT_EQ(Labels(*old, Raw({{0.5, 0.5}})).size(), 1);
  const std::string second = make();
  EXPECT_TRUE(asks(first)) << "nobody has said that there are others";
  ASSERT_TRUE(reload("lucid_reloads_total"));
  EXPECT_TRUE(asks(second));
  EXPECT_FALSE(asks(first));
  EXPECT_EQ(Labels(*old, Raw({{0.5, 0.5}})).size(), 1) << "its connection goes on";
  WriteBytes(scratch_ / "tls.pem", "not a certificate");
  ASSERT_TRUE(reload("lucid_reload_failures_total"));
  EXPECT_TRUE(asks(second)) << "after a bad file the last good ones stay";
}

TEST_F(GrpcConnections, ATraceparentComesBackAndStandsInTheLog) {
  const std::string good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const auto server = Serve();
  const auto traces = [&](const std::vector<std::string>& sent) {
    grpc::ClientContext context;
    for (const std::string& trace : sent) context.AddMetadata("traceparent", trace);
    ModelInferResponse response;
    const grpc::Status status = StubOf(*server)->ModelInfer(&context, Raw({{0.5, 0.5}}), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<std::string> back;
    const auto [first, last] = context.GetServerInitialMetadata().equal_range("traceparent");
    for (auto at = first; at != last; ++at) back.emplace_back(at->second.data(), at->second.size());
    return back;
  };
  EXPECT_THAT(traces({good}), testing::ElementsAre(good));
  const std::string zero = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
  const std::string other = "00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  for (const auto& bad : {std::vector<std::string>{}, {zero}, {good + "x"}, {other, other}}) {
    EXPECT_THAT(traces(bad), testing::IsEmpty());
  }
  const std::string log = server->Stop().err;
  EXPECT_THAT(log, HasSubstr(good));
  EXPECT_THAT(log, testing::Not(HasSubstr(zero)));
  EXPECT_THAT(log, testing::Not(HasSubstr(other)));
}

}  // namespace
}  // namespace lucid::test
