// The Open Inference Protocol over gRPC says what it says over HTTP, to the bit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <limits>

#include "grpc/grpc_client.h"
#include "support/tls_files.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;

// A grid over the domain: some of it is noised, whatever the bounds are.
std::vector<Row> Grid(int n) {
  std::vector<Row> rows;
  for (int i = 0; i < n * n; ++i) rows.emplace_back(1.0 / n * (i % n), 1.0 / n * (i / n));
  return rows;
}

TEST_F(GrpcTest, LabelsAreThoseOfHttp) {
  const auto server = Serve();
  const auto stub = StubOf(*server);
  std::vector<Row> rows = Grid(20);
  // What a float32 can hold: HTTP reads the text of a number, gRPC gets the number.
  for (auto& [x, y] : rows) x = static_cast<float>(x), y = static_cast<float>(y);
  const std::vector<int> labels = server->Labels(rows);
  EXPECT_EQ(Labels(*stub, Raw(rows)), labels);
  EXPECT_EQ(Labels(*stub, Typed(rows)), labels);
  // Columns of the schema: texts, and FP64.
  ModelInferRequest columns;
  columns.set_model_name("lucid");
  columns.set_model_version("1");
  for (const char* name : {"x1", "x2"}) {
    auto& input = *columns.add_inputs();
    input.set_name(name);
    input.set_datatype(name[1] == '1' ? "BYTES" : "FP64");
    input.add_shape(static_cast<std::int64_t>(rows.size()));
    for (const auto& [x, y] : rows) {
      if (name[1] == '1') input.mutable_contents()->add_bytes_contents(fmt::format("{}", x));
      if (name[1] == '2') input.mutable_contents()->add_fp64_contents(y);
    }
  }
  EXPECT_EQ(Labels(*stub, columns), labels);
}

TEST_F(GrpcTest, TheProtocolIsAnswered) {
  const auto server = Serve({"--name", "points"});
  const auto stub = StubOf(*server);
  const auto call = [&](auto method, const auto& request, auto& response) {
    grpc::ClientContext context;
    return ((*stub).*method)(&context, request, &response);
  };
  inference::ServerLiveResponse live;
  EXPECT_TRUE(call(&Stub::ServerLive, inference::ServerLiveRequest(), live).ok());
  EXPECT_TRUE(live.live());
  inference::ServerReadyResponse ready;
  EXPECT_TRUE(call(&Stub::ServerReady, inference::ServerReadyRequest(), ready).ok());
  EXPECT_TRUE(ready.ready());
  inference::ServerMetadataResponse about;
  EXPECT_TRUE(call(&Stub::ServerMetadata, inference::ServerMetadataRequest(), about).ok());
  EXPECT_EQ(about.name(), "lucid");
  inference::ModelReadyRequest ask_ready;
  ask_ready.set_name("points");
  inference::ModelReadyResponse model_ready;
  EXPECT_TRUE(call(&Stub::ModelReady, ask_ready, model_ready).ok());
  EXPECT_TRUE(model_ready.ready());
  inference::ModelMetadataRequest ask;
  ask.set_name("points");
  ask.set_version("1");
  inference::ModelMetadataResponse model;
  EXPECT_TRUE(call(&Stub::ModelMetadata, ask, model).ok());
  const nlohmann::json http = server->Ask(Get("/v2/models/points")).Json();
  EXPECT_EQ(model.name(), "points");
  EXPECT_EQ(model.platform(), http["platform"].get<std::string>());
  ASSERT_EQ(model.inputs_size(), std::ssize(http["inputs"]));
  for (int i = 0; i < model.inputs_size(); ++i) {
    EXPECT_EQ(model.inputs(i).name(), http["inputs"][i]["name"].get<std::string>());
    EXPECT_EQ(model.inputs(i).datatype(), http["inputs"][i]["datatype"].get<std::string>());
    EXPECT_EQ(model.inputs(i).shape(0), -1);
  }
  EXPECT_EQ(model.outputs(0).name(), "label");
  for (const auto& [name, version] : {std::pair{"other", ""}, {"points", "2"}, {"../v2", ""}}) {
    ask.set_name(name);
    ask.set_version(version);
    EXPECT_EQ(call(&Stub::ModelMetadata, ask, model).error_code(), grpc::StatusCode::NOT_FOUND);
  }
}

TEST_F(GrpcTest, WhatIsWrongIsRefused) {
  const auto server = Serve({"--max-rows", "100", "--max-body", "10000"});
  const auto stub = StubOf(*server);
  const auto refused = [&](const std::function<void(ModelInferRequest&)>& change,
                           grpc::StatusCode code, const char* word) {
    for (ModelInferRequest request : {Raw({{0.5, 0.5}}), Typed({{0.5, 0.5}})}) {
      change(request);
      ModelInferResponse response;
      const grpc::Status status = Infer(*stub, request, response);
      EXPECT_EQ(status.error_code(), code) << word << ": " << status.error_message();
      EXPECT_THAT(status.error_message(), HasSubstr(word));
      EXPECT_EQ(response.outputs_size(), 0);
    }
  };
  constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  refused([](auto& r) { r.set_model_name("other"); }, grpc::StatusCode::NOT_FOUND, "path");
  refused([](auto& r) { r.set_model_name("lucid/infer?"); }, grpc::StatusCode::NOT_FOUND, "path");
  refused([](auto& r) { r.mutable_inputs(0)->set_shape(0, 2); }, kInvalid, "needs 16 bytes");
  refused([](auto& r) { r.mutable_inputs(0)->set_shape(0, -1); }, kInvalid, "shape");
  refused([](auto& r) { r.mutable_inputs(0)->set_shape(0, 101); }, kInvalid, "101 rows");
  refused([](auto& r) { r.mutable_inputs(0)->set_name("\"},"); }, kInvalid, "input");
  refused([](auto& r) { r.mutable_inputs(0)->set_datatype("FP99"); }, kInvalid, "input");
  refused([](auto& r) { r.clear_inputs(), r.clear_raw_input_contents(); }, kInvalid, "inputs");
  refused([](auto& r) { r.add_outputs()->set_name("scores"); }, kInvalid, "scores");
  refused(
      [](auto& r) {
        (*r.mutable_inputs(0)->mutable_parameters())["classification"].set_int64_param(3);
      },
      kInvalid, "classification");
  refused(
      [](auto& r) {
        r.add_raw_input_contents("12345678");
        r.add_raw_input_contents("12345678");
      },
      kInvalid, "raw contents");
  ModelInferRequest request = Typed({{0.5, std::numeric_limits<double>::quiet_NaN()}});
  ModelInferResponse response;
  EXPECT_THAT(Infer(*stub, request, response).error_message(), HasSubstr("finite"));
  request = Raw({{0.5, 1.5}});
  EXPECT_THAT(Infer(*stub, request, response).error_message(), HasSubstr("'x2'"));
  request = Raw(std::vector<Row>(2000, Row{0.5, 0.5}));
  EXPECT_EQ(Infer(*stub, request, response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  request = Raw({{0.5, 0.5}});
  request.set_id("a \"quoted\" id");
  (*request.mutable_parameters())["binary_data_output"].set_bool_param(false);
  EXPECT_TRUE(Infer(*stub, request, response).ok()) << "and a good one is answered";
  EXPECT_EQ(response.id(), "a \"quoted\" id");
}

TEST_F(GrpcTest, KeysAndRatesAreThoseOfHttp) {
  const auto add_key = [&](const std::string& id, const std::vector<std::string>& more) {
    const Outcome made =
        RunLucid(std::vector<std::string>{"keys", "create", "--file", scratch_ / "keys.toml",
                                          "--id", id, "--quiet"} +
                 more);
    EXPECT_EQ(made.code, 0) << made;
    return made.out.substr(0, made.out.find('\n'));
  };
  const std::string alice = add_key("alice", {});
  const std::string bob = add_key("bob", {"--rate", "0.001", "--burst", "1"});
  const auto server = Serve({"--api-keys", scratch_ / "keys.toml"});
  const auto stub = StubOf(*server);
  ModelInferResponse response;
  const ModelInferRequest request = Raw({{0.5, 0.5}});
  EXPECT_EQ(Infer(*stub, request, response).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(
      Infer(*stub, request, response, {"authorization", "Bearer " + alice + "x"}).error_code(),
      grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(Infer(*stub, request, response, {"authorization", "Bearer " + alice}).ok());
  EXPECT_TRUE(Infer(*stub, request, response, {"x-api-key", alice}).ok());
  EXPECT_TRUE(Infer(*stub, request, response, {"x-api-key", bob}).ok());
  EXPECT_EQ(Infer(*stub, request, response, {"x-api-key", bob}).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  // One rate over both ports.
  EXPECT_EQ(
      server->Ask(Post("/predict", PredictBody({{0.5, 0.5}}), "X-API-Key: " + bob + "\r\n")).status,
      429);
}

TEST_F(GrpcTest, OneLedgerForBothPorts) {
  const auto server = Serve({"--epsilon", "1", "--ledger", scratch_ / "l.db", "--budget", "1000"},
                            {.file_size_limit = 256 << 10});
  const auto stub = StubOf(*server);
  const auto charged = [&] {
    return server->AskAdmin(Get("/status.json")).Json()["budget"]["answers"].get<int>();
  };
  const std::vector<Row> rows = {{0.5, 0.25}, {0.25, 0.5}};
  const std::vector<int> labels = Labels(*stub, Raw(rows));
  EXPECT_EQ(charged(), 2);
  EXPECT_EQ(server->Labels(rows), labels);
  EXPECT_EQ(charged(), 2) << "paid for already";
  // A full disk: no answer, and not ready.
  grpc::Status status = grpc::Status::OK;
  ModelInferResponse response;
  for (int i = 0; i < 5000 && status.ok(); ++i) {
    status = Infer(*stub, Raw({{1e-4 * i, 0.125}, {1e-4 * i, 0.375}}), response);
  }
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
}

TEST_F(GrpcTest, LabelsWaitForTheLatencyFloor) {
  const auto server = Serve({"--latency-floor", "700ms"});
  const auto stub = StubOf(*server);
  ModelInferResponse response;
  for (const bool good : {true, false}) {
    ModelInferRequest request = Raw({{0.5, 0.5}});
    if (!good) request.mutable_inputs(0)->set_datatype("FP99");
    const double start = Now();
    EXPECT_EQ(Infer(*stub, request, response).ok(), good);
    EXPECT_GE(Now() - start, 0.7) << good;
  }
}

TEST_F(GrpcTest, HealthFollowsReadinessAndCallsThatHaveBegunAreAnswered) {
  const auto server = Serve({"--latency-floor", "2s", "--drain-grace", "3s"});
  const std::string target = Target(*server);
  EXPECT_TRUE(WaitFor([&] { return Health(target) == "serving"; }, 10));
  const auto stub = StubOf(*server);
  auto answer = std::async(std::launch::async, [&] { return Labels(*stub, Raw({{0.5, 0.5}})); });
  SleepSeconds(0.3);
  server->process().Signal(SIGTERM);
  EXPECT_TRUE(WaitFor([&] { return Health(target) == "not serving"; }, 2));
  EXPECT_EQ(answer.get().size(), 1);
  const Outcome outcome = server->process().Wait();
  EXPECT_EQ(outcome.code, 0) << outcome;
}

TEST_F(GrpcTest, TlsIsThatOfHttp) {
  MakeTlsFiles("lucid.test", scratch_ / "tls.pem", scratch_ / "tls.key");
  const auto server =
      Serve({"--tls-cert", scratch_ / "tls.pem", "--tls-key", scratch_ / "tls.key"});
  const auto stub = TlsStubOf(*server, ReadBytes(scratch_ / "tls.pem"));
  EXPECT_EQ(Labels(*stub, Raw({{0.5, 0.5}})).size(), 1);
  ModelInferResponse response;
  EXPECT_EQ(Infer(*StubOf(*server), Raw({{0.5, 0.5}}), response).error_code(),
            grpc::StatusCode::UNAVAILABLE)
      << "plain text gets nothing";
}

TEST_F(GrpcTest, APortThatIsTakenOrOpenToAllIsRefused) {
  const auto server = Serve();
  const auto serve = [&](const std::string& address) {
    return RunLucid({"serve", scratch_ / "run", "--key-file", scratch_ / "key", "--unchecked",
                     "--listen", "127.0.0.1:0", "--admin", "", "--grpc", address},
                    {.timeout = 20});
  };
  const Outcome taken = serve(Target(*server));
  EXPECT_EQ(taken.code, 2) << taken;
  EXPECT_THAT(taken.err, HasSubstr("cannot listen on"));
  const Outcome open = serve("0.0.0.0:0");
  EXPECT_EQ(open.code, 2) << open;
  EXPECT_THAT(open.err, HasSubstr("grpc: 0.0.0.0:0 can be reached by other machines"));
}

}  // namespace
}  // namespace lucid::test
