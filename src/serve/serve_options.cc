#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/text.h"
#include "lucid/serve/server.h"

namespace lucid {
namespace {

Status InRange(std::string_view field, double value, double low, double high) {
  if (value >= low && value <= high) return Ok();
  return InvalidInput(fmt::format("{}: {} is not from {} to {}", field, value, low, high));
}

// Whether both name one file, which neither need be there.
bool SameFile(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code failed_a, failed_b;
  const auto real_a = std::filesystem::weakly_canonical(a, failed_a);
  const auto real_b = std::filesystem::weakly_canonical(b, failed_b);
  return failed_a || failed_b ? a == b : real_a == real_b;
}

}  // namespace

std::int64_t ServeLimits::ConnectionsPerAddress() const {
  return connections_per_address > 0 ? connections_per_address
                                     : std::max<std::int64_t>(1, connections / 4);
}

std::int64_t ServeLimits::RequestsPerClient() const {
  return requests_per_client > 0 ? requests_per_client : std::max<std::int64_t>(1, requests / 2);
}

std::int64_t ServeLimits::HalfOpenPerClient() const {
  return half_open_per_client > 0 ? half_open_per_client : std::max<std::int64_t>(1, half_open / 4);
}

Status ServeLimits::Validate() const {
  LUCID_TRY(InRange("max-connections", static_cast<double>(connections), 1, 1'000'000));
  LUCID_TRY(InRange("max-connections-per-address", static_cast<double>(connections_per_address), 0,
                    1'000'000));
  LUCID_TRY(InRange("max-requests", static_cast<double>(requests), 1, 1'000'000));
  LUCID_TRY(
      InRange("max-requests-per-client", static_cast<double>(requests_per_client), 0, 1'000'000));
  LUCID_TRY(InRange("max-half-open", static_cast<double>(half_open), 1, 1'000'000));
  LUCID_TRY(
      InRange("max-half-open-per-client", static_cast<double>(half_open_per_client), 0, 1'000'000));
  LUCID_TRY(InRange("max-header", static_cast<double>(header_bytes), 256, 1 << 20));
  LUCID_TRY(InRange("max-body", static_cast<double>(body_bytes), 2, 1 << 30));
  LUCID_TRY(InRange("max-rows", static_cast<double>(rows), 1, 1'000'000));
  LUCID_TRY(InRange("max-depth", static_cast<double>(json_depth), 5, 1000));
  LUCID_TRY(InRange("head-time", head_seconds, 0.1, 3600));
  LUCID_TRY(InRange("request-time", request_seconds, 0.1, 3600));
  LUCID_TRY(InRange("idle-time", idle_seconds, 0.1, 86'400));
  LUCID_TRY(InRange("drain-grace", grace_seconds, 0, 3600));
  return InRange("drain-time", drain_seconds, 0.1, 3600);
}

Status ServeOptions::Validate() const {
  LUCID_TRY(guard.Validate());
  LUCID_TRY(limits.Validate());
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (name.empty() || name.size() > 64 || !std::ranges::all_of(name, good)) {
    return InvalidInput(
        fmt::format("name: {} is not 1 to 64 letters, digits, '.', '_' or '-'", Quoted(name)));
  }
  if (key_file.empty()) return InvalidInput("key-file: there must be one");
  if (tls_certificate.empty() != tls_key.empty()) {
    return InvalidInput("tls-cert and tls-key: give both or none");
  }
  if (!tls_client_ca.empty() && tls_certificate.empty()) {
    return InvalidInput("tls-client-ca: it needs tls-cert and tls-key");
  }
  if (!admin_token.empty() && admin.empty()) {
    return InvalidInput("admin-token: there is no admin port to ask for it");
  }
  if (budget && !(*budget >= 0 && std::isfinite(*budget))) {
    return InvalidInput(fmt::format("budget: {} is not a number from 0 on", *budget));
  }
  if (budget && ledger.empty()) return InvalidInput("budget: it needs the option ledger");
  if ((memo == MemoKind::kDictionary) == memo_file.empty()) {
    return InvalidInput("memo-file: it goes with the dictionary memo, and the other way round");
  }
  if (SameFile(memo_file, ledger)) {
    return InvalidInput(fmt::format("memo-file and ledger: both are {}", Quoted(ledger)));
  }
  if (SameFile(key_file, ledger) || SameFile(key_file, memo_file)) {
    return InvalidInput(
        fmt::format("key-file: {} is the ledger or the dictionary as well", Quoted(key_file)));
  }
  if (memo == MemoKind::kDictionary && memo_limit < limits.rows) {
    return InvalidInput(fmt::format("memo-limit: {} is less than the rows of one request, {}",
                                    memo_limit, limits.rows));
  }
  if (rate && !(*rate > 0 && *rate <= 1e9)) {
    return InvalidInput(fmt::format("rate: {} is not above 0 and at most 1e9", *rate));
  }
  LUCID_TRY(InRange("threads", threads, 0, 4096));
  LUCID_TRY(InRange("latency-floor", latency_floor, 0, 60));
  if (latency_floor >= limits.request_seconds) {
    return InvalidInput(fmt::format("latency-floor: {} s is not below request-time, {} s",
                                    latency_floor, limits.request_seconds));
  }
  if (guard.guard == GuardKind::kExact && latency_floor == 0 && !open_timing) {
    return InvalidInput(
        "guard exact: how long it takes tells which inputs are noised: give the option "
        "latency_floor, "
        "above the slowest answer (20ms, say), or take the guard spatial or scalar");
  }
  return Ok();
}

}  // namespace lucid
