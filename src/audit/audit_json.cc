// An audit as JSON, both ways.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/json_fields.h"
#include "lucid/audit/audit.h"

namespace lucid {
namespace {

using Json = JsonFields::Json;

AuditRow ReadAuditRow(JsonFields& fields, const std::string& at) {
  AuditRow row;
  row.attack = fields.Named<AuditAttack>(at + "attack", AttackNamed);
  row.access = fields.Text(at + "access");
  if (!fields.IsNull(at + "world")) row.world = fields.Named<World>(at + "world", WorldNamed);
  row.epsilon = fields.Number(at + "epsilon");
  row.delta = fields.Number(at + "delta");
  row.auc = fields.Number(at + "auc");
  row.advantage = fields.Number(at + "advantage");
  row.epsilon_lower = fields.Number(at + "epsilon_lower");
  if (row.attack == AuditAttack::kWhiteBox && std::isnan(row.epsilon_lower)) {
    row.epsilon_lower = std::numeric_limits<double>::infinity();  // JSON has none
  }
  row.claimed = fields.Number(at + "claimed");
  row.e_value = fields.Number(at + "e_value");
  row.holds = fields.Flag(at + "holds");
  row.tpr_at_fpr_01 = fields.Number(at + "tpr_at_fpr_0.01");
  row.tpr_at_fpr_001 = fields.Number(at + "tpr_at_fpr_0.001");
  row.queries = fields.Whole(at + "queries");
  row.trials = fields.Whole(at + "trials");
  row.welch_t = fields.Number(at + "welch_t");
  return row;
}

}  // namespace

std::string AuditJson(const Audit& audit) {
  Json json;
  json["lucid"] = audit.version;
  json["command"] = audit.command;
  json["run"] = audit.run;
  json["run_key"] = audit.run_key.Hex();
  if (audit.guards_digest) json["guards"] = audit.guards_digest->Hex();
  json["risk"] = kAuditRisk;
  json["holds"] = audit.Holds();
  json["checks"] = Json::array();
  for (const AuditCheck& check : audit.checks) {
    json["checks"].push_back({{"check", check.check},
                              {"claim", check.claim},
                              {"measured", check.measured},
                              {"holds", check.holds}});
  }
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
                            {"e_value", NumberOrNull(row.e_value)},
                            {"holds", row.holds},
                            {"covered", !row.not_covered()},
                            {"lost", row.lost()},
                            {"tpr_at_fpr_0.01", row.tpr_at_fpr_01},
                            {"tpr_at_fpr_0.001", row.tpr_at_fpr_001},
                            {"queries", row.queries},
                            {"trials", row.trials},
                            {"welch_t", NumberOrNull(row.welch_t)}});
  }
  json["left_out"] = audit.left_out;
  json["notes"] = audit.notes;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Audit> ParseAudit(std::string_view text, const std::string& source) {
  LUCID_ASSIGN(const Json json, JsonFields::Parse(text, source, "audit"));
  JsonFields fields(json, source, "audit");
  Audit audit;
  audit.version = fields.Text("/lucid");
  audit.command = fields.Texts("/command");
  audit.run = fields.Text("/run");
  audit.run_key = fields.Sha256("/run_key");
  if (json.contains("guards")) audit.guards_digest = fields.Sha256("/guards");
  audit.left_out = fields.Texts("/left_out");
  if (json.contains("notes")) audit.notes = fields.Texts("/notes");
  for (std::size_t k = 0; k < fields.List("/checks").size(); ++k) {
    const std::string at = fmt::format("/checks/{}/", k);
    audit.checks.push_back({fields.Text(at + "check"), fields.Text(at + "claim"),
                            fields.Text(at + "measured"), fields.Flag(at + "holds")});
  }
  for (std::size_t k = 0; k < fields.List("/rows").size(); ++k) {
    audit.rows.push_back(ReadAuditRow(fields, fmt::format("/rows/{}/", k)));
  }
  LUCID_TRY(fields.status());
  return audit;
}

}  // namespace lucid
