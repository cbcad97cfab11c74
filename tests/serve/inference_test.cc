// Requests and answers in the exact bytes that Triton's and KServe's own clients send and expect:
// tritonclient's HTTP code sends no Content-Type, binary tensors, and asks for binary outputs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "serve/server.h"

namespace lucid::test {
namespace {

using testing::HasSubstr;
using Rows = std::vector<std::pair<double, double>>;

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Texts as tritonclient's serialize_byte_tensor makes them.
std::string Texts(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) {
    bytes += Bytes<std::uint32_t>({static_cast<std::uint32_t>(text.size())}) + text;
  }
  return bytes;
}

std::string Compress(const std::string& text, bool gzip) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, gzip ? 31 : 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string in = text, out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// One tensor of a request: tritonclient.http.InferInput. Without `bytes` its data is JSON.
struct InferInput {
  std::string name, shape, type;
  std::string bytes, json;

  std::string Tensor() const {
    const std::string head =
        R"({"name":")" + name + R"(","shape":)" + shape + R"(,"datatype":")" + type + R"(")";
    if (!json.empty()) return head + R"(,"data":)" + json + "}";
    return head + fmt::format(R"(,"parameters":{{"binary_data_size":{}}}}})", bytes.size());
  }
};

struct InferOptions {
  std::string id = {};
  std::string path = "/v2/models/lucid/infer";
  std::optional<bool> binary_output = {};  // none: no outputs are named: binary ones are wanted
  std::string compression = {};            // gzip, deflate or none
  std::string fields = {};
};

// What tritonclient.http.InferenceServerClient.infer writes to the socket.
std::string Infer(const std::vector<InferInput>& inputs, const InferOptions& options = {}) {
  std::string json = "{", bytes;
  if (!options.id.empty()) json += R"("id":")" + options.id + R"(",)";
  json += R"("inputs":[)";
  for (const InferInput& input : inputs) {
    if (json.back() == '}') json += ",";
    json += input.Tensor();
    bytes += input.bytes;
  }
  json +=
      options.binary_output
          ? fmt::format(R"(],"outputs":[{{"name":"label","parameters":{{"binary_data":{}}}}}]}})",
                        *options.binary_output)
          : std::string(R"(],"parameters":{"binary_data_output":true}})");
  std::string fields = "User-Agent: python/gevent-http-client-2.0.2\r\nHost: 127.0.0.1\r\n";
  std::string body = json + bytes;
  if (!options.compression.empty()) {
    fields += "Content-Encoding: " + options.compression + "\r\n";
    body = Compress(body, options.compression == "gzip");
  }
  if (!bytes.empty()) fields += fmt::format("Inference-Header-Content-Length: {}\r\n", json.size());
  fields += options.fields + fmt::format("Content-Length: {}\r\n", body.size());
  return "POST " + options.path + " HTTP/1.1\r\n" + fields + "\r\n" + body;
}

// tritonclient.http.InferResult: the labels, taken out as it takes them out.
std::vector<std::int64_t> LabelsIn(const Reply& reply, const std::string& id = "") {
  EXPECT_EQ(reply.status, 200) << reply;
  const std::string length = reply.Field("Inference-Header-Content-Length");
  const std::size_t json_length = length.empty() ? reply.body.size() : std::stoul(length);
  const auto result =
      nlohmann::json::parse(reply.body.substr(0, json_length), nullptr, /*allow_exceptions=*/false);
  if (!result.is_object() || !result.contains("outputs")) {
    ADD_FAILURE() << reply;
    return {};
  }
  EXPECT_EQ(result.value("id", ""), id);
  EXPECT_EQ(result["model_name"], "lucid");
  EXPECT_EQ(result["model_version"], "1");
  const nlohmann::json& output = result["outputs"].at(0);
  EXPECT_EQ(output["name"], "label");
  EXPECT_EQ(output["datatype"], "INT64");
  const std::size_t rows = output["shape"].at(0).get<std::size_t>();
  std::vector<std::int64_t> labels(rows);
  if (output.contains("data")) {
    EXPECT_EQ(length, "");
    EXPECT_FALSE(output.contains("parameters"));
    labels = output["data"].get<std::vector<std::int64_t>>();
  } else {
    EXPECT_EQ(output["parameters"]["binary_data_size"], 8 * rows);
    const std::string bytes = reply.body.substr(json_length);
    EXPECT_EQ(bytes.size(), 8 * rows);
    if (bytes.size() == 8 * rows) std::memcpy(labels.data(), bytes.data(), bytes.size());
  }
  EXPECT_EQ(labels.size(), rows);
  return labels;
}

class InferenceTest : public testing::Test {
 protected:
  void SetUp() override { MakeRun(scratch_ / "run"); }

  // Values that FP16 has exactly, so that all types ask for the same rows.
  static Rows Grid() {
    Rows rows;
    for (int i = 0; i < 64; ++i) rows.emplace_back(i % 8 / 8.0, i / 8 / 8.0);
    return rows;
  }
  template <typename T>
  static std::string Flat(const Rows& rows) {
    std::vector<T> values;
    for (const auto& [x, y] : rows) values.insert(values.end(), {T(x), T(y)});
    return Bytes(values);
  }
  template <typename T>
  static std::string Column(const Rows& rows, double std::pair<double, double>::*column) {
    std::vector<T> values;
    for (const auto& row : rows) values.push_back(T(row.*column));
    return Bytes(values);
  }
  static std::vector<std::int64_t> Wanted(const ServerProcess& server) {
    const std::vector<int> labels = server.Labels(Grid());
    return {labels.begin(), labels.end()};
  }

  Scratch scratch_;
};

// The bits of a half in [0,1) with at most 10 bits behind the point, 0 included.
std::uint16_t HalfOf(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // [0.5, 1)
  return static_cast<std::uint16_t>(((exponent + 14) << 10) |
                                    static_cast<int>((2 * fraction - 1) * 1024));
}

TEST_F(InferenceTest, TritonsClientGetsTheLabelsOfPredictInEveryType) {
  const ServerProcess server(scratch_);
  const auto wanted = Wanted(server);
  const Rows rows = Grid();
  std::vector<std::uint16_t> halves;
  std::vector<std::string> first, second;
  for (const auto& [x, y] : rows) {
    halves.insert(halves.end(), {HalfOf(x), HalfOf(y)});
    first.push_back(fmt::format("{}", x));
    second.push_back(fmt::format("{}", y));
  }
  using Row = std::pair<double, double>;
  const std::vector<std::vector<InferInput>> requests = {
      {{"input", "[64,2]", "FP32", Flat<float>(rows), ""}},
      {{"input", "[64,2]", "FP64", Flat<double>(rows), ""}},
      {{"input", "[64,2]", "FP16", Bytes(halves), ""}},
      {{"x1", "[64,1]", "FP64", Column<double>(rows, &Row::first), ""},
       {"x2", "[64,1]", "FP32", Column<float>(rows, &Row::second), ""}},
      {{"x2", "[64]", "BYTES", Texts(second), ""}, {"x1", "[64]", "BYTES", Texts(first), ""}},
  };
  for (const auto& inputs : requests) {
    const std::string what = inputs[0].Tensor();
    for (const char* compression : {"", "gzip", "deflate"}) {
      const Reply reply = server.Ask(Infer(inputs, {.id = "a1", .compression = compression}));
      EXPECT_EQ(LabelsIn(reply, "a1"), wanted) << what << compression;
      EXPECT_EQ(reply.Field("Content-Type"), "application/octet-stream") << what;
    }
    EXPECT_EQ(LabelsIn(server.Ask(Infer(inputs, {.binary_output = true}))), wanted) << what;
    const Reply text = server.Ask(Infer(inputs, {.binary_output = false}));
    EXPECT_EQ(LabelsIn(text), wanted) << what;
    EXPECT_EQ(text.Field("Content-Type"), "application/json") << what;
    EXPECT_EQ(text.Field("Inference-Header-Content-Length"), "") << what;
  }
  const std::string json = PredictBody(rows).substr(9);  // [[x,y],...]}
  EXPECT_EQ(LabelsIn(server.Ask(
                Infer({{"input", "[64,2]", "FP32", "", json.substr(0, json.size() - 1)}}))),
            wanted)
      << "set_data_from_numpy(binary_data=False)";
  EXPECT_EQ(LabelsIn(server.Ask(Infer(requests[0], {.path = "/v2/models/lucid/versions/1/infer"}))),
            wanted);
  EXPECT_EQ(server.Ask(Infer(requests[0], {.path = "/v2/models/lucid/versions/2/infer"})).status,
            404);
}

// kserve.InferenceRESTClient names a type, in lower case, and asks for each output.
TEST_F(InferenceTest, KServesClientGetsItsLabels) {
  const ServerProcess server(scratch_);
  const Rows rows = Grid();
  const Reply reply = server.Ask(Infer({{"input", "[64,2]", "FP32", Flat<float>(rows), ""}},
                                       {.id = "k",
                                        .fields = "content-type: "
                                                  "application/octet-stream\r\n"}));
  EXPECT_EQ(LabelsIn(reply, "k"), Wanted(server));
}

TEST_F(InferenceTest, OneConnectionServesAWholeSession) {
  const ServerProcess server(scratch_);
  const auto wanted = Wanted(server);
  Socket socket(server.port());
  const auto get = [&](const std::string& path) {
    socket.Send("GET " + path +
                " HTTP/1.1\r\nUser-Agent: python/gevent-http-client-2.0.2\r\n"
                "Host: 127.0.0.1\r\n\r\n");
    return socket.Read();
  };
  for (const char* path : {"/v2/health/live", "/v2/health/ready", "/v2/models/lucid/ready",
                           "/v2/models/lucid/versions/1/ready"}) {
    EXPECT_EQ(get(path).status, 200) << path;
  }
  EXPECT_EQ(get("/v2").Json()["extensions"],
            nlohmann::json({"binary_tensor_data", "model_configuration"}));
  EXPECT_EQ(get("/v2/models/lucid/versions/1").Json()["versions"], nlohmann::json({"1"}));
  const nlohmann::json config = get("/v2/models/lucid/versions/1/config").Json();
  EXPECT_EQ(config["name"], "lucid");
  EXPECT_EQ(config["input"][0]["data_type"], "TYPE_FP32");
  EXPECT_EQ(config["output"][0]["data_type"], "TYPE_INT64");
  for (int i = 0; i < 3; ++i) {
    socket.Send(
        Infer({{"input", "[64,2]", "FP32", Flat<float>(Grid()), ""}}, {.id = std::to_string(i)}));
    EXPECT_EQ(LabelsIn(socket.Read(), std::to_string(i)), wanted);
  }
}

TEST_F(InferenceTest, WhatABrowserSendsForAPageNeedsItsType) {
  const ServerProcess server(scratch_);
  const std::vector<InferInput> input = {{"input", "[1,2]", "FP32", "", "[0.25,0.5]"}};
  EXPECT_EQ(server.Ask(Infer(input)).status, 200);
  for (const char* field : {"Origin: http://evil.example\r\n", "Origin: null\r\n",
                            "Sec-Fetch-Site: cross-site\r\n", "sec-fetch-site: none\r\n"}) {
    const Reply refused = server.Ask(Infer(input, {.fields = field}));
    EXPECT_EQ(refused.status, 415) << field;
    const Reply typed = server.Ask(
        Infer(input, {.fields = std::string(field) + "Content-Type: application/json\r\n"}));
    EXPECT_EQ(typed.status, 200) << "the browser has asked before it sent this; " << field;
    EXPECT_EQ(typed.Field("Access-Control-Allow-Origin"), "") << field;
  }
  EXPECT_EQ(server
                .Ask("OPTIONS /v2/models/lucid/infer HTTP/1.1\r\nHost: x\r\nOrigin: "
                     "http://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n")
                .status,
            405)
      << "and this is the answer to that question";
}

TEST_F(InferenceTest, BadLengthsOfTheJsonPartAreRefused) {
  const ServerProcess server(scratch_);
  const std::string good = Infer({{"input", "[1,2]", "FP32", Flat<float>({{0.25, 0.5}}), ""}});
  const std::string name = "Inference-Header-Content-Length: ";
  const std::size_t at = good.find(name) + name.size();
  const std::size_t end = good.find("\r\n", at);
  const int length = std::stoi(good.substr(at, end - at));
  const auto with = [&](const std::string& value) {
    return good.substr(0, at) + value + good.substr(end);
  };
  EXPECT_EQ(server.Ask(with(std::to_string(length))).status, 200);
  for (const std::string& bad :
       {std::string("0"), std::to_string(length - 1), std::to_string(length + 1),
        std::string("99999999"), std::string("-1"), std::string("1e2"), std::string("")}) {
    EXPECT_EQ(server.Ask(with(bad)).status, 400) << bad;
  }
  EXPECT_EQ(server.Ask(with(std::to_string(length) + "\r\n" + name + "1")).status, 400) << "twice";
  EXPECT_EQ(server.Ask(with(std::to_string(length))).status, 200) << "the server goes on";
}

TEST_F(InferenceTest, ABombCostsItsSenderAnAnswer) {
  const ServerProcess server(scratch_);
  const Reply reply =
      server.Ask(Post("/predict", Compress(std::string(50'000'000, ' '), /*gzip=*/true),
                      "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(reply.status, 413) << reply;
  EXPECT_EQ(server.Ask(Get("/v2/health/live")).status, 200);
}

}  // namespace
}  // namespace lucid::test
