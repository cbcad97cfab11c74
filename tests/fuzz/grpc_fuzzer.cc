// Any bytes as a ModelInferRequest of gRPC. Whatever parses becomes a body whose JSON is valid and
// whose id is the message's; what a reader accepts of it is whole, finite and within the limits.
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "fuzz/require.h"
#include "serve/grpc_messages.h"
#include "serve/label_request.h"

namespace {

constexpr lucid::LabelRequestLimits kLimits{.rows = 4, .json_depth = 8};

const lucid::LabelRequestReader& Reader() {
  static const lucid::LabelRequestReader reader(
      lucid::Schema::Parse("column,kind,offset,divisor,categories\n"
                           "age,numeric,0,100,\n"
                           "sex,binary,,,0|1\n"
                           "town,categorical,,,x|y|z\n"
                           "label,label,,,no|yes\n",
                           "schema.csv")
          .value(),
      kLimits);
  return reader;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  inference::ModelInferRequest message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto body = lucid::BodyOf(message);
  if (!body.ok()) {
    RequireOneLine(body.error().message);
    return 0;
  }
  Require(body->json_length <= body->bytes.size());
  Require(nlohmann::json::accept(body->bytes.substr(0, body->json_length)));
  const auto request = Reader().ReadInference(body->bytes, body->json_length);
  if (!request.ok()) {
    RequireOneLine(request.error().message);
    return 0;
  }
  Require(request->binary_output);
  Require(request->id == message.id());
  Require(request->rows >= 1 && request->rows <= kLimits.rows);
  Require(request->values.size() == static_cast<std::size_t>(request->rows) * 5);
  for (const float value : request->values) Require(std::isfinite(value));
  return 0;
}
