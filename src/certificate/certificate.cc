#include "lucid/certificate/certificate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_fields.h"
#include "base/number_text.h"
#include "base/text.h"
#include "certificate/seal.h"
#include "lucid/base/version.h"
#include "lucid/ensemble/ensemble.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "lucid-certificate-2";
// The native engine of that time could go on with the regions of another class (CHANGELOG.md).
constexpr std::string_view kFormatOfWrongBounds = "lucid-certificate-1";
constexpr std::uint64_t kMaxBytes = 64 << 20;
// Counters that other programs look for in the class itself; always written.
constexpr const char* kFirstCounters[] = {"members_pruned_by_screen", "regions"};
constexpr BoundStatus kStatuses[] = {BoundStatus::kExact, BoundStatus::kGap,
                                     BoundStatus::kDeadline};

// ---- numbers -----------------------------------------------------------------------------------

Json HashOrNull(const std::optional<Digest>& digest) {
  return digest ? Json(digest->Hex()) : Json(nullptr);
}

// "0x1.8p-1", "inf": the shortest text that is exactly this number. -0 is written as 0.
std::string Hex(double value) { return HexText(value == 0 ? 0 : value); }

// A number that is not negative, or NaN for any other text.
double FromHex(std::string_view text) {
  constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return kInfinity;
  if (!text.starts_with("0x")) return kNoNumber;
  text.remove_prefix(2);
  if (text.empty() || text.front() == '-') return kNoNumber;
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value, std::chars_format::hex);
  return code == std::errc() && stop == end && std::isfinite(value) ? value : kNoNumber;
}

// The decimal number for people, the exact one for programs.
void Put(Json& json, const std::string& name, double value) {
  json[name] = NumberOrNull(value == 0 ? 0 : value);
  json[name + "_hex"] = Hex(value);
}

// ---- writing -----------------------------------------------------------------------------------

std::int64_t CounterOf(const ClassBound& bound, std::string_view name) {
  for (const auto& [counter, value] : bound.counters) {
    if (counter == name) return value;
  }
  return 0;
}

Json ToJson(const ClassBound& bound) {
  Json json;
  json["class"] = bound.label;
  Put(json, "beta_upper", bound.beta_upper);
  Put(json, "beta_lower", bound.beta_lower);
  json["gap"] = NumberOrNull(bound.Gap());
  json["status"] = NameOf(bound.status);
  json["witness"] = nullptr;
  if (bound.witness.has_value()) {
    Json x = Json::array();
    for (const float value : bound.witness->x) x.push_back(NumberOrNull(value));
    json["witness"] = {{"x", x}, {"member", bound.witness->member}, {"row", bound.witness->row}};
  }
  json["seconds"] = NumberOrNull(bound.seconds);
  for (const char* name : kFirstCounters) json[name] = CounterOf(bound, name);
  Json others = Json::object();
  for (const auto& [name, value] : bound.counters) {
    if (std::ranges::find(kFirstCounters, name) == std::end(kFirstCounters)) others[name] = value;
  }
  json["counters"] = others;
  return json;
}

Json ToJson(const DeclaredDecision& declared, DeclaredOutcome outcome) {
  Json json;
  Put(json, "r", declared.r);
  json["bounds"] = Json::array();
  json["bounds_hex"] = Json::array();
  for (const double bound : declared.bounds) {
    json["bounds"].push_back(NumberOrNull(bound == 0 ? 0 : bound));
    json["bounds_hex"].push_back(Hex(bound));
  }
  json["way"] = declared.after_looking ? "after looking" : "declared";
  json["outcome"] = NameOf(outcome);
  return json;
}

// ---- reading -----------------------------------------------------------------------------------

double ReadBound(JsonFields& read, const std::string& path) {
  const double value = FromHex(read.Text(path + "_hex"));
  return std::isnan(value) ? read.Wrong<double>(path + "_hex", "\"inf\" or like \"0x1.8p-1\", >= 0")
                           : value;
}

double ReadSeconds(JsonFields& read, const std::string& path) {
  const double value = read.Number(path);
  return value >= 0 ? value : read.Wrong<double>(path, "a number >= 0");
}

std::vector<float> ReadInput(JsonFields& read, const std::string& path) {
  std::vector<float> x;
  for (const Json& item : read.List(path)) {
    const double wide =
        item.is_number() ? item.get<double>() : std::numeric_limits<double>::quiet_NaN();
    const auto value = static_cast<float>(std::abs(wide) <= 1e30 ? wide : 0.0);
    if (static_cast<double>(value) != wide) {
      return read.Wrong<std::vector<float>>(path, "a list of float32 numbers");
    }
    x.push_back(value);
  }
  return x;
}

Witness ReadWitness(JsonFields& read, const std::string& path) {
  Witness witness;
  witness.x = ReadInput(read, path + "/x");
  witness.member = read.Whole(path + "/member");
  witness.row = read.Whole(path + "/row");
  if (witness.member < 0) read.Wrong(path + "/member", "a number >= 0");
  if (witness.row < 0) read.Wrong(path + "/row", "a number >= 0");
  return witness;
}

BoundStatus ReadStatus(JsonFields& read, const std::string& path) {
  const std::string name = read.Text(path);
  for (const BoundStatus status : kStatuses) {
    if (NameOf(status) == name) return status;
  }
  return read.Wrong<BoundStatus>(path, "exact, gap or deadline");
}

ClassBound ReadClass(JsonFields& read, std::size_t index) {
  const std::string path = fmt::format("/classes/{}", index);
  ClassBound bound;
  const std::int64_t label = read.Whole(path + "/class");
  if (label != static_cast<std::int64_t>(index)) {
    read.Wrong(path + "/class", "the class of its place");
  }
  bound.label = static_cast<std::int32_t>(index);
  bound.beta_upper = ReadBound(read, path + "/beta_upper");
  bound.beta_lower = ReadBound(read, path + "/beta_lower");
  if (bound.beta_lower > bound.beta_upper) read.Wrong(path + "/beta_lower", "at most beta_upper");
  if (!read.IsNull(path + "/witness")) bound.witness = ReadWitness(read, path + "/witness");
  if (!bound.witness.has_value() && bound.beta_lower != 0) {
    read.Wrong(path + "/beta_lower", "0 where there is no witness");
  }
  if (std::isinf(bound.beta_lower)) read.Wrong(path + "/beta_lower", "finite");
  bound.status = ReadStatus(read, path + "/status");
  bound.seconds = ReadSeconds(read, path + "/seconds");
  for (const char* name : kFirstCounters) {
    bound.counters.emplace_back(name, read.Whole(fmt::format("{}/{}", path, name)));
  }
  for (const auto& [name, value] : read.Object(path + "/counters").items()) {
    if (!value.is_number_integer()) read.Wrong(path + "/counters", "whole numbers");
    bound.counters.emplace_back(name, value.is_number_integer() ? value.get<std::int64_t>() : 0);
  }
  return bound;
}

DeclaredDecision ReadDeclared(JsonFields& read, std::size_t classes) {
  DeclaredDecision declared;
  declared.r = ReadBound(read, "/declared/r");
  for (const std::string& text : read.Texts("/declared/bounds_hex")) {
    declared.bounds.push_back(FromHex(text));
    if (!std::isfinite(declared.bounds.back())) read.Wrong("/declared/bounds_hex", "finite bounds");
  }
  if (declared.bounds.size() != classes) read.Wrong("/declared/bounds_hex", "one for each class");
  declared.after_looking = read.Text("/declared/way") == "after looking";
  return declared;
}

std::optional<Digest> ReadOptionalHash(JsonFields& read, const std::string& path) {
  if (read.IsNull(path)) return std::nullopt;
  return read.Sha256(path);
}

void ReadHashes(JsonFields& read, Certificate& c) {
  c.run_key = read.Sha256("/hashes/run_key");
  c.schema_digest = read.Sha256("/hashes/schema");
  c.train_digest = read.Sha256("/hashes/train");
  c.architecture_digest = read.Sha256("/hashes/architecture");
  c.network_digest = read.Sha256("/hashes/network");
  c.ensemble_digest = read.Sha256("/hashes/ensemble");
  c.spatial_digest = ReadOptionalHash(read, "/hashes/spatial");
  c.index_digest = ReadOptionalHash(read, "/hashes/index");
  // Certificates of files without a proof have no such field.
  const Json& hashes = read.Object("/hashes");
  if (hashes.contains("spatial_proof")) {
    c.spatial_proof_digest = read.Sha256("/hashes/spatial_proof");
  }
  if (hashes.contains("index_proof")) c.index_proof_digest = read.Sha256("/hashes/index_proof");
}

// One spelling for each certificate: a field that is unknown, there twice or in another place, or a
// decimal number that is not the exact one beside it, makes another text.
Status CheckSpelling(std::string_view text, const Certificate& certificate,
                     const std::string& source) {
  const std::string expected = EncodeCertificate(certificate);
  if (text == expected) return Ok();
  const auto difference = std::ranges::mismatch(text, expected).in1;
  const std::size_t at = difference - text.begin();
  const std::size_t start = text.rfind('\n', at == 0 ? 0 : at - 1);
  const std::size_t from = start == std::string_view::npos ? 0 : start + 1;
  const auto line = std::ranges::count(text.substr(0, at), '\n') + 1;
  return Mismatch(
      fmt::format("{}:{}: {} is not what the rest of the certificate gives: edited, or "
                  "of another version",
                  source, line, Quoted(text.substr(from, text.find('\n', at) - from))));
}

}  // namespace

std::string_view NameOf(BoundStatus status) {
  switch (status) {
    case BoundStatus::kExact:
      return "exact";
    case BoundStatus::kGap:
      return "gap";
    case BoundStatus::kDeadline:
      break;
  }
  return "deadline";
}

std::string_view NameOf(Engine engine) { return engine == Engine::kNative ? "native" : "milp"; }

Result<Engine> EngineNamed(std::string_view name) {
  for (const Engine engine : {Engine::kNative, Engine::kMilp}) {
    if (NameOf(engine) == name) return engine;
  }
  return InvalidInput(fmt::format("engine '{}' is not one of: native, milp", name));
}

std::string_view NameOf(DeclaredOutcome outcome) {
  switch (outcome) {
    case DeclaredOutcome::kProved:
      return "proved";
    case DeclaredOutcome::kRefuted:
      return "refuted";
    case DeclaredOutcome::kOpen:
      break;
  }
  return "open";
}

bool Certificate::FullyProved() const {
  return proof && (!spatial_digest || spatial_proof_digest) &&
         (!index_digest || index_proof_digest);
}

DeclaredOutcome Certificate::Outcome() const {
  bool proved = true;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].beta_lower > declared->bounds[i]) return DeclaredOutcome::kRefuted;
    proved = proved && classes[i].beta_upper <= declared->bounds[i];
  }
  return proved ? DeclaredOutcome::kProved : DeclaredOutcome::kOpen;
}

double ClassBound::Gap() const {
  if (std::isinf(beta_upper)) return 1;
  return beta_upper == 0 ? 0 : (beta_upper - beta_lower) / beta_upper;
}

Certificate UnprovedCertificate(const Ensemble& ensemble) {
  const Manifest& manifest = ensemble.manifest();
  Certificate c;
  c.version = Version();
  c.rows = manifest.rows;
  c.members = manifest.members;
  c.partial = manifest.partial;
  c.network_error = Evaluator(ensemble.network()).ConfidenceErrorBound();
  c.member_error = kInfinity;
  c.classes.resize(static_cast<std::size_t>(manifest.architecture.classes()));
  for (std::size_t i = 0; i < c.classes.size(); ++i) {
    c.classes[i].label = static_cast<std::int32_t>(i);
    c.classes[i].beta_upper = kInfinity;
  }
  c.run_key = manifest.run_key;
  c.schema_digest = manifest.schema_digest;
  c.train_digest = manifest.train_digest;
  c.architecture_digest = Sha256Of(manifest.architecture.Canonical());
  c.network_digest = ensemble.network().digest();
  c.ensemble_digest = manifest.ensemble_digest;
  return c;
}

std::string EncodeCertificate(const Certificate& c) {
  Json json;
  json["format"] = kFormat;
  json["lucid"] = c.version;
  json["command"] = c.command;
  json["engine"] = NameOf(c.engine);
  json["options"] = c.options;
  json["domain"] = NameOf(c.domain);
  json["promise"] = c.promise;
  json["declared"] = c.declared ? ToJson(*c.declared, c.Outcome()) : Json(nullptr);
  json["rows"] = c.rows;
  json["members"] = c.members;
  json["partial"] = c.partial;
  json["forward_error"] = Json::object();
  Put(json["forward_error"], "network", c.network_error);
  Put(json["forward_error"], "members", c.member_error);
  json["classes"] = Json::array();
  for (const ClassBound& bound : c.classes) json["classes"].push_back(ToJson(bound));
  json["seconds"] = NumberOrNull(c.seconds);
  json["hashes"] = {{"run_key", c.run_key.Hex()},
                    {"schema", c.schema_digest.Hex()},
                    {"train", c.train_digest.Hex()},
                    {"architecture", c.architecture_digest.Hex()},
                    {"network", c.network_digest.Hex()},
                    {"ensemble", c.ensemble_digest.Hex()},
                    {"spatial", HashOrNull(c.spatial_digest)},
                    {"index", HashOrNull(c.index_digest)}};
  if (c.spatial_proof_digest) json["hashes"]["spatial_proof"] = c.spatial_proof_digest->Hex();
  if (c.index_proof_digest) json["hashes"]["index_proof"] = c.index_proof_digest->Hex();
  json["proof"] = nullptr;
  if (c.proof) {
    json["proof"] = {
        {"file", c.proof->file}, {"bytes", c.proof->bytes}, {"sha256", c.proof->digest.Hex()}};
  }
  return WithSeal(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Result<Certificate> ParseCertificate(std::string_view text, const std::string& source) {
  LUCID_TRY(CheckSeal(text, source, "certificate"));
  LUCID_ASSIGN(const Json json, JsonFields::Parse(text, source, "certificate"));
  JsonFields read(json, source, "certificate");
  if (read.Text("/format") == kFormatOfWrongBounds) {
    return InvalidInput(
        fmt::format("{}: format {}: its engine's bounds could be too low: bound the run again",
                    source, kFormatOfWrongBounds));
  }
  LUCID_TRY(read.CheckFormat(kFormat));
  Certificate c;
  c.version = read.Text("/lucid");
  c.command = read.Texts("/command");
  c.engine = read.Named("/engine", EngineNamed);
  c.options = read.Text("/options");
  c.domain = read.Named("/domain", DomainNamed);
  c.rows = read.Whole("/rows");
  c.members = read.Whole("/members");
  c.partial = read.Flag("/partial");
  c.network_error = ReadBound(read, "/forward_error/network");
  c.member_error = ReadBound(read, "/forward_error/members");
  const std::size_t classes = read.List("/classes").size();
  for (std::size_t i = 0; i < classes; ++i) c.classes.push_back(ReadClass(read, i));
  c.promise = read.Text("/promise");
  if (!read.IsNull("/declared")) c.declared = ReadDeclared(read, classes);
  c.seconds = ReadSeconds(read, "/seconds");
  ReadHashes(read, c);
  if (!read.IsNull("/proof")) {
    c.proof = ProofNote{read.Text("/proof/file"), read.Whole("/proof/bytes"),
                        read.Sha256("/proof/sha256")};
    if (c.proof->bytes < 0) read.Wrong("/proof/bytes", "a number >= 0");
  }
  if (c.classes.empty()) read.Wrong("/classes", "a list of at least one class");
  if (c.rows < 2) read.Wrong("/rows", "at least 2");
  if (c.members < 1 || c.members > c.rows) read.Wrong("/members", "from 1 to rows");
  // Equal rows share a member, and so do the rows of a unit: fewer members than rows may be all.
  if (c.partial && c.members >= c.rows)
    read.Wrong("/partial", "false where every row has a member");
  LUCID_TRY(read.status());
  LUCID_TRY(CheckSpelling(text, c, source));
  return c;
}

Status SaveCertificate(const Certificate& certificate, const std::string& path) {
  // A file that no reader would accept is not written, because the mistake would be found much
  // later.
  const std::string text = EncodeCertificate(certificate);
  LUCID_TRY(ParseCertificate(text, path));
  return WriteFileAtomically(path, text);
}

Result<Certificate> LoadCertificate(const std::string& path) {
  LUCID_ASSIGN(const std::string text, ReadTextFile(path, kMaxBytes));
  return ParseCertificate(text, path);
}

Result<VerifiedCertificate> VerifiedCertificate::Verify(Certificate certificate,
                                                        const Network& network) {
  const Certificate& c = certificate;
  const auto other = [](std::string_view what, const auto& stated, const auto& actual) {
    return Mismatch(
        fmt::format("the certificate is for another network: {} {}, this network has "
                    "{}",
                    what, stated, actual));
  };
  const auto shown = [](const Digest& digest) { return digest.Hex().substr(0, 16); };
  const Digest architecture = Sha256Of(network.architecture.Canonical());
  if (c.architecture_digest != architecture) {
    return other("architecture digest", shown(c.architecture_digest), shown(architecture));
  }
  if (const Digest digest = network.digest(); c.network_digest != digest) {
    return other("network digest", shown(c.network_digest), shown(digest));
  }
  if (static_cast<std::int64_t>(c.classes.size()) != network.architecture.classes()) {
    return other("number of classes", c.classes.size(), network.architecture.classes());
  }
  // Not "at least": a guard that subtracts what it computes itself and one that subtracts what is
  // written here must noise the same inputs.
  const double error = Evaluator(network).ConfidenceErrorBound();
  if (!(c.network_error == error)) return other("forward error", Hex(c.network_error), Hex(error));
  for (std::size_t i = 0; i < c.classes.size(); ++i) {
    const ClassBound& bound = c.classes[i];
    if (bound.label != static_cast<std::int32_t>(i) || !(bound.beta_upper >= 0) ||
        !(bound.beta_lower <= bound.beta_upper)) {
      return Mismatch(fmt::format("the certificate's bound of class {} is no bound: {} to {}", i,
                                  bound.beta_lower, bound.beta_upper));
    }
  }
  return VerifiedCertificate(std::move(certificate));
}

}  // namespace lucid
