#include "serve/public_site.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "lucid/base/version.h"
#include "serve/assets.h"
#include "serve/compression.h"

namespace lucid {
namespace {

constexpr std::string_view kModelVersion = "1";
constexpr std::string_view kBytes = "application/octet-stream";

// Content types may have parameters: "application/json; charset=utf-8".
bool IsJson(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  return EqualInAnyCase(type.substr(0, type.find_last_not_of(" \t") + 1), "application/json");
}

// "Bearer KEY", the scheme in any case; empty if it is something else.
std::string_view BearerKey(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return {};
  if (!EqualInAnyCase(authorization.substr(0, kScheme.size()), kScheme)) return {};
  authorization.remove_prefix(kScheme.size());
  const auto first = authorization.find_first_not_of(' ');
  return first == std::string_view::npos ? std::string_view() : authorization.substr(first);
}

Response Json(std::string body, int status = 200) {
  Response response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

// A page of another site may send what an HTML form could send, without asking first. Types that a
// form cannot send are its defence. Clients that are no browsers may leave the type out: a browser
// that does so says for whom it asks.
bool IsAcceptable(const RequestHead& head) {
  if (IsJson(head.content_type)) return true;
  if (head.content_type.empty()) return !head.from_page;
  return head.json_length && EqualInAnyCase(head.content_type, kBytes);
}

std::optional<std::size_t> ParseLength(std::string_view text) {
  std::size_t value = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

// What must be said of a request with a body before the body is read.
std::optional<Response> CheckBody(const RequestHead& head, Endpoint endpoint) {
  if (!head.has_body_length) {
    return ErrorResponse(411, "a request with a body must have Content-Length or be chunked");
  }
  if (!IsAcceptable(head)) {
    return ErrorResponse(415, "the Content-Type must be application/json");
  }
  if (!CompressionNamed(head.content_encoding)) {
    return ErrorResponse(415, "the Content-Encoding must be gzip or deflate, or none");
  }
  if (!head.json_length) return std::nullopt;
  if (endpoint != Endpoint::kInfer) return ErrorResponse(400, "binary data is for infer only");
  if (!ParseLength(*head.json_length)) {
    return ErrorResponse(400, "Inference-Header-Content-Length must be one whole number");
  }
  return std::nullopt;
}

}  // namespace

struct PublicSite::Route {
  Endpoint endpoint;
  bool post = false, open = false;  // open: no key is needed
};

PublicSite::PublicSite(PublicSiteOptions options, const Schema& schema,
                       std::shared_ptr<const Labeller> labeller,
                       std::shared_ptr<const ApiKeys> keys, SiteState& state)
    : options_(std::move(options)),
      reader_(schema, options_.limits),
      labeller_(std::move(labeller)),
      keys_(std::move(keys)),
      state_(state),
      name_json_(JsonText(options_.name)),
      model_json_(DescribeModel(schema)),
      config_json_(DescribeConfig(schema)) {
  for (const std::string& name : schema.label().categories) {
    class_names_json_.push_back(JsonText(name));
  }
}

std::string PublicSite::DescribeModel(const Schema& schema) const {
  using Json = nlohmann::ordered_json;
  Json inputs = Json::array();
  inputs.push_back(
      {{"name", "input"}, {"datatype", "FP32"}, {"shape", Json::array({-1, schema.features()})}});
  for (const Column& column : schema.columns()) {
    if (!column.is_feature()) continue;
    const bool numeric = column.kind == ColumnKind::kNumeric;
    inputs.push_back({{"name", column.name},
                      {"datatype", numeric ? "FP64" : "BYTES"},
                      {"shape", Json::array({-1, 1})}});
  }
  const Json outputs =
      Json::array({{{"name", "label"}, {"datatype", "INT64"}, {"shape", Json::array({-1})}}});
  const Json model = {{"name", options_.name},
                      {"versions", Json::array({kModelVersion})},
                      {"platform", "lucid"},
                      {"inputs", inputs},
                      {"outputs", outputs}};
  return model.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string PublicSite::DescribeConfig(const Schema& schema) const {
  using Json = nlohmann::ordered_json;
  // Shapes hold the number of rows themselves, which Triton calls a batch size of 0.
  Json inputs = Json::array();
  inputs.push_back({{"name", "input"},
                    {"data_type", "TYPE_FP32"},
                    {"dims", Json::array({-1, schema.features()})},
                    {"optional", true}});
  for (const Column& column : schema.columns()) {
    if (!column.is_feature()) continue;
    const bool numeric = column.kind == ColumnKind::kNumeric;
    inputs.push_back({{"name", column.name},
                      {"data_type", numeric ? "TYPE_FP64" : "TYPE_STRING"},
                      {"dims", Json::array({-1, 1})},
                      {"optional", true}});
  }
  const Json outputs =
      Json::array({{{"name", "label"}, {"data_type", "TYPE_INT64"}, {"dims", Json::array({-1})}}});
  const Json config = {{"name", options_.name},
                       {"platform", "lucid"},
                       {"backend", "lucid"},
                       {"max_batch_size", 0},
                       {"input", inputs},
                       {"output", outputs},
                       {"version_policy", {{"latest", {{"num_versions", 1}}}}}};
  return config.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What this client has asked itself, and nothing about time, which could tell more.
std::string PublicSite::DescribeTraffic(const Client& client) const {
  const ClientCounts::Counts counts = state_.client_counts.Of(client.account);
  return fmt::format(R"({{"model_stats":[{{"name":{},"version":"{}","inference_count":{},)"
                     R"("execution_count":{},"inference_stats":{{"success":{{"count":{}}},)"
                     R"("fail":{{"count":{}}}}}}}]}})",
                     name_json_, kModelVersion, counts.rows, counts.answered, counts.answered,
                     counts.refused);
}

std::optional<PublicSite::Route> PublicSite::RouteOf(std::string_view path) const {
  if (path == "/predict") return Route{Endpoint::kPredict, true};
  if (path == "/v2" || path == "/v2/") return Route{Endpoint::kServerInfo};
  if (path == "/v2/health/live" || path == "/v2/health/ready") {
    return Route{Endpoint::kHealth, false, true};
  }
  if (path == "/openapi.json") return Route{Endpoint::kOpenApi, false, true};
  const auto skip = [&path](std::string_view prefix) {
    const bool there = path.starts_with(prefix);
    if (there) path.remove_prefix(prefix.size());
    return there;
  };
  if (!skip("/v2/models/") || !skip(options_.name)) return std::nullopt;
  if (skip("/versions/") && !skip(kModelVersion)) return std::nullopt;
  if (path.empty()) return Route{Endpoint::kModelInfo};
  if (path == "/ready") return Route{Endpoint::kModelReady};
  if (path == "/config") return Route{Endpoint::kModelConfig};
  // Without keys all clients are one, and a count would tell each of them about the others.
  if (path == "/stats" && keys_ != nullptr) return Route{Endpoint::kModelStats};
  if (path == "/infer") return Route{Endpoint::kInfer, true};
  return std::nullopt;
}

std::optional<Response> PublicSite::Admit(Exchange& exchange) const {
  const RequestHead& head = exchange.head;
  const auto route = RouteOf(head.path);
  if (!route) return ErrorResponse(404, "there is nothing at this path");
  exchange.endpoint = route->endpoint;
  const bool get = head.method == HttpMethod::kGet || head.method == HttpMethod::kHead;
  if (route->post ? head.method != HttpMethod::kPost : !get) {
    const std::string_view allowed = route->post ? "POST" : "GET, HEAD";
    Response response = ErrorResponse(405, fmt::format("use {} here", allowed));
    response.fields.emplace_back("Allow", allowed);
    return response;
  }
  if (!route->open) {
    if (auto refusal = AdmitClient(exchange)) return refusal;
  }
  return route->post ? CheckBody(head, route->endpoint) : std::nullopt;
}

std::optional<Response> PublicSite::AdmitClient(Exchange& exchange) const {
  const RequestHead& head = exchange.head;
  std::optional<double> rate = options_.rate, burst;
  // Without keys the address is all there is to tell clients apart.
  exchange.client = {kAnonymous, std::nullopt, std::string(head.peer)};
  if (keys_ != nullptr) {
    const std::string_view bearer = BearerKey(head.authorization);
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    const ApiKeys::Check check = keys_->Find(bearer.empty() ? head.api_key : bearer, now);
    if (check.verdict != KeyVerdict::kAccepted) {
      ++state_.metrics.keys_refused;
      exchange.client = {};
      if (check.verdict == KeyVerdict::kRevoked) return ErrorResponse(403, "the key was revoked");
      const bool expired = check.verdict == KeyVerdict::kExpired;
      Response response = ErrorResponse(
          401, expired ? "the key has expired"
                       : "a valid key is needed: 'Authorization: Bearer KEY' or 'X-API-Key: KEY'");
      response.fields.emplace_back("WWW-Authenticate", "Bearer");
      return response;
    }
    exchange.client.account = exchange.client.sender = check.entry->id;
    if (check.entry->budget) {
      const auto budget = EpsilonUnits::RoundedDown(*check.entry->budget);
      if (!budget.ok()) return ErrorResponse(500, "internal error");  // ApiKeys checked it
      exchange.client.budget = *budget;
    }
    if (check.entry->rate) rate = check.entry->rate, burst = check.entry->burst;
  }
  if (!rate) return std::nullopt;
  const RequestRate limit{*rate, burst.value_or(std::max(1.0, *rate))};
  const auto verdict =
      state_.rate_limiter.Take(exchange.client.sender, limit, RateLimiter::Clock::now());
  if (verdict.allowed) return std::nullopt;
  ++state_.metrics.rate_limited;
  Response response = ErrorResponse(429, "too many requests");
  response.fields.emplace_back("Retry-After", std::to_string(verdict.retry_after.count()));
  return response;
}

void PublicSite::Answer(Exchange& exchange, std::string_view body, Reply reply) const {
  switch (exchange.endpoint) {
    case Endpoint::kPredict:
    case Endpoint::kInfer:
      return state_.queue.Submit(exchange.client.sender,
                                 [this, &exchange, body, reply = std::move(reply)]() mutable {
                                   AnswerLabels(exchange, body, std::move(reply));
                                 });
    case Endpoint::kServerInfo:
      return reply(Json(fmt::format(R"({{"name":"lucid","version":"{}","extensions":[)"
                                    R"("binary_tensor_data","model_configuration"{}]}})",
                                    Version(), keys_ != nullptr ? R"(,"statistics")" : "")));
    case Endpoint::kHealth:
      if (exchange.head.path.ends_with("live")) return reply(Json(R"({"live":true})"));
      return AnswerReady("", std::move(reply));
    case Endpoint::kModelInfo:
      return reply(Json(model_json_));
    case Endpoint::kModelConfig:
      return reply(Json(config_json_));
    case Endpoint::kModelStats:
      return reply(Json(DescribeTraffic(exchange.client)));
    case Endpoint::kModelReady:
      return AnswerReady(fmt::format(R"("name":{},)", name_json_), std::move(reply));
    case Endpoint::kOpenApi:
      return reply(Json(std::string(OpenApiDocument())));
    case Endpoint::kOther:
      break;
  }
  reply(ErrorResponse(500, "internal error"));  // Admit lets nothing else through
}

// Whoever cannot pay for an answer should not be asked for one.
void PublicSite::AnswerReady(std::string fields, Reply reply) const {
  labeller_->Probe([this, fields = std::move(fields), reply = std::move(reply)](bool can_answer) {
    const bool ready = can_answer && !state_.draining;
    reply(Json(fmt::format(R"({{{}"ready":{}}})", fields, ready), ready ? 200 : 503));
  });
}

std::variant<LabelRequest, Response> PublicSite::ReadRequest(const Exchange& exchange,
                                                             std::string_view body) const {
  const RequestHead& head = exchange.head;
  std::string plain;
  if (const Compression compression = *CompressionNamed(head.content_encoding);
      compression != Compression::kNone) {
    const auto limit = static_cast<std::size_t>(options_.body_bytes);
    const Decompression verdict = Decompress(body, compression, limit, plain);
    if (verdict == Decompression::kTooLong) {
      return ErrorResponse(
          413,
          fmt::format("a body must have at most {} bytes, also when it is decompressed", limit));
    }
    if (verdict == Decompression::kNotValid) {
      return ErrorResponse(400, "the body is not what its Content-Encoding says");
    }
    body = plain;
  }
  const auto json_length = head.json_length ? ParseLength(*head.json_length) : std::nullopt;
  auto request = exchange.endpoint == Endpoint::kInfer ? reader_.ReadInference(body, json_length)
                                                       : reader_.ReadPredict(body);
  if (!request.ok()) return ErrorResponse(400, request.error().message);
  return *std::move(request);
}

void PublicSite::AnswerLabels(const Exchange& exchange, std::string_view body, Reply reply) const {
  auto read = ReadRequest(exchange, body);
  if (auto* const refusal = std::get_if<Response>(&read)) return reply(std::move(*refusal));
  auto& request = std::get<LabelRequest>(read);
  labeller_->Label(exchange.client, std::move(request.values),
                   [this, &exchange, id = std::move(request.id), binary = request.binary_output,
                    reply = std::move(reply)](const Result<Labels>& labels) {
                     if (!labels.ok()) return reply(Refuse(labels.error()));
                     Response response = exchange.endpoint == Endpoint::kInfer
                                             ? EncodeInference(id, labels->labels, binary)
                                             : EncodePredictions(labels->labels);
                     response.rows = std::ssize(labels->labels);
                     response.noised = labels->noised;
                     reply(std::move(response));
                   });
}

// Not earlier: a count that went up while an answer waits for the latency floor would tell how long
// it took.
void PublicSite::OnSend(const Exchange& exchange, const Response& response) const {
  if (!IsForLabels(exchange.endpoint)) return;
  const std::string& account = exchange.client.account;
  response.status == 200 ? state_.client_counts.CountAnswered(account, response.rows)
                         : state_.client_counts.CountRefused(account);
}

Response PublicSite::Refuse(const Error& error) const {
  if (error.kind == ErrorKind::kInvalidInput) return ErrorResponse(400, error.message);
  ++state_.metrics.ledger_failures;
  Complain(error.message);
  return NotNow("no answer can be given now");
}

// What went wrong is the operator's to know (it may name files), once a second at most.
void PublicSite::Complain(const std::string& what) const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::int64_t second = std::chrono::floor<std::chrono::seconds>(now).count();
  if (last_complaint_.exchange(second) != second) state_.log.Event("error", what);
}

Response PublicSite::EncodeInference(const std::string& id, const std::vector<std::int32_t>& labels,
                                     bool binary) const {
  std::string body =
      fmt::format(R"({{"model_name":{},"model_version":"{}",)", name_json_, kModelVersion);
  if (!id.empty()) body.append("\"id\":").append(JsonText(id)).append(",");
  body +=
      fmt::format(R"("outputs":[{{"name":"label","datatype":"INT64","shape":[{}],)", labels.size());
  if (!binary) {
    body += fmt::format(R"("data":[{}]}}]}})", fmt::join(labels, ","));
    return Json(std::move(body));
  }
  body += fmt::format(R"("parameters":{{"binary_data_size":{}}}}}]}})",
                      labels.size() * sizeof(std::int64_t));
  const std::size_t json_length = body.size();
  for (const std::int64_t label : labels) {
    for (int shift = 0; shift < 64; shift += 8) {
      body += static_cast<char>(static_cast<std::uint64_t>(label) >> shift);
    }
  }
  Response response = Json(std::move(body));
  response.content_type = kBytes;
  response.fields.emplace_back("Inference-Header-Content-Length", std::to_string(json_length));
  return response;
}

Response PublicSite::EncodePredictions(const std::vector<std::int32_t>& labels) const {
  std::string body = fmt::format(R"({{"labels":[{}],"names":[)", fmt::join(labels, ","));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (i > 0) body += ',';
    body += class_names_json_[static_cast<std::size_t>(labels[i])];
  }
  body += "]}";
  return Json(std::move(body));
}

}  // namespace lucid
