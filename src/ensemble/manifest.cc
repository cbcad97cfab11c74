#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "base/number_text.h"
#include "base/text.h"
#include "ensemble/run_spec.h"
#include "ensemble/secret_file.h"

namespace lucid {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat1 = "lucid-run-1", kFormat2 = "lucid-run-2";
constexpr std::int64_t kMaxRows = std::numeric_limits<std::int32_t>::max();  // as in training
constexpr Adjacency kAdjacencies[] = {Adjacency::kUnitRemoved, Adjacency::kBlanked,
                                      Adjacency::kAsTrainedElsewhere};

constexpr const char* kMomentsSigma = "moments_sigma";  // older runs do not have it

Json ToJson(const PrivateRun& run) {
  const PrivacyStatement& s = run.statement;
  return {{"epsilon", s.epsilon}, {"delta", s.delta},
          {"sigma", s.sigma},     {kMomentsSigma, s.moments_sigma},
          {"clip", s.clip},       {"sampling_rate", s.sampling_rate},
          {"steps", s.steps},     {"spent", s.spent},
          {"seeded", run.seeded}, {"secret", run.secret.Hex()}};
}

PrivateRun ReadPrivateRun(JsonFields& read) {
  PrivateRun run;
  run.statement = {read.Number("/private/epsilon"), read.Number("/private/delta"),
                   read.Number("/private/sigma"),   0,
                   read.Number("/private/clip"),    read.Number("/private/sampling_rate"),
                   read.Whole("/private/steps"),    read.Number("/private/spent")};
  const std::string moments = std::string("/private/") + kMomentsSigma;
  if (read.Has(moments)) run.statement.moments_sigma = read.Number(moments);
  run.seeded = read.Flag("/private/seeded");
  run.secret = read.Sha256("/private/secret");
  return run;
}

// The numbers that bounds are made of, exactly: hex floats beside those for people.
Json ToJson(const DeclaredBounds& d) {
  return {{"r", d.r},           {"r_hex", HexText(d.r)},
          {"median", d.median}, {"median_hex", HexText(d.median)},
          {"bound", d.bound()}, {"reference", d.reference}};
}

DeclaredBounds ReadDeclaredBounds(JsonFields& read) {
  const std::string r = read.Text("/declared/r_hex"), median = read.Text("/declared/median_hex");
  DeclaredBounds d{std::strtod(r.c_str(), nullptr), std::strtod(median.c_str(), nullptr),
                   read.Text("/declared/reference")};
  if (!(d.r > 0 && std::isfinite(d.r)) || !(d.median >= 0 && std::isfinite(d.median))) {
    read.Wrong("/declared", "a positive r and a median");
  }
  return d;
}

bool HasItsRunKey(const Manifest& m) {
  RunContents contents{m.schema_digest,
                       m.train_digest,
                       m.rows,
                       m.units,
                       m.architecture.Canonical(),
                       m.training,
                       m.private_run ? std::optional(m.private_run->secret) : std::nullopt,
                       {}};
  // Runs of earlier versions have a key that knows no choices. What was made with one that does
  // cannot pass for such a run.
  if (RunKey(m.format, contents) == m.run_key) return true;
  contents.choices = ChoicesText(m.after_looking, m.declared ? m.declared->r : 0,
                                 m.declared ? m.declared->reference : "");
  return RunKey(m.format, contents) == m.run_key;
}

// What can be recomputed is recomputed: an edited manifest does not pass for the run it describes.
Status CheckConsistency(const Manifest& m, const std::string& source) {
  const auto inconsistent = [&](std::string_view what) {
    return Mismatch(fmt::format("{}: {}: edited or damaged", source, what));
  };
  if (Sha256Of(m.schema.Canonical()) != m.schema_digest) {
    return inconsistent("the schema does not have the digest it names");
  }
  if (!HasItsRunKey(m)) {
    return inconsistent(
        "data, architecture, training and what was declared do not give the run key it names");
  }
  if (m.architecture.inputs() != m.schema.features() ||
      m.architecture.classes() != m.schema.classes()) {
    return inconsistent("architecture and schema do not fit each other");
  }
  // A private run has N before it has members, and its data may be any set of rows.
  const std::int64_t least = m.private_run ? 0 : 2, fewest = m.private_run ? 0 : 1;
  if (m.rows < least || m.rows > kMaxRows || m.units < least || m.units > m.rows ||
      m.members < fewest || m.members > m.units || m.partial != (m.members < m.units) ||
      m.not_finite < 0 || m.not_finite > m.members) {
    return inconsistent("rows, units, members and partial contradict each other");
  }
  const Result<TrainOptions> options = TrainOptions::FromCanonical(m.training);
  const bool is_private =
      options.ok() && options->method == TrainOptions::Method::kPrivate && m.format == 2;
  if (is_private != m.private_run.has_value()) {
    return inconsistent("training and 'private' contradict each other");
  }
  if (m.unit != m.schema.unit_name()) return inconsistent("unit and schema contradict each other");
  if ((m.adjacency == Adjacency::kUnitRemoved) != (m.format == 2 && options.ok())) {
    return inconsistent("training and adjacency contradict each other");
  }
  if (!is_private) return Ok();
  if (m.private_run->seeded !=
      (DigestOf(Secret::FromSeed(options->seed)) == m.private_run->secret)) {
    return inconsistent("'seeded' and the secret contradict each other");
  }
  // The promise follows from the options: it is computed again, not believed.
  const Result<PrivacyStatement> statement = PrivacyOf(*options, m.architecture);
  const PrivacyStatement& stated = m.private_run->statement;
  const auto alike = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(a); };
  if (!statement.ok() || !(statement->spent <= stated.epsilon * (1 + 1e-9)) ||
      stated.epsilon != options->epsilon || stated.delta != options->delta ||
      !alike(statement->sigma, stated.sigma) ||
      !alike(statement->moments_sigma, stated.moments_sigma) || statement->clip != stated.clip ||
      statement->steps != stated.steps || !alike(statement->sampling_rate, stated.sampling_rate) ||
      m.expected_rows != options->expected_rows || m.expected_from_data) {
    return inconsistent("the training does not keep the epsilon and delta it names");
  }
  return Ok();
}

}  // namespace

std::string_view NameOf(Adjacency adjacency) {
  switch (adjacency) {
    case Adjacency::kUnitRemoved:
      return "unit removed";
    case Adjacency::kBlanked:
      return "blanked";
    case Adjacency::kAsTrainedElsewhere:
      break;
  }
  return "as trained elsewhere";
}

std::string_view NameOf(NetworkMaker maker) {
  switch (maker) {
    case NetworkMaker::kAvx512:
      return NameOf(InstructionSet::kAvx512);
    case NetworkMaker::kAvx2:
      return NameOf(InstructionSet::kAvx2);
    case NetworkMaker::kPortable:
      return NameOf(InstructionSet::kPortable);
    case NetworkMaker::kCommand:
      return "command";
    case NetworkMaker::kMerge:
      return "merged";
    default:
      return "imported";
  }
}

Result<NetworkMaker> NetworkMakerNamed(std::string_view name) {
  using enum NetworkMaker;
  for (const NetworkMaker maker : {kAvx512, kAvx2, kPortable, kCommand, kMerge, kImport}) {
    if (NameOf(maker) == name) return maker;
  }
  return InvalidInput(fmt::format("no networks are made by '{}'", name));
}

std::string EncodeManifest(const Manifest& m) {
  Json json;
  json["format"] = m.format == 1 ? kFormat1 : kFormat2;
  json["lucid"] = m.version;
  json["build"] = m.build;
  json["instruction_set"] = NameOf(m.maker);
  json["command"] = m.command;
  json["data"] = {{"directory", m.data_directory},
                  {"rows", m.rows},
                  {"max_rows", m.max_rows},
                  {"rows_per_unit", m.rows_per_unit},
                  {"features", m.schema.features()},
                  {"classes", m.schema.classes()},
                  {"class_names", m.schema.label().categories},
                  {"schema", m.schema.Canonical()}};
  json["unit"] = m.unit;
  json["units"] = m.units;
  json["adjacency"] = NameOf(m.adjacency);
  json["expected_rows"] = m.expected_rows == 0 ? Json(nullptr) : Json(m.expected_rows);
  json["expected_rows_from"] = m.expected_rows == 0   ? Json(nullptr)
                               : m.expected_from_data ? Json("data")
                                                      : Json("declared");
  json["architecture"] = m.architecture.Canonical();
  json["parameters"] = m.architecture.parameters();
  json["training"] = m.training;
  json["private"] = m.private_run ? ToJson(*m.private_run) : Json(nullptr);
  json["population"] = m.population.empty() ? Json(nullptr) : Json(m.population);
  if (m.population_total) {
    json["population_total"] = {{"epsilon", m.population_total->epsilon},
                                {"delta", m.population_total->delta}};
  }
  json["declared"] = m.declared ? ToJson(*m.declared) : Json(nullptr);
  if (!m.attempts.empty()) {
    json["attempts"] = Json::array();
    for (const DeclareAttempt& a : m.attempts) {
      json["attempts"].push_back({{"r", a.r}, {"outcome", a.outcome}});
    }
  }
  if (!m.after_looking.empty()) json["after_looking"] = m.after_looking;
  json["members"] = m.members;
  json["partial"] = m.partial;
  json["not_finite"] = m.not_finite;
  json["train_accuracy"] = NumberOrNull(m.train_accuracy);
  json["test_accuracy"] = NumberOrNull(m.test_accuracy);
  json["seconds"] = NumberOrNull(m.seconds);
  json["hashes"] = {{"run_key", m.run_key.Hex()},         {"schema", m.schema_digest.Hex()},
                    {"train", m.train_digest.Hex()},      {"order", m.order_digest.Hex()},
                    {"test", m.test_digest.Hex()},        {"network", m.network_digest.Hex()},
                    {"ensemble", m.ensemble_digest.Hex()}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Manifest> ParseManifest(std::string_view text, const std::string& source) {
  LUCID_ASSIGN(const Json json, JsonFields::Parse(text, source, "manifest"));
  JsonFields read(json, source, "manifest");
  Manifest m;
  m.format = json.value("format", Json()) == Json(kFormat1) ? 1 : 2;
  LUCID_TRY(read.CheckFormat(m.format == 1 ? kFormat1 : kFormat2));
  m.version = read.Text("/lucid");
  m.build = read.Text("/build");
  m.maker = read.Named("/instruction_set", NetworkMakerNamed);
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
  if (m.format == 1) {
    m.units = m.rows;
    m.adjacency = TrainOptions::FromCanonical(m.training).ok() ? Adjacency::kBlanked
                                                               : Adjacency::kAsTrainedElsewhere;
  } else {
    m.max_rows = read.Whole("/data/max_rows");
    m.rows_per_unit = read.Whole("/data/rows_per_unit");
    m.unit = read.Text("/unit");
    m.units = read.Whole("/units");
    const std::string adjacency = read.Text("/adjacency");
    const auto* const found =
        std::ranges::find(kAdjacencies, adjacency, [](Adjacency one) { return NameOf(one); });
    if (found == std::end(kAdjacencies)) read.Wrong("/adjacency", "an adjacency");
    if (found != std::end(kAdjacencies)) m.adjacency = *found;
    if (!read.IsNull("/expected_rows")) {
      m.expected_rows = read.Whole("/expected_rows");
      m.expected_from_data = read.Text("/expected_rows_from") == "data";
    }
    if (!read.IsNull("/private")) m.private_run = ReadPrivateRun(read);
    if (!read.IsNull("/population")) m.population = read.Text("/population");
    if (json.contains("population_total")) {
      m.population_total = {read.Number("/population_total/epsilon"),
                            read.Number("/population_total/delta")};
    }
    if (!read.IsNull("/declared")) m.declared = ReadDeclaredBounds(read);
    for (std::size_t i = 0; json.contains("attempts") && i < read.List("/attempts").size(); ++i) {
      const std::string path = fmt::format("/attempts/{}", i);
      m.attempts.push_back({read.Number(path + "/r"), read.Text(path + "/outcome")});
    }
    if (json.contains("after_looking")) m.after_looking = read.Text("/after_looking");
    m.not_finite = read.Whole("/not_finite");
    m.order_digest = read.Sha256("/hashes/order");
  }
  LUCID_TRY(read.status());
  LUCID_ASSIGN(m.schema, Schema::Parse(schema, source + " (schema)"));
  LUCID_ASSIGN(m.architecture, Architecture::FromCanonical(architecture));
  LUCID_TRY(CheckConsistency(m, source));
  return m;
}

}  // namespace lucid
