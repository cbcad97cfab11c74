#include "serve/public_site.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "lucid/base/version.h"
#include "serve/assets.h"

namespace lucid {
namespace {

constexpr std::string_view kModelVersion = "1";

// Content types may have parameters: "application/json; charset=utf-8".
bool IsJson(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  const auto end = type.find_last_not_of(" \t");
  return end != std::string_view::npos &&
         std::ranges::equal(type.substr(0, end + 1), std::string_view("application/json"), {},
                            [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
}

// "Bearer KEY", the scheme in any case; empty if it is something else.
std::string_view BearerKey(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return {};
  const bool same =
      std::ranges::equal(authorization.substr(0, kScheme.size()), kScheme, {},
                         [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  if (!same) return {};
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

// What must be said of a request with a body before the body is read.
std::optional<Response> CheckBody(const RequestHead& head) {
  if (!head.has_body_length) {
    return ErrorResponse(411, "a request with a body must have Content-Length or be chunked");
  }
  if (!IsJson(head.content_type)) {
    return ErrorResponse(415, "the Content-Type must be application/json");
  }
  if (!head.content_encoding.empty() && head.content_encoding != "identity") {
    return ErrorResponse(415, "the body must not be compressed");
  }
  if (head.binary_extension) {
    return ErrorResponse(400, "the binary data extension is not supported: send JSON data");
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
      model_json_(DescribeModel(schema)) {
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
  return route->post ? CheckBody(head) : std::nullopt;
}

std::optional<Response> PublicSite::AdmitClient(Exchange& exchange) const {
  const RequestHead& head = exchange.head;
  std::optional<double> rate = options_.rate, burst;
  exchange.client = {kAnonymous, std::nullopt};
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
    exchange.client.account = check.entry->id;
    if (check.entry->budget) {
      const auto budget = EpsilonUnits::RoundedDown(*check.entry->budget);
      if (!budget.ok()) return ErrorResponse(500, "internal error");  // ApiKeys checked it
      exchange.client.budget = *budget;
    }
    if (check.entry->rate) rate = check.entry->rate, burst = check.entry->burst;
  }
  if (!rate) return std::nullopt;
  // Without keys the address is all there is to tell clients apart.
  const std::string_view client = keys_ != nullptr ? exchange.client.account : head.peer;
  const RequestRate limit{*rate, burst.value_or(std::max(1.0, *rate))};
  const auto verdict = state_.rate_limiter.Take(client, limit, RateLimiter::Clock::now());
  if (verdict.allowed) return std::nullopt;
  ++state_.metrics.rate_limited;
  Response response = ErrorResponse(429, "too many requests");
  response.fields.emplace_back("Retry-After", std::to_string(verdict.retry_after.count()));
  return response;
}

void PublicSite::Answer(Exchange& exchange, std::string_view body, Reply reply) const {
  const bool ready = !state_.draining;
  const int status = ready ? 200 : 503;
  const std::string_view ready_json = ready ? "true" : "false";
  switch (exchange.endpoint) {
    case Endpoint::kPredict:
    case Endpoint::kInfer:
      return AnswerLabels(exchange, body, std::move(reply));
    case Endpoint::kServerInfo:
      return reply(
          Json(fmt::format(R"({{"name":"lucid","version":"{}","extensions":[]}})", Version())));
    case Endpoint::kHealth:
      if (exchange.head.path.ends_with("live")) return reply(Json(R"({"live":true})"));
      return reply(Json(fmt::format(R"({{"ready":{}}})", ready_json), status));
    case Endpoint::kModelInfo:
      return reply(Json(model_json_));
    case Endpoint::kModelReady:
      return reply(
          Json(fmt::format(R"({{"name":{},"ready":{}}})", name_json_, ready_json), status));
    case Endpoint::kOpenApi:
      return reply(Json(std::string(OpenApiDocument())));
    case Endpoint::kOther:
      break;
  }
  reply(ErrorResponse(500, "internal error"));  // Admit lets nothing else through
}

void PublicSite::AnswerLabels(Exchange& exchange, std::string_view body, Reply reply) const {
  const bool inference = exchange.endpoint == Endpoint::kInfer;
  auto request = inference ? reader_.ReadInference(body) : reader_.ReadPredict(body);
  if (!request.ok()) return reply(ErrorResponse(400, request.error().message));
  labeller_->Label(exchange.client, std::move(request->values), exchange.executor,
                   [this, &exchange, id = std::move(request->id),
                    reply = std::move(reply)](const Result<Labels>& labels) {
                     if (labels.ok()) {
                       exchange.rows = static_cast<std::int64_t>(labels->labels.size());
                       exchange.noised = labels->noised;
                       return reply(exchange.endpoint == Endpoint::kInfer
                                        ? EncodeInference(id, labels->labels)
                                        : EncodePredictions(labels->labels));
                     }
                     if (labels.error().kind == ErrorKind::kInvalidInput) {
                       return reply(ErrorResponse(400, labels.error().message));
                     }
                     ++state_.metrics.ledger_failures;
                     Complain(labels.error().message);
                     reply(NotNow("no answer can be given now"));
                   });
}

// What went wrong is the operator's to know (it may name files), once a second at most.
void PublicSite::Complain(const std::string& what) const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::int64_t second = std::chrono::floor<std::chrono::seconds>(now).count();
  if (last_complaint_.exchange(second) != second) state_.log.Event("error", what);
}

Response PublicSite::EncodeInference(const std::string& id,
                                     const std::vector<std::int32_t>& labels) const {
  std::string body =
      fmt::format(R"({{"model_name":{},"model_version":"{}",)", name_json_, kModelVersion);
  if (!id.empty()) body.append("\"id\":").append(JsonText(id)).append(",");
  body +=
      fmt::format(R"("outputs":[{{"name":"label","datatype":"INT64","shape":[{}],"data":[{}]}}]}})",
                  labels.size(), fmt::join(labels, ","));
  return Json(std::move(body));
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
