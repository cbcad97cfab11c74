// The empty gRPC handler: the protocol's ModelInfer with a fixed answer. What bench/run_grpc
// compares `lucid serve --grpc` with: the same library and interface (callbacks), and nothing else.
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "serve/inference.grpc.pb.h"

namespace {

class Handler final : public inference::GRPCInferenceService::CallbackService {
 public:
  grpc::ServerUnaryReactor* ModelInfer(grpc::CallbackServerContext* context,
                                       const inference::ModelInferRequest*,
                                       inference::ModelInferResponse* answer) override {
    answer->set_model_name("lucid");
    answer->set_model_version("1");
    inference::ModelInferResponse::InferOutputTensor& label = *answer->add_outputs();
    label.set_name("label");
    label.set_datatype("INT64");
    label.add_shape(1);
    answer->add_raw_output_contents(std::string(sizeof(std::int64_t), '\0'));
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

// grpc_peer: prints its port and serves until it is killed.
int main() {
  Handler handler;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&handler);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("%d\n", port);
  std::fflush(stdout);
  server->Wait();
}
