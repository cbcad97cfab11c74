// lucid status: what of a run is there, which promise it keeps, and what comes next.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/files.h"
#include "command.h"
#include "lucid/audit/audit.h"
#include "lucid/certificate/certificate.h"
#include "lucid/certificate/guards_digest.h"
#include "lucid/certificate/receipt.h"
#include "lucid/certify/certify.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/evaluation/evaluation.h"
#include "lucid/fit/fit.h"
#include "lucid/promise/promise.h"
#include "lucid/report/report.h"
#include "nn/safetensors.h"

namespace lucid::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

bool IsThere(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// How many networks a store that is being filled has: a network is there if its digest is. (The
// training that goes on looks whether it is right.)
Result<std::pair<std::int64_t, std::int64_t>> CountNetworks(const std::string& path) {
  LUCID_ASSIGN(const SafetensorsHeader header, SafetensorsHeader::Read(path));
  for (const Tensor& tensor : header.tensors()) {
    if (tensor.name != "digests") continue;
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(tensor.begin));
    std::string digests(tensor.bytes(), '\0');
    if (!file.read(digests.data(), static_cast<std::streamsize>(digests.size()))) break;
    constexpr std::size_t kBytes = 32;
    std::int64_t there = 0;
    for (std::size_t at = 0; at + kBytes <= digests.size(); at += kBytes) {
      there += digests.find_first_not_of('\0', at) < at + kBytes;
    }
    return std::pair{there, static_cast<std::int64_t>(digests.size() / kBytes)};
  }
  return InvalidInput(fmt::format("'{}' holds no networks", path));
}

// A run whose members are not all there (of a private one N and its manifest may be).
Result<Json> Unfinished(const std::string& run) {
  std::int64_t there = 0, of = 0;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(run, code)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".safetensors.partial")) continue;
    LUCID_ASSIGN(const auto counted, CountNetworks(entry.path().string()));
    there += counted.first;
    of += counted.second;
  }
  if (code) return IoError(fmt::format("cannot list '{}': {}", run, code.message()));
  if (of == 0) {
    return InvalidInput(
        fmt::format("'{}' holds no run: neither {} nor networks", run, kManifestFile));
  }
  Json json = {{"run", run}, {"stage", "training"}};
  json["networks"] = {{"there", there}, {"of", of}};
  json["next"] = IsThere(GivenOrInRun("", run, kFitFile))
                     ? "the same lucid fit command goes on"
                     : "the same lucid train command with --resume goes on";
  return json;
}

Json ClassesOf(const Certificate& certificate, const Schema& schema) {
  Json classes = Json::array();
  for (const ClassBound& bound : certificate.classes) {
    Json one = {{"class", bound.label},
                {"name", schema.label().categories[static_cast<std::size_t>(bound.label)]}};
    if (std::isinf(bound.beta_upper)) {
      one["status"] = "not computed";
    } else {
      one["beta_lower"] = bound.beta_lower;
      one["beta_upper"] = bound.beta_upper;
      one["gap"] = bound.Gap();
      one["status"] = NameOf(bound.status);
    }
    classes.push_back(std::move(one));
  }
  return classes;
}

// "there", "none", "of another run", "of other bounds" or "unreadable".
template <typename Parse>
std::string StateOf(const std::string& path, const Digest& run_key,
                    const std::optional<Digest>& guards, const Parse& parse) {
  if (!IsThere(path)) return "none";
  const Result<std::string> text = ReadTextFile(path);
  if (!text.ok()) return "unreadable";
  const auto parsed = parse(*text, path);
  if (!parsed.ok()) return "unreadable";
  if (parsed->run_key != run_key) return "of another run";
  return parsed->guards_digest == guards ? "there" : "of other bounds";
}

// What to do next, as a command.
std::string NextStep(const std::string& run, const Json& status) {
  const bool serves_without = status["declared_access"].get<bool>();
  if (!status.contains("classes") && !serves_without) return fmt::format("lucid bound {}", run);
  if (status["unfinished_search"].get<bool>()) {
    return fmt::format("lucid bound {} --resume   (the bounds are valid, could be tighter)", run);
  }
  if (status.contains("bounds") && status["bounds"] == "proved") {
    return fmt::format("lucid-check {0}/{1} --run {0}", run, kCertificateFile);
  }
  if (status["evaluation"] != "there") return fmt::format("lucid evaluate {}", run);
  if (status["audit"] != "there") return fmt::format("lucid audit {}", run);
  if (status["report"] != "there") return fmt::format("lucid report {}", run);
  return fmt::format("lucid serve {}", run);
}

Result<Json> Finished(const std::string& run, const Manifest& manifest) {
  Json json = {{"run", run}, {"stage", "trained"}};
  json["rows"] = manifest.rows;
  json["unit"] = manifest.unit;
  json["units"] = manifest.units;
  json["members"] = manifest.members;
  json["partial"] = manifest.partial;
  json["architecture"] = manifest.architecture.Canonical();
  json["adjacency"] = NameOf(manifest.adjacency);
  if (!std::isnan(manifest.test_accuracy)) json["test_accuracy"] = manifest.test_accuracy;
  json["declared_access"] = HasDeclaredAccess(manifest);
  const std::string path = GivenOrInRun("", run, kCertificateFile);
  std::optional<Digest> guards;  // of the certificate
  json["unfinished_search"] = IsThere(JournalPath(path));
  if (IsThere(path)) {
    const Result<Certificate> certificate = LoadCertificate(path);
    if (!certificate.ok()) {
      json["bounds"] = "unreadable";
    } else if (certificate->run_key != manifest.run_key) {
      json["bounds"] = "of another run";
    } else {
      guards = GuardsDigest(*certificate);
      json["classes"] = ClassesOf(*certificate, manifest.schema);
      LUCID_ASSIGN(const Standing standing, StandingOf(path));
      json["bounds"] = NameOf(standing);
      json["stage"] = standing == Standing::kChecked ? "checked" : "bounded";
    }
  }
  json["spatial"] = IsThere(GivenOrInRun("", run, kSpatialFile));
  json["index"] = IsThere(GivenOrInRun("", run, kIndexFile));
  json["evaluation"] =
      StateOf(GivenOrInRun("", run, kEvaluationFile), manifest.run_key, guards, ParseEvaluation);
  json["audit"] = StateOf(GivenOrInRun("", run, kAuditFile), manifest.run_key, guards, ParseAudit);
  json["report"] = IsThere(GivenOrInRun("", run, kReportFile)) ? "there" : "none";
  LUCID_ASSIGN(const Promise promise, PromiseOfRun(run));
  json["promise"] = promise.Title();
  json["promise_lines"] = promise.Lines();
  json["next"] = NextStep(run, json);
  return json;
}

std::string ToText(const Json& json) {
  const auto word = [&](const char* name) { return json[name].get<std::string>(); };
  std::string text = fmt::format("run          {}\nstage        {}\n", word("run"), word("stage"));
  if (json.contains("networks")) {
    return text + fmt::format("networks     {} of {}\nnext         {}\n",
                              json["networks"]["there"].get<std::int64_t>(),
                              json["networks"]["of"].get<std::int64_t>(), word("next"));
  }
  text += fmt::format("network      {}, {} rows, {} members of {} units ({}){}\n",
                      word("architecture"), json["rows"].get<std::int64_t>(),
                      json["members"].get<std::int64_t>(), json["units"].get<std::int64_t>(),
                      word("unit"), json["partial"].get<bool>() ? ", partial" : "");
  if (json.contains("test_accuracy")) {
    text += fmt::format("accuracy     {:.2f} % on test rows\n",
                        100 * json["test_accuracy"].get<double>());
  }
  if (json.contains("classes")) {
    for (const Json& one : json["classes"]) {
      const bool known = one.contains("gap");
      text += fmt::format(
          "class {:<6} {}: {}\n", one["class"].get<int>(), one["name"].get<std::string>(),
          known ? fmt::format("beta in [{:.6g}, {:.6g}], gap {:.2f} %, {}",
                              one["beta_lower"].get<double>(), one["beta_upper"].get<double>(),
                              100 * one["gap"].get<double>(), one["status"].get<std::string>())
                : one["status"].get<std::string>());
    }
  }
  text += fmt::format("bounds       {}{}\n", json.contains("bounds") ? word("bounds") : "none",
                      json["unfinished_search"].get<bool>() ? ", search unfinished" : "");
  const bool usable = json.contains("classes") || json["declared_access"].get<bool>();
  text += fmt::format("guards       {}{}{}\n", usable ? "scalar" : "none",
                      json["spatial"].get<bool>() ? ", spatial" : "",
                      json["index"].get<bool>() ? ", exact" : "");
  for (const char* name : {"evaluation", "audit", "report"}) {
    text += fmt::format("{:<12} {}\n", name, word(name));
  }
  text += fmt::format("promise      {}\n", word("promise"));
  for (const Json& line : json["promise_lines"]) {
    text += fmt::format("             {}\n", line.get<std::string>());
  }
  return text + fmt::format("next         {}\n", word("next"));
}

Result<ExitCode> RunStatus(const Session& session, const std::string& run) {
  std::error_code ignored;
  if (!fs::is_directory(run, ignored)) {
    return InvalidInput(fmt::format("'{}' is no folder of a run", run));
  }
  Json json;
  if (IsThere(GivenOrInRun("", run, kManifestFile))) {
    LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(run));
    const bool training = opened.manifest.members == 0 && opened.manifest.units > 0;
    LUCID_ASSIGN(json, training ? Unfinished(run) : Finished(run, opened.manifest));
  } else {
    LUCID_ASSIGN(json, Unfinished(run));
  }
  LUCID_TRY(session.json ? PrintJson(json) : Print(ToText(json)));
  return kDone;
}

}  // namespace

void AddStatusCommand(CLI::App& root, Session& session) {
  auto run = std::make_shared<std::string>();
  CLI::App* command = AddCommand(
      root, session, "status", "What of a run is there, which promise it keeps, and what is next",
      "lucid data synth2d --rows 40 --out points && lucid train --data points --arch 2x10 --out "
      "run && lucid status run",
      [&session, run] { return RunStatus(session, *run); });
  command->add_option("run", *run, "Folder of the run")->required();
}

}  // namespace lucid::app
