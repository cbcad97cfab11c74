// `lucid serve --grpc` and a client that is generated from the protocol.
#pragma once

#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/inference.grpc.pb.h"
#include "serve/server.h"

namespace lucid::test {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using Row = std::pair<double, double>;
using Stub = inference::GRPCInferenceService::Stub;

// gRPC's own health service, by its wire format: field 1 of the answer is 1 if it serves.
inline std::string Health(const std::string& target) {
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
  // With a connection of its own.
  static std::unique_ptr<Stub> StubOf(const ServerProcess& server) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return inference::GRPCInferenceService::NewStub(
        grpc::CreateCustomChannel(Target(server), grpc::InsecureChannelCredentials(), arguments));
  }
  // One that trusts the server `certificate` (PEM) for lucid.test; with a connection of its own.
  static std::unique_ptr<Stub> TlsStubOf(const ServerProcess& server,
                                         const std::string& certificate) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = certificate;
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("lucid.test");
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return inference::GRPCInferenceService::NewStub(
        grpc::CreateCustomChannel(Target(server), grpc::SslCredentials(options), arguments));
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

}  // namespace lucid::test
