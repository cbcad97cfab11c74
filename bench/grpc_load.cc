// A load of ModelInfer calls, one row each: so many connections, one call under way on each.
//
//   grpc_load ADDRESS SECONDS CONNECTIONS FEATURES
//
// Looks at one answer first, which has to be a label. Prints calls per second, the median and the
// 99th percentile of their times in ms, and how many failed.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "serve/inference.grpc.pb.h"

namespace {

using Clock = std::chrono::steady_clock;
using Stub = inference::GRPCInferenceService::Stub;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

constexpr int kThreads = 2;

ModelInferRequest OneRow(int features) {
  ModelInferRequest request;
  request.set_model_name("lucid");
  auto& input = *request.add_inputs();
  input.set_name("input");
  input.set_datatype("FP32");
  input.add_shape(1);
  input.add_shape(features);
  const std::vector<float> row(static_cast<std::size_t>(features), 0.25F);
  request.add_raw_input_contents(row.data(), row.size() * sizeof(float));
  return request;
}

bool IsLabel(const grpc::Status& status, const ModelInferResponse& response) {
  return status.ok() && response.outputs_size() == 1 && response.outputs(0).name() == "label" &&
         response.raw_output_contents_size() == 1 && response.raw_output_contents(0).size() == 8;
}

std::unique_ptr<Stub> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  return inference::GRPCInferenceService::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

struct Outcome {
  std::vector<double> milliseconds;
  std::int64_t failed = 0;
};

// One call after another on each of some connections, until `end`.
class Loader {
 public:
  Loader(const std::string& address, int connections, const ModelInferRequest& request)
      : request_(request) {
    for (int i = 0; i < connections; ++i) {
      calls_.push_back(std::make_unique<Call>());
      calls_.back()->stub = Connect(address);
    }
  }

  Outcome Run(Clock::time_point end) {
    for (const auto& call : calls_) Begin(*call);
    for (std::size_t under_way = calls_.size(); under_way > 0;) {
      void* tag = nullptr;
      bool ok = false;
      if (!queue_.Next(&tag, &ok)) break;
      Call& call = *static_cast<Call*>(tag);
      const auto now = Clock::now();
      outcome_.milliseconds.push_back(
          std::chrono::duration<double, std::milli>(now - call.begun).count());
      if (!IsLabel(call.status, call.response)) ++outcome_.failed;
      now < end ? Begin(call) : static_cast<void>(--under_way);
    }
    return std::move(outcome_);
  }

 private:
  struct Call {
    std::unique_ptr<Stub> stub;
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<ModelInferResponse>> reader;
    ModelInferResponse response;
    grpc::Status status;
    Clock::time_point begun;
  };

  void Begin(Call& call) {
    call.begun = Clock::now();
    call.response.Clear();
    call.context = std::make_unique<grpc::ClientContext>();
    call.reader = call.stub->AsyncModelInfer(call.context.get(), request_, &queue_);
    call.reader->Finish(&call.response, &call.status, &call);
  }

  const ModelInferRequest& request_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Call>> calls_;
  Outcome outcome_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: grpc_load ADDRESS SECONDS CONNECTIONS FEATURES\n");
    return 2;
  }
  const double seconds = std::strtod(argv[2], nullptr);
  const int connections = std::atoi(argv[3]);
  const ModelInferRequest request = OneRow(std::atoi(argv[4]));
  grpc::ClientContext context;
  ModelInferResponse first;
  if (!IsLabel(Connect(argv[1])->ModelInfer(&context, request, &first), first)) {
    std::fprintf(stderr, "grpc_load: not a label\n");
    return 1;
  }
  const auto start = Clock::now();
  const auto end =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<Outcome> outcomes(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Loader loader(argv[1], connections / kThreads, request);
        outcomes[static_cast<std::size_t>(t)] = loader.Run(end);
      });
    }
  }
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  std::vector<double> all;
  std::int64_t failed = 0;
  for (const Outcome& outcome : outcomes) {
    all.insert(all.end(), outcome.milliseconds.begin(), outcome.milliseconds.end());
    failed += outcome.failed;
  }
  if (all.empty()) return 1;
  std::ranges::sort(all);
  std::printf("%.0f %.3f %.3f %lld\n", static_cast<double>(all.size()) / took, all[all.size() / 2],
              all[all.size() * 99 / 100], static_cast<long long>(failed));
}
