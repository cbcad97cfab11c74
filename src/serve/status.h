// What the admin port shows: /status.json for the console, /metrics for Prometheus. For operators
// only: both hold what clients must never see.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lucid/guard/guard.h"
#include "lucid/guard/ledger.h"
#include "lucid/promise/promise.h"
#include "serve/metrics.h"

namespace lucid {

// A server at one moment. The caller keeps what it points to alive.
struct ServerStatus {
  std::string model;    // --name
  std::string version;  // of LUCID
  bool ready = false, draining = false;
  std::string note;  // what is wrong, one line; empty: nothing
  std::chrono::sys_seconds now;
  std::string memo = "stateless";    // or "dictionary"
  const Guard* guard = nullptr;      // required
  const Promise* promise = nullptr;  // required
  const Metrics* metrics = nullptr;  // required
  Metrics::Clock::time_point metrics_now;
  std::optional<Ledger::Totals> budget;  // with a ledger
  std::int64_t api_keys = 0;             // 0: anonymous
};

// {"model", "version", "ready", "draining", "note", "time", "uptime",
//  "promise": {"name", "title", "clients_see", "lines"},
//  "guard": {"kind", "mechanism", "epsilon", "effective_epsilon", "memo", "grid_bits", "domain",
//      "bounds": [{"label", "name", "bound"}], "bounds_from": "certificate" or "manifest"},
//  "certificate": null (bounds that are declared need none) or {"classes": [{"label", "name",
//  "beta_upper", "beta_lower", "gap", "status"}],
//      "rows", "members", "partial", "domain", "engine", "hashes": {"train", "network", "ensemble",
//      "schema", "architecture", "run"}},
//  "traffic": {"requests", "rows", "noised", "noised_share", "in_flight", "connections",
//      "half_open", "refused",
//      "rate_limited", "keys_refused", "ledger_failures",
//      "latency": {"p50", "p90", "p99", "p999"},                      seconds
//      "seconds": {"at": [...], "requests": [...], "failures": [...], "rows": [...],
//                  "noised": [...], "p50": [...], "p99": [...]}},     the last five minutes
//  "budget": null or {"spent", "total" or null, "answers",
//      "accounts": [{"id", "spent", "answers"}]},                     the 100 that spent most
//  "api_keys"}
// An infinite bound is null.
std::string EncodeStatus(const ServerStatus& status);

// The same as Prometheus text exposition, version 0.0.4.
std::string EncodePrometheus(const ServerStatus& status);
inline constexpr const char* kPrometheusContentType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace lucid
