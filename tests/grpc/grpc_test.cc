// The Open Inference Protocol over gRPC says what it says over HTTP, to the bit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <future>
#include <limits>
#include <thread>

#include "serve/inference.grpc.pb.h"
#include "serve/server.h"

namespace lucid::test {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using testing::HasSubstr;
using Row = std::pair<double, double>;
using Stub = inference::GRPCInferenceService::Stub;

// A grid over the domain: some of it is noised, whatever the bounds are.
std::vector<Row> Grid(int n) {
  std::vector<Row> rows;
  for (int i = 0; i < n * n; ++i) rows.emplace_back(1.0 / n * (i % n), 1.0 / n * (i / n));
  return rows;
}

class GrpcTest : public testing::Test {
 protected:
  void SetUp() override { MakeRun(scratch_ / "run"); }

  std::unique_ptr<ServerProcess> Serve(const std::vector<std::string>& arguments = {},
                                       const RunOptions& options = {}) {
    auto server = std::make_unique<ServerProcess>(
        scratch_, std::vector<std::string>{"--grpc", "127.0.0.1:0"} + arguments, options);
    EXPECT_GT(server->grpc_port(), 0);
    return server;
  }
  static std::string Target(const ServerProcess& server) {
    return fmt::format("127.0.0.1:{}", server.grpc_port());
  }
  static std::unique_ptr<Stub> StubOf(const ServerProcess& server) {
    return inference::GRPCInferenceService::NewStub(
        grpc::CreateChannel(Target(server), grpc::InsecureChannelCredentials()));
  }
  static grpc::Status Infer(Stub& stub, const ModelInferRequest& request,
                            ModelInferResponse& response,
                            const std::pair<std::string, std::string>& metadata = {}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    if (!metadata.first.empty()) context.AddMetadata(metadata.first, metadata.second);
    const grpc::Status status = stub.ModelInfer(&context, request, &response);
    EXPECT_EQ(SecretIn(status.error_message() + response.ShortDebugString()), "");
    return status;
  }
  // As tritonclient's code for gRPC sends it: raw contents.
  static ModelInferRequest Raw(const std::vector<Row>& rows) {
    ModelInferRequest request;
    request.set_model_name("lucid");
    auto& input = *request.add_inputs();
    input.set_name("input");
    input.set_datatype("FP32");
    input.add_shape(static_cast<std::int64_t>(rows.size()));
    input.add_shape(2);
    request.add_outputs()->set_name("label");
    std::string& bytes = *request.add_raw_input_contents();
    for (const auto& [x, y] : rows) {
      for (const float value : {static_cast<float>(x), static_cast<float>(y)}) {
        bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
      }
    }
    return request;
  }
  // As KServe's client sends it: typed contents.
  static ModelInferRequest Typed(const std::vector<Row>& rows) {
    ModelInferRequest request = Raw(rows);
    request.clear_raw_input_contents();
    request.clear_outputs();
    for (const auto& [x, y] : rows) {
      auto& contents = *request.mutable_inputs(0)->mutable_contents();
      contents.add_fp32_contents(static_cast<float>(x));
      contents.add_fp32_contents(static_cast<float>(y));
    }
    return request;
  }
  static std::vector<int> LabelsIn(const ModelInferResponse& response) {
    std::vector<int> labels;
    EXPECT_EQ(response.outputs_size(), 1);
    EXPECT_EQ(response.outputs(0).name(), "label");
    EXPECT_EQ(response.outputs(0).datatype(), "INT64");
    if (response.raw_output_contents_size() == 1) {
      const std::string& bytes = response.raw_output_contents(0);
      for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
        std::int64_t label = 0;
        std::memcpy(&label, bytes.data() + at, sizeof(label));
        labels.push_back(static_cast<int>(label));
      }
    } else {
      for (const std::int64_t label : response.outputs(0).contents().int64_contents()) {
        labels.push_back(static_cast<int>(label));
      }
    }
    EXPECT_EQ(response.outputs(0).shape_size(), 1);
    EXPECT_EQ(response.outputs(0).shape(0), std::ssize(labels));
    return labels;
  }
  static std::vector<int> Labels(Stub& stub, const ModelInferRequest& request) {
    ModelInferResponse response;
    const grpc::Status status = Infer(stub, request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return status.ok() ? LabelsIn(response) : std::vector<int>{};
  }

  Scratch scratch_;
};

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

// gRPC's own health service, by its wire format: field 1 of the answer is 1 if it serves.
std::string Health(const std::string& target) {
  grpc::GenericStub stub(grpc::CreateChannel(target, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  grpc::ByteBuffer request(nullptr, 0), response;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&](grpc::Status status) { done.set_value(std::move(status)); });
  if (const grpc::Status status = done.get_future().get(); !status.ok()) {
    return status.error_message();
  }
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(response.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes == "\x08\x01" ? "serving" : bytes == "\x08\x02" ? "not serving" : "?";
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
  // A self-signed certificate.
  EVP_PKEY* pair = EVP_EC_gen("P-256");
  X509* x509 = X509_new();
  X509_set_version(x509, 2);
  X509_gmtime_adj(X509_getm_notBefore(x509), -60);
  X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
  X509_set_pubkey(x509, pair);
  X509_NAME* subject = X509_get_subject_name(x509);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("lucid.test"), -1, -1, 0);
  X509_set_issuer_name(x509, subject);
  X509_sign(x509, pair, EVP_sha256());
  FILE* file = std::fopen((scratch_ / "tls.pem").c_str(), "w");
  PEM_write_X509(file, x509);
  std::fclose(file);
  file = std::fopen((scratch_ / "tls.key").c_str(), "w");
  PEM_write_PrivateKey(file, pair, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  X509_free(x509);
  EVP_PKEY_free(pair);
  std::filesystem::permissions(scratch_ / "tls.key", std::filesystem::perms(0600));
  const auto server =
      Serve({"--tls-cert", scratch_ / "tls.pem", "--tls-key", scratch_ / "tls.key"});
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = ReadBytes(scratch_ / "tls.pem");
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("lucid.test");
  const auto stub = inference::GRPCInferenceService::NewStub(
      grpc::CreateCustomChannel(Target(*server), grpc::SslCredentials(options), arguments));
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
