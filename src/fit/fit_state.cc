#include "fit/fit_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_fields.h"
#include "base/text.h"
#include "lucid/base/digest.h"

namespace lucid {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFormat = "lucid fit 1";

// What RUN/fit.json says was asked for. It names options as the command line does. Digests stand in
// the place of the names of files: a file that moved is the same file.
Result<std::vector<std::pair<std::string, std::string>>> ArgumentsOf(const FitOptions& options) {
  LUCID_ASSIGN(const Digest csv, Sha256OfFile(options.csv));
  std::string declared;
  if (!options.declared.empty()) {
    LUCID_ASSIGN(const Digest digest, Sha256OfFile(options.declared));
    declared = digest.Hex();
  }
  return std::vector<std::pair<std::string, std::string>>{
      {"the CSV file (SHA-256)", csv.Hex()},
      {"--label", options.label},
      {"--unit", options.unit},
      {"--declared (SHA-256)", declared},
      {"--ignore", fmt::format("{}", fmt::join(options.ignore, ","))},
      {"--promise", std::string(NameOf(options.promise))},
      {"--missing", options.missing ? std::string(NameOf(*options.missing)) : ""},
      {"--test", fmt::format("{}", options.test_share)},
      {"--arch", options.architecture},
      {"--expected-rows", fmt::format("{}", options.expected_rows)},
      {"--rows-per-unit", fmt::format("{}", options.rows_per_unit)},
      {"--train-epsilon", fmt::format("{}", options.train_epsilon)},
      {"--train-delta", fmt::format("{}", options.train_delta)},
      {"--seed", options.seed ? fmt::format("{}", *options.seed) : ""}};
}

// What a message calls an argument: "--expected-rows" is "value of the option expected_rows".
std::string Words(std::string argument) {
  if (!argument.starts_with("--")) return argument;
  std::ranges::replace(argument, '-', '_');
  return "value of the option " + argument.substr(2);
}

}  // namespace

std::string_view NameOf(WantedPromise promise) {
  return promise == WantedPromise::kLabels ? "labels"
         : promise == WantedPromise::kFull ? "full"
                                           : "both";
}

Result<FitState> FitState::Open(const FitOptions& options, const std::string& run) {
  FitState state;
  state.run_ = run;
  state.path_ = PathIn(run, kFitFile);
  LUCID_ASSIGN(state.arguments_, ArgumentsOf(options));
  if (!std::filesystem::exists(state.path_)) {
    for (const char* name :
         {kManifestFile, kEnsembleFile, kSeedFile, kFitDataFolder, "schema.csv"}) {
      if (!std::filesystem::exists(PathIn(run, name))) continue;
      return InvalidInput(fmt::format(
          "'{}' holds a '{}' that no 'lucid fit' made: choose another folder", run, name));
    }
    LUCID_TRY(MakeDirectories(run));
    LUCID_TRY(state.Save());
    return state;
  }
  LUCID_ASSIGN(const std::string text, ReadTextFile(state.path_, 1 << 20));
  LUCID_ASSIGN(const Json json, JsonFields::Parse(text, state.path_, "fit"));
  JsonFields read(json, state.path_, "fit");
  LUCID_TRY(read.CheckFormat(kFormat));
  const std::vector<std::string> done = read.Texts("/done");
  const Json arguments = json.value("arguments", Json::object());
  for (const auto& [name, value] : state.arguments_) {
    const Json found = arguments.value(name, Json(""));
    if (found == Json(value)) continue;
    return InvalidInput(fmt::format(
        "'{}' was begun with another {} ({}, now {}): choose another folder", run, Words(name),
        found.is_string() ? Quoted(found.get<std::string>()) : "not known", Quoted(value)));
  }
  LUCID_TRY(read.status());
  state.done_.insert(done.begin(), done.end());
  return state;
}

Status FitState::Finish(const std::string& stage) {
  done_.insert(stage);
  return Save();
}

void FitState::Abandon() const {
  namespace fs = std::filesystem;
  const std::string unfinished = std::string(kEnsembleFile) + ".partial";
  for (const std::string& name : {std::string(kManifestFile), std::string(kEnsembleFile),
                                  unfinished, std::string(kSeedFile), std::string(kSecretFile)}) {
    if (fs::exists(PathIn(run_, name))) return;
  }
  std::error_code ignored;
  fs::remove_all(PathIn(run_, kFitDataFolder), ignored);
  fs::remove(path_, ignored);
  fs::remove(run_, ignored);  // if nothing else is in it
}

Status FitState::Save() const {
  Json json;
  json["format"] = kFormat;
  json["arguments"] = Json::object();
  for (const auto& [name, value] : arguments_) json["arguments"][name] = value;
  json["done"] = done_;
  return WriteFileAtomically(path_,
                             json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace lucid
