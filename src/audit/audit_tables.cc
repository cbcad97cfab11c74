#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "lucid/audit/audit.h"

namespace lucid {
namespace {

using Json = nlohmann::ordered_json;

std::string NumberOr(double value, const char* format, const char* otherwise) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : otherwise;
}

}  // namespace

std::string AuditJson(const Audit& audit) {
  Json json;
  json["lucid"] = audit.version;
  json["command"] = audit.command;
  json["run"] = audit.run;
  json["run_key"] = audit.run_key.Hex();
  json["risk"] = kAuditRisk;
  json["holds"] = audit.Holds();
  json["rows"] = Json::array();
  for (const AuditRow& row : audit.rows) {
    json["rows"].push_back({{"attack", NameOf(row.attack)},
                            {"access", row.access},
                            {"world", row.world ? Json(NameOf(*row.world)) : Json(nullptr)},
                            {"epsilon", NumberOrNull(row.epsilon)},
                            {"delta", row.delta},
                            {"auc", row.auc},
                            {"advantage", row.advantage},
                            {"epsilon_lower", NumberOrNull(row.epsilon_lower)},
                            {"claimed", NumberOrNull(row.claimed)},
                            {"holds", row.holds},
                            {"tpr_at_fpr_0.01", row.tpr_at_fpr_01},
                            {"tpr_at_fpr_0.001", row.tpr_at_fpr_001},
                            {"queries", row.queries},
                            {"trials", row.trials},
                            {"welch_t", NumberOrNull(row.welch_t)}});
  }
  json["left_out"] = audit.left_out;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string AuditText(const Audit& audit) {
  std::size_t widest = 6;
  for (const AuditRow& row : audit.rows) widest = std::max(widest, row.access.size());
  const auto line = [](const auto&... cells) {
    return fmt::format("{:<13} {:<{}} {:<13} {:>7} {:>7} {:>6} {:>5} {:>5} {:>6} {:>7} {:>7}  {}\n",
                       cells...);
  };
  std::string text = line("attack", "access", widest, "world", "epsilon", "queries", "trials",
                          "AUC", "adv", "eps >=", "claimed", "Welch t", "");
  for (const AuditRow& row : audit.rows) {
    const bool claims = !std::isnan(row.claimed);
    text += line(NameOf(row.attack), row.access, widest, row.world ? NameOf(*row.world) : "-",
                 NumberOr(row.epsilon, "{}", "-"), row.queries, row.trials,
                 NumberOr(row.auc, "{:.3f}", "-"), NumberOr(row.advantage, "{:.3f}", "-"),
                 NumberOr(row.epsilon_lower, "{:.3f}", "-"), NumberOr(row.claimed, "{}", "-"),
                 NumberOr(row.welch_t, "{:.1f}", "-"),
                 claims ? (row.holds ? "holds" : "DOES NOT HOLD") : "no claim");
  }
  return text;
}

}  // namespace lucid
