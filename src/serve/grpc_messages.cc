#include "serve/grpc_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/bytes.h"

namespace lucid {
namespace {

using Json = nlohmann::json;
using Tensor = inference::ModelInferRequest::InferInputTensor;
using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;

bool SpeaksOfBinaryData(std::string_view name) {
  return name == "binary_data" || name == "binary_data_size" || name == "binary_data_output";
}

// Appends `,"name":value` for each.
void PutParameters(std::string& out, const Parameters& parameters) {
  for (const auto& [name, value] : parameters) {
    if (SpeaksOfBinaryData(name)) continue;
    out.append(",").append(JsonText(name)).append(":");
    switch (value.parameter_choice_case()) {
      case inference::InferParameter::kBoolParam:
        out += value.bool_param() ? "true" : "false";
        break;
      case inference::InferParameter::kInt64Param:
        out += fmt::format("{}", value.int64_param());
        break;
      case inference::InferParameter::kUint64Param:
        out += fmt::format("{}", value.uint64_param());
        break;
      case inference::InferParameter::kStringParam:
        out += JsonText(value.string_param());
        break;
      default:  // a number that may be infinite, or nothing: both are as good as not there
        out += "null";
    }
  }
}

// Numbers of a message that are those of a narrower type. Errors: one of them is not.
template <typename Number, typename Range>
Status PutNumbers(std::string& out, const Range& range) {
  using Given = typename Range::value_type;
  for (const Given value : range) {
    const bool fits = value >= static_cast<Given>(std::numeric_limits<Number>::lowest()) &&
                      value <= static_cast<Given>(std::numeric_limits<Number>::max());
    if (!fits && !std::is_floating_point_v<Given>) {
      return InvalidInput(fmt::format("{} does not fit into the datatype", value));
    }
    PutBytes(out, static_cast<Number>(value));
  }
  return Ok();
}

// The data of a tensor as bytes, by its datatype.
Status PutContents(std::string& out, const Tensor& tensor) {
  const std::string& type = tensor.datatype();
  const inference::InferTensorContents& data = tensor.contents();
  if (type == "FP32") return PutNumbers<float>(out, data.fp32_contents());
  if (type == "FP64") return PutNumbers<double>(out, data.fp64_contents());
  if (type == "INT64") return PutNumbers<std::int64_t>(out, data.int64_contents());
  if (type == "INT32") return PutNumbers<std::int32_t>(out, data.int_contents());
  if (type == "INT16") return PutNumbers<std::int16_t>(out, data.int_contents());
  if (type == "INT8") return PutNumbers<std::int8_t>(out, data.int_contents());
  if (type == "UINT64") return PutNumbers<std::uint64_t>(out, data.uint64_contents());
  if (type == "UINT32") return PutNumbers<std::uint32_t>(out, data.uint_contents());
  if (type == "UINT16") return PutNumbers<std::uint16_t>(out, data.uint_contents());
  if (type == "UINT8") return PutNumbers<std::uint8_t>(out, data.uint_contents());
  if (type == "BYTES") {
    for (const std::string& text : data.bytes_contents()) {
      PutBytes(out, static_cast<std::uint32_t>(text.size()));
      out += text;
    }
    return Ok();
  }
  return InvalidInput("has a datatype whose data can be sent as raw contents only, if at all");
}

// What a response says as JSON, and the bytes behind it.
struct Parts {
  Json json;
  std::string_view binary;
};

Result<Parts> PartsOf(const Response& response) {
  std::size_t length = response.body.size();
  for (const auto& [name, value] : response.fields) {
    if (name != "Inference-Header-Content-Length") continue;
    std::from_chars(value.data(), value.data() + value.size(), length);
  }
  const std::string_view body = response.body;
  Parts parts{Json::parse(body.substr(0, length), nullptr, /*allow_exceptions=*/false),
              body.substr(std::min(length, body.size()))};
  if (parts.json.is_object()) return parts;
  return InternalError("the answer is no JSON object");
}

// Json's at() throws where something is not there.
template <typename Filling>
Status WithJson(const Response& response, Filling filling) {
  LUCID_ASSIGN(const Parts parts, PartsOf(response));
  try {
    filling(parts);
  } catch (const Json::exception&) {
    return InternalError("the answer is not what it should be");
  }
  return Ok();
}

}  // namespace

Result<InferenceBody> BodyOf(const inference::ModelInferRequest& request) {
  const bool raw = request.raw_input_contents_size() > 0;
  if (raw && request.raw_input_contents_size() != request.inputs_size()) {
    return InvalidInput(fmt::format("there are {} raw contents for {} inputs",
                                    request.raw_input_contents_size(), request.inputs_size()));
  }
  InferenceBody body;
  std::string binary;
  body.bytes = "{";
  if (!request.id().empty()) {
    body.bytes.append("\"id\":").append(JsonText(request.id())).append(",");
  }
  body.bytes += R"("parameters":{"binary_data_output":true)";
  PutParameters(body.bytes, request.parameters());
  body.bytes += R"(},"inputs":[)";
  for (int i = 0; i < request.inputs_size(); ++i) {
    const Tensor& tensor = request.inputs(i);
    const std::size_t before = binary.size();
    if (raw && tensor.has_contents()) {
      return InvalidInput(
          fmt::format("input {}: has contents beside raw contents: send one of them", i));
    }
    if (raw) binary += request.raw_input_contents(i);
    if (!raw) {
      if (const Status put = PutContents(binary, tensor); !put.ok()) {
        return InvalidInput(fmt::format("input {}: {}", i, put.error().message));
      }
    }
    body.bytes += fmt::format(
        R"({}{{"name":{},"datatype":{},"shape":[{}],"parameters":{{"binary_data_size":{})",
        i == 0 ? "" : ",", JsonText(tensor.name()), JsonText(tensor.datatype()),
        fmt::join(tensor.shape(), ","), binary.size() - before);
    PutParameters(body.bytes, tensor.parameters());
    body.bytes += "}}";
  }
  body.bytes += "]";
  for (int i = 0; i < request.outputs_size(); ++i) {
    body.bytes +=
        fmt::format(R"({}{{"name":{},"parameters":{{"binary_data":true)",
                    i == 0 ? R"(,"outputs":[)" : ",", JsonText(request.outputs(i).name()));
    PutParameters(body.bytes, request.outputs(i).parameters());
    body.bytes += "}}";
  }
  body.bytes += request.outputs_size() > 0 ? "]}" : "}";
  body.json_length = body.bytes.size();
  body.bytes += binary;
  return body;
}

std::string ModelPath(const std::string& name, const std::string& version, std::string_view what) {
  return fmt::format("/v2/models/{}{}{}{}", name, version.empty() ? "" : "/versions/", version,
                     what);
}

Status Fill(const Response& response, inference::ServerMetadataResponse& message) {
  return WithJson(response, [&](const Parts& parts) {
    message.set_name(parts.json.at("name").get<std::string>());
    message.set_version(parts.json.at("version").get<std::string>());
  });
}

Status Fill(const Response& response, inference::ModelMetadataResponse& message) {
  return WithJson(response, [&](const Parts& parts) {
    message.set_name(parts.json.at("name").get<std::string>());
    message.set_platform(parts.json.at("platform").get<std::string>());
    for (const Json& version : parts.json.at("versions")) {
      message.add_versions(version.get<std::string>());
    }
    const auto put = [](const Json& from, auto& tensor) {
      tensor.set_name(from.at("name").get<std::string>());
      tensor.set_datatype(from.at("datatype").get<std::string>());
      for (const Json& size : from.at("shape")) tensor.add_shape(size.get<std::int64_t>());
    };
    for (const Json& input : parts.json.at("inputs")) put(input, *message.add_inputs());
    for (const Json& output : parts.json.at("outputs")) put(output, *message.add_outputs());
  });
}

Status Fill(const Response& response, bool raw, inference::ModelInferResponse& message) {
  return WithJson(response, [&](const Parts& parts) {
    message.set_model_name(parts.json.at("model_name").get<std::string>());
    message.set_model_version(parts.json.at("model_version").get<std::string>());
    if (parts.json.contains("id")) message.set_id(parts.json.at("id").get<std::string>());
    const Json& from = parts.json.at("outputs").at(0);
    auto& output = *message.add_outputs();
    output.set_name(from.at("name").get<std::string>());
    output.set_datatype(from.at("datatype").get<std::string>());
    for (const Json& size : from.at("shape")) output.add_shape(size.get<std::int64_t>());
    if (raw) return message.add_raw_output_contents(std::string(parts.binary));
    ByteCursor cursor(parts.binary);
    while (cursor.left() > 0) {
      output.mutable_contents()->add_int64_contents(cursor.Take<std::int64_t>());
    }
  });
}

std::string ErrorIn(const Response& response) {
  const Json json = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("error") && json["error"].is_string()
             ? json["error"].get<std::string>()
             : "the request was refused";
}

}  // namespace lucid
