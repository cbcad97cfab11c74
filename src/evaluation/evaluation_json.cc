// An evaluation as JSON, both ways.
#include <fmt/format.h>

#include <limits>

#include "base/json_fields.h"
#include "lucid/evaluation/evaluation.h"

namespace lucid {
namespace {

using Json = JsonFields::Json;

constexpr double kNotApplicable = std::numeric_limits<double>::quiet_NaN();

Json ToJson(const EvaluationRow& row) {
  Json json = {{"method", NameOf(row.method)},
               {"epsilon", NumberOrNull(row.epsilon)},
               {"accuracy", row.accuracy},
               {"accuracy_drop", row.accuracy_drop},
               {"noised_fraction", row.noised_fraction},
               {"access_us_p50", row.access_us_p50},
               {"access_us_p99", row.access_us_p99},
               {"access_queries", row.access_queries},
               {"guarantee", row.guarantee},
               {"promise", row.promise},
               {"answer_epsilon", NumberOrNull(row.answer_epsilon)},
               {"total_epsilon", NumberOrNull(row.total_epsilon)},
               {"total_delta", NumberOrNull(row.total_delta)},
               {"standard_error", row.standard_error}};
  if (row.sampled_queries > 0) {
    json["sampled_accuracy"] = row.sampled_accuracy;
    json["sampled_standard_error"] = row.sampled_standard_error;
    json["sampled_queries"] = row.sampled_queries;
  }
  if (row.networks > 0) {
    json["epsilon_asked"] = row.asked_epsilon;
    json["networks"] = row.networks;
    json["accuracy_deviation"] = NumberOrNull(row.accuracy_deviation);
    json["training_seconds"] = row.training_seconds;
  }
  if (row.method == Method::kDpSgd) {
    json["sigma"] = row.sigma;
    json["delta"] = row.delta;
    json["clip"] = row.clip;
  }
  return json;
}

EvaluationRow ReadEvaluationRow(JsonFields& fields, const Json& json, const std::string& at) {
  const auto optional = [&](const char* name) {
    return json.contains(name) ? fields.Number(at + name) : kNotApplicable;
  };
  const auto count = [&](const char* name) {
    return json.contains(name) ? fields.Whole(at + name) : 0;
  };
  EvaluationRow row;
  row.method = fields.Named<Method>(at + "method", MethodNamed);
  row.epsilon = fields.Number(at + "epsilon");
  row.asked_epsilon = json.contains("epsilon_asked") ? optional("epsilon_asked") : row.epsilon;
  row.guarantee = fields.Text(at + "guarantee");
  if (json.contains("promise")) row.promise = fields.Text(at + "promise");
  row.answer_epsilon = optional("answer_epsilon");
  row.total_epsilon = optional("total_epsilon");
  row.total_delta = optional("total_delta");
  row.standard_error = optional("standard_error");
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

}  // namespace

std::string EvaluationJson(const Evaluation& e) {
  Json json;
  json["lucid"] = e.version;
  json["command"] = e.command;
  json["run"] = e.run;
  json["architecture"] = e.architecture;
  json["training_rows"] = e.rows_of_training;
  json["members"] = e.members;
  json["partial"] = e.partial;
  json["test"] = e.test;
  json["test_rows"] = e.test_rows;
  json["mechanism"] = e.mechanism;
  json["majority_share"] = NumberOrNull(e.majority_share);
  json["advice"] = e.advice;
  json["rows"] = Json::array();
  for (const EvaluationRow& row : e.rows) json["rows"].push_back(ToJson(row));
  json["left_out"] = Json::array();
  for (const auto& [method, why] : e.left_out) {
    json["left_out"].push_back({{"method", NameOf(method)}, {"why", why}});
  }
  json["hashes"] = {{"run_key", e.run_key.Hex()},
                    {"network", e.network_digest.Hex()},
                    {"test", e.test_digest.Hex()}};
  if (e.guards_digest) json["hashes"]["guards"] = e.guards_digest->Hex();
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Evaluation> ParseEvaluation(std::string_view text, const std::string& source) {
  LUCID_ASSIGN(const Json json, JsonFields::Parse(text, source, "evaluation"));
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
  evaluation.majority_share =
      json.contains("majority_share") ? fields.Number("/majority_share") : kNotApplicable;
  if (json.contains("advice")) evaluation.advice = fields.Texts("/advice");
  evaluation.run_key = fields.Sha256("/hashes/run_key");
  evaluation.network_digest = fields.Sha256("/hashes/network");
  evaluation.test_digest = fields.Sha256("/hashes/test");
  if (json.contains(Json::json_pointer("/hashes/guards"))) {
    evaluation.guards_digest = fields.Sha256("/hashes/guards");
  }
  const Json& rows = fields.List("/rows");
  for (std::size_t k = 0; k < rows.size(); ++k) {
    evaluation.rows.push_back(ReadEvaluationRow(fields, rows[k], fmt::format("/rows/{}/", k)));
  }
  for (std::size_t k = 0; k < fields.List("/left_out").size(); ++k) {
    const std::string at = fmt::format("/left_out/{}/", k);
    evaluation.left_out.emplace_back(fields.Named<Method>(at + "method", MethodNamed),
                                     fields.Text(at + "why"));
  }
  LUCID_TRY(fields.status());
  return evaluation;
}

}  // namespace lucid
