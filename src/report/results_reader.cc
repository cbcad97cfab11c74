#include "report/results_reader.h"

#include <limits>

#include "base/json_fields.h"

namespace lucid {
namespace {

using Json = JsonFields::Json;
constexpr double kNotApplicable = std::numeric_limits<double>::quiet_NaN();

Result<Json> ParseDocument(std::string_view text, const std::string& source,
                           const std::string& kind) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return InvalidInput(
        fmt::format("{}: not a JSON document: damaged, or not a LUCID {}", source, kind));
  }
  return json;
}

// A field that is a name of one of `values` (MethodNamed, AttackNamed).
template <typename T>
T Named(JsonFields& fields, const std::string& path, Result<T> (*named)(std::string_view)) {
  const Result<T> value = named(fields.Text(path));
  return value.ok() ? *value : fields.Wrong<T>(path, "a name that LUCID knows");
}

EvaluationRow ReadEvaluationRow(JsonFields& fields, const Json& json, const std::string& at) {
  const auto optional = [&](const char* name) {
    return json.contains(name) ? fields.Number(at + name) : kNotApplicable;
  };
  const auto count = [&](const char* name) {
    return json.contains(name) ? fields.Whole(at + name) : 0;
  };
  EvaluationRow row;
  row.method = Named<Method>(fields, at + "method", MethodNamed);
  row.epsilon = fields.Number(at + "epsilon");
  row.asked_epsilon = json.contains("epsilon_asked") ? optional("epsilon_asked") : row.epsilon;
  row.guarantee = fields.Text(at + "guarantee");
  row.accuracy = fields.Number(at + "accuracy");
  row.accuracy_drop = fields.Number(at + "accuracy_drop");
  row.noised_fraction = fields.Number(at + "noised_fraction");
  row.access_us_p50 = fields.Number(at + "access_us_p50");
  row.access_us_p99 = fields.Number(at + "access_us_p99");
  row.access_queries = fields.Whole(at + "access_queries");
  row.sampled_accuracy = optional("sampled_accuracy");
  row.sampled_standard_error = optional("sampled_standard_error");
  row.sampled_queries = count("sampled_queries");
  row.training_seconds = optional("training_seconds");
  row.accuracy_deviation = optional("accuracy_deviation");
  row.networks = count("networks");
  row.sigma = optional("sigma");
  row.delta = optional("delta");
  row.clip = optional("clip");
  return row;
}

AuditRow ReadAuditRow(JsonFields& fields, const std::string& at) {
  AuditRow row;
  row.attack = Named<Attack>(fields, at + "attack", AttackNamed);
  row.access = fields.Text(at + "access");
  if (!fields.IsNull(at + "world")) row.world = Named<World>(fields, at + "world", WorldNamed);
  row.epsilon = fields.Number(at + "epsilon");
  row.delta = fields.Number(at + "delta");
  row.auc = fields.Number(at + "auc");
  row.advantage = fields.Number(at + "advantage");
  row.epsilon_lower = fields.Number(at + "epsilon_lower");
  row.claimed = fields.Number(at + "claimed");
  row.holds = fields.Flag(at + "holds");
  row.tpr_at_fpr_01 = fields.Number(at + "tpr_at_fpr_0.01");
  row.tpr_at_fpr_001 = fields.Number(at + "tpr_at_fpr_0.001");
  row.queries = fields.Whole(at + "queries");
  row.trials = fields.Whole(at + "trials");
  row.welch_t = fields.Number(at + "welch_t");
  return row;
}

}  // namespace

Result<Evaluation> ParseEvaluation(std::string_view text, const std::string& source) {
  LUCID_ASSIGN(const Json json, ParseDocument(text, source, "evaluation"));
  JsonFields fields(json, source, "evaluation");
  Evaluation evaluation;
  evaluation.version = fields.Text("/lucid");
  evaluation.command = fields.Texts("/command");
  evaluation.run = fields.Text("/run");
  evaluation.architecture = fields.Text("/architecture");
  evaluation.rows_of_training = fields.Whole("/training_rows");
  evaluation.members = fields.Whole("/members");
  evaluation.partial = fields.Flag("/partial");
  evaluation.test = fields.Text("/test");
  evaluation.test_rows = fields.Whole("/test_rows");
  evaluation.mechanism = fields.Text("/mechanism");
  evaluation.run_key = fields.Sha256("/hashes/run_key");
  evaluation.network_digest = fields.Sha256("/hashes/network");
  evaluation.test_digest = fields.Sha256("/hashes/test");
  const Json& rows = fields.List("/rows");
  for (std::size_t k = 0; k < rows.size(); ++k) {
    evaluation.rows.push_back(ReadEvaluationRow(fields, rows[k], fmt::format("/rows/{}/", k)));
  }
  for (std::size_t k = 0; k < fields.List("/left_out").size(); ++k) {
    const std::string at = fmt::format("/left_out/{}/", k);
    evaluation.left_out.emplace_back(Named<Method>(fields, at + "method", MethodNamed),
                                     fields.Text(at + "why"));
  }
  LUCID_TRY(fields.status());
  return evaluation;
}

Result<Audit> ParseAudit(std::string_view text, const std::string& source) {
  LUCID_ASSIGN(const Json json, ParseDocument(text, source, "audit"));
  JsonFields fields(json, source, "audit");
  Audit audit;
  audit.version = fields.Text("/lucid");
  audit.command = fields.Texts("/command");
  audit.run = fields.Text("/run");
  audit.run_key = fields.Sha256("/run_key");
  audit.left_out = fields.Texts("/left_out");
  for (std::size_t k = 0; k < fields.List("/rows").size(); ++k) {
    audit.rows.push_back(ReadAuditRow(fields, fmt::format("/rows/{}/", k)));
  }
  LUCID_TRY(fields.status());
  return audit;
}

}  // namespace lucid
