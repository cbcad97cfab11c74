#include "serve/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "admission/api_keys.h"

namespace lucid {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostAccounts = 100;

Json FiniteOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double Share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

Json GuardJson(const ServerStatus& status) {
  const GuardOptions& options = status.guard->options();
  Json bounds = Json::array();
  for (std::size_t i = 0; i < status.guard->bounds().size(); ++i) {
    bounds.push_back({{"label", i},
                      {"name", status.guard->schema().label().categories[i]},
                      {"bound", FiniteOrNull(status.guard->bounds()[i])}});
  }
  return {{"kind", NameOf(options.guard)},
          {"mechanism", NameOf(options.mechanism)},
          {"epsilon", options.epsilon},
          {"effective_epsilon", status.guard->mechanism().EffectiveEpsilon()},
          {"memo", status.memo},
          {"grid_bits", options.grid_bits},
          {"domain", NameOf(status.guard->domain())},
          {"bounds", bounds},
          {"bounds_from", status.guard->certificate() == nullptr ? "manifest" : "certificate"}};
}

Json PromiseJson(const Promise& promise) {
  return {{"name", promise.name()},
          {"title", promise.Title()},
          {"clients_see", promise.public_name()},
          {"lines", promise.Lines()}};
}

Json CertificateJson(const Guard& guard) {
  if (guard.certificate() == nullptr) return nullptr;
  const Certificate& certificate = *guard.certificate();
  Json classes = Json::array();
  for (const ClassBound& bound : certificate.classes) {
    classes.push_back({{"label", bound.label},
                       {"name", guard.schema().label().categories[bound.label]},
                       {"beta_upper", FiniteOrNull(bound.beta_upper)},
                       {"beta_lower", bound.beta_lower},
                       {"gap", bound.Gap()},
                       {"status", NameOf(bound.status)}});
  }
  return {{"classes", classes},
          {"rows", certificate.rows},
          {"members", certificate.members},
          {"partial", certificate.partial},
          {"domain", NameOf(certificate.domain)},
          {"engine", NameOf(certificate.engine)},
          {"hashes",
           {{"train", certificate.train_digest.Hex()},
            {"network", certificate.network_digest.Hex()},
            {"ensemble", certificate.ensemble_digest.Hex()},
            {"schema", certificate.schema_digest.Hex()},
            {"architecture", certificate.architecture_digest.Hex()},
            {"run", certificate.run_key.Hex()}}}};
}

Json SecondsJson(const std::vector<TrafficSecond>& seconds) {
  Json json = {{"at", Json::array()},   {"requests", Json::array()}, {"failures", Json::array()},
               {"rows", Json::array()}, {"noised", Json::array()},   {"p50", Json::array()},
               {"p99", Json::array()}};
  for (const TrafficSecond& second : seconds) {
    json["at"].push_back(second.second);
    json["requests"].push_back(second.requests);
    json["failures"].push_back(second.failures);
    json["rows"].push_back(second.rows);
    json["noised"].push_back(second.noised);
    json["p50"].push_back(second.p50);
    json["p99"].push_back(second.p99);
  }
  return json;
}

Json TrafficJson(const Metrics& metrics, const Metrics::Snapshot& now) {
  return {{"requests", now.Requests()},
          {"rows", now.rows},
          {"noised", now.noised},
          {"noised_share", Share(now.noised, now.rows)},
          {"in_flight", metrics.requests_in_flight.load()},
          {"connections", metrics.connections_open.load()},
          {"half_open", metrics.connections_half_open.load()},
          {"refused", metrics.connections_refused.load()},
          {"rate_limited", metrics.rate_limited.load()},
          {"keys_refused", metrics.keys_refused.load()},
          {"ledger_failures", metrics.ledger_failures.load()},
          {"latency",
           {{"p50", now.latency.Quantile(0.5)},
            {"p90", now.latency.Quantile(0.9)},
            {"p99", now.latency.Quantile(0.99)},
            {"p999", now.latency.Quantile(0.999)}}},
          {"seconds", SecondsJson(now.seconds)}};
}

Json BudgetJson(const std::optional<Ledger::Totals>& totals) {
  if (!totals.has_value()) return nullptr;
  auto accounts = totals->accounts;
  std::ranges::stable_sort(accounts, std::greater{},
                           [](const auto& account) { return account.second.spent; });
  if (accounts.size() > kMostAccounts) accounts.resize(kMostAccounts);
  Json list = Json::array();
  for (const auto& [id, balance] : accounts) {
    list.push_back({{"id", id}, {"spent", balance.spent.epsilon()}, {"answers", balance.answers}});
  }
  return {{"spent", totals->overall.spent.epsilon()},
          {"total", totals->overall_budget ? Json(totals->overall_budget->epsilon()) : Json()},
          {"answers", totals->overall.answers},
          {"accounts", list}};
}

// Writes families of one metric each: HELP, TYPE, samples.
class PrometheusWriter {
 public:
  void Family(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, Escape(help, false), type);
  }
  // labels: names and values, by turns.
  void Sample(std::string_view name, double value,
              std::initializer_list<std::string_view> labels = {}) {
    text_ += name;
    const char* before = "{";
    for (const auto* label = labels.begin(); label != labels.end(); label += 2) {
      text_ += fmt::format("{}{}=\"{}\"", before, label[0], Escape(label[1], true));
      before = ",";
    }
    text_ += fmt::format("{} {}\n", labels.size() > 0 ? "}" : "", Number(value));
  }
  void Single(std::string_view name, std::string_view type, std::string_view help, double value) {
    Family(name, type, help);
    Sample(name, value);
  }
  void Counter(std::string_view name, std::string_view help, std::int64_t value) {
    Single(name, "counter", help, static_cast<double>(value));
  }
  void Gauge(std::string_view name, std::string_view help, double value) {
    Single(name, "gauge", help, value);
  }
  static std::string Number(double value) {
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    return std::isnan(value) ? "NaN" : fmt::format("{}", value);
  }
  std::string Finish() { return std::move(text_); }

 private:
  static std::string Escape(std::string_view text, bool quotes) {
    std::string escaped;
    for (const char c : text) {
      if (c == '\\' || (c == '"' && quotes)) escaped += '\\';
      escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    return escaped;
  }
  std::string text_;
};

void WriteTraffic(PrometheusWriter& out, const Metrics& metrics, const Metrics::Snapshot& now) {
  out.Family("lucid_requests_total", "counter", "Requests answered, by endpoint and status class.");
  for (int endpoint = 0; endpoint < kEndpoints; ++endpoint) {
    for (int status = 0; status < 5; ++status) {
      const std::int64_t count = now.requests[endpoint][status];
      if (count == 0) continue;
      out.Sample("lucid_requests_total", static_cast<double>(count),
                 {"endpoint", NameOf(static_cast<Endpoint>(endpoint)), "status",
                  fmt::format("{}xx", status + 1)});
    }
  }
  out.Family("lucid_request_duration_seconds", "histogram",
             "From the first byte of a request to the last byte of its answer.");
  for (int doubling = 0; doubling <= 24; ++doubling) {  // 1 us to 17 s, each a bucket's end
    const double end = std::ldexp(1e-6, doubling);
    out.Sample("lucid_request_duration_seconds_bucket",
               static_cast<double>(now.latency.AtMost(end)), {"le", out.Number(end)});
  }
  const auto total = static_cast<double>(now.latency.total);
  out.Sample("lucid_request_duration_seconds_bucket", total, {"le", "+Inf"});
  out.Sample("lucid_request_duration_seconds_sum", now.latency.seconds);
  out.Sample("lucid_request_duration_seconds_count", total);

  out.Counter("lucid_rows_total", "Rows labelled.", now.rows);
  out.Counter("lucid_rows_noised_total", "Rows whose label the mechanism chose.", now.noised);
  out.Gauge("lucid_connections_half_open",
            "Connections that wait for their first byte or the rest of a request.",
            static_cast<double>(metrics.connections_half_open.load()));
  out.Gauge("lucid_requests_in_flight", "Requests being answered.",
            static_cast<double>(metrics.requests_in_flight.load()));
  out.Gauge("lucid_connections_open", "Connections that are open.",
            static_cast<double>(metrics.connections_open.load()));
  out.Counter("lucid_connections_total", "Connections accepted.", metrics.connections_total.load());
  out.Counter("lucid_connections_refused_total", "Connections refused: too many.",
              metrics.connections_refused.load());
  out.Counter("lucid_keys_refused_total", "Requests without a valid key.",
              metrics.keys_refused.load());
  out.Counter("lucid_rate_limited_total", "Requests over their rate.", metrics.rate_limited.load());
  out.Counter("lucid_ledger_failures_total", "Requests refused: the ledger could not be written.",
              metrics.ledger_failures.load());
  out.Counter("lucid_reloads_total", "Reloads of keys and certificates.", metrics.reloads.load());
  out.Counter("lucid_reload_failures_total", "Reloads that left the old files in service.",
              metrics.reload_failures.load());
}

void WriteGuard(PrometheusWriter& out, const Guard& guard, const Promise& promise) {
  out.Family("lucid_promise_info", "gauge", "The promise that is kept.");
  out.Sample("lucid_promise_info", 1, {"promise", promise.name(), "title", promise.Title()});
  out.Gauge("lucid_epsilon", "Privacy parameter of one query.", guard.options().epsilon);
  out.Family("lucid_bound", "gauge", "Confidence up to which answers are noised, by class.");
  for (std::size_t i = 0; i < guard.bounds().size(); ++i) {
    out.Sample("lucid_bound", guard.bounds()[i], {"class", fmt::format("{}", i)});
  }
}

void WriteBudget(PrometheusWriter& out, const Ledger::Totals& totals) {
  out.Gauge("lucid_budget_spent_epsilon", "Epsilon spent over all clients.",
            totals.overall.spent.epsilon());
  if (totals.overall_budget.has_value()) {
    out.Gauge("lucid_budget_total_epsilon", "Epsilon that may be spent over all clients.",
              totals.overall_budget->epsilon());
  }
  out.Family("lucid_account_spent_epsilon", "gauge", "Epsilon spent, by key id.");
  for (const auto& [id, balance] : totals.accounts) {
    out.Sample("lucid_account_spent_epsilon", balance.spent.epsilon(), {"key", id});
  }
}

}  // namespace

std::string EncodeStatus(const ServerStatus& status) {
  const Metrics::Snapshot now = status.metrics->Take(status.metrics_now);
  const Json json = {{"model", status.model},
                     {"version", status.version},
                     {"ready", status.ready},
                     {"draining", status.draining},
                     {"note", status.note},
                     {"time", FormatUtc(status.now)},
                     {"uptime", now.uptime},
                     {"promise", PromiseJson(*status.promise)},
                     {"guard", GuardJson(status)},
                     {"certificate", CertificateJson(*status.guard)},
                     {"traffic", TrafficJson(*status.metrics, now)},
                     {"budget", BudgetJson(status.budget)},
                     {"api_keys", status.api_keys}};
  // A name that is not UTF-8 (a command line can hold anything) must not cost the whole page.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string EncodePrometheus(const ServerStatus& status) {
  const Metrics::Snapshot now = status.metrics->Take(status.metrics_now);
  PrometheusWriter out;
  out.Family("lucid_build_info", "gauge", "Version of the program and name of the model.");
  out.Sample("lucid_build_info", 1, {"version", status.version, "model", status.model});
  out.Gauge("lucid_ready", "1 if requests are answered.", status.ready ? 1 : 0);
  out.Gauge("lucid_uptime_seconds", "Since the start.", now.uptime);
  WriteTraffic(out, *status.metrics, now);
  WriteGuard(out, *status.guard, *status.promise);
  if (status.budget.has_value()) WriteBudget(out, *status.budget);
  return out.Finish();
}

}  // namespace lucid
