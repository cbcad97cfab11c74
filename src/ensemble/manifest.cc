#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "base/text.h"
#include "ensemble/run_spec.h"

namespace lucid {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "lucid-run-1";
constexpr std::int64_t kMaxRows = std::numeric_limits<std::int32_t>::max();  // as in training

}  // namespace

std::string EncodeManifest(const Manifest& m) {
  Json json;
  json["format"] = kFormat;
  json["lucid"] = m.version;
  json["build"] = m.build;
  json["instruction_set"] = m.instruction_set;
  json["command"] = m.command;
  json["data"] = {{"directory", m.data_directory},
                  {"rows", m.rows},
                  {"features", m.schema.features()},
                  {"classes", m.schema.classes()},
                  {"class_names", m.schema.label().categories},
                  {"schema", m.schema.Canonical()}};
  json["architecture"] = m.architecture.Canonical();
  json["parameters"] = m.architecture.parameters();
  json["training"] = m.training;
  json["members"] = m.members;
  json["partial"] = m.partial;
  json["train_accuracy"] = NumberOrNull(m.train_accuracy);
  json["test_accuracy"] = NumberOrNull(m.test_accuracy);
  json["seconds"] = NumberOrNull(m.seconds);
  json["hashes"] = {{"run_key", m.run_key.Hex()},        {"schema", m.schema_digest.Hex()},
                    {"train", m.train_digest.Hex()},     {"test", m.test_digest.Hex()},
                    {"network", m.network_digest.Hex()}, {"ensemble", m.ensemble_digest.Hex()}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Manifest> ParseManifest(std::string_view text, const std::string& source) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    return InvalidInput(fmt::format("{}: not a JSON object: truncated or damaged", source));
  }
  JsonFields read(json, source, "manifest");
  LUCID_TRY(read.CheckFormat(kFormat));
  Manifest m;
  m.version = read.Text("/lucid");
  m.build = read.Text("/build");
  m.instruction_set = read.Text("/instruction_set");
  m.command = read.Texts("/command");
  m.data_directory = read.Text("/data/directory");
  m.rows = read.Whole("/data/rows");
  const std::string schema = read.Text("/data/schema");
  const std::string architecture = read.Text("/architecture");
  m.training = read.Text("/training");
  m.members = read.Whole("/members");
  m.partial = read.Flag("/partial");
  m.train_accuracy = read.Number("/train_accuracy");
  m.test_accuracy = read.Number("/test_accuracy");
  m.seconds = read.Number("/seconds");
  m.run_key = read.Sha256("/hashes/run_key");
  m.schema_digest = read.Sha256("/hashes/schema");
  m.train_digest = read.Sha256("/hashes/train");
  m.test_digest = read.Sha256("/hashes/test");
  m.network_digest = read.Sha256("/hashes/network");
  m.ensemble_digest = read.Sha256("/hashes/ensemble");
  LUCID_TRY(read.status());
  LUCID_ASSIGN(m.schema, Schema::Parse(schema, source + " (schema)"));
  LUCID_ASSIGN(m.architecture, Architecture::FromCanonical(architecture));

  // What can be recomputed is recomputed: an edited manifest does not pass for the run it
  // describes.
  const auto inconsistent = [&](std::string_view what) {
    return Mismatch(fmt::format("{}: {}: edited or damaged", source, what));
  };
  if (Sha256Of(m.schema.Canonical()) != m.schema_digest) {
    return inconsistent("the schema does not have the digest it names");
  }
  if (RunKey(m.schema_digest, m.train_digest, m.architecture.Canonical(), m.training) !=
      m.run_key) {
    return inconsistent("data, architecture and training do not give the run key it names");
  }
  if (m.architecture.inputs() != m.schema.features() ||
      m.architecture.classes() != m.schema.classes()) {
    return inconsistent("architecture and schema do not fit each other");
  }
  if (m.rows < 2 || m.rows > kMaxRows || m.members < 1 || m.members > m.rows ||
      m.partial != (m.members < m.rows)) {
    return inconsistent("rows, members and partial contradict each other");
  }
  return m;
}

}  // namespace lucid
