#include "baselines/baseline_store.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "base/files.h"
#include "base/json_fields.h"

namespace lucid {
namespace {

using Json = nlohmann::ordered_json;

Result<TrainedBaseline> Load(const std::string& record, const std::string& weights,
                             const std::string& key) {
  LUCID_ASSIGN(const std::string text, ReadTextFile(record, 1 << 20));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    return InvalidInput(fmt::format("{}: not a JSON object: remove it to train again", record));
  }
  JsonFields read(json, record, "baseline");
  TrainedBaseline baseline;
  const std::string its_key = read.Text("/key");
  const Digest digest = read.Sha256("/network");
  baseline.sigma = read.Number("/sigma");
  baseline.rate = read.Number("/rate");
  baseline.steps = read.Whole("/steps");
  baseline.seconds = read.Number("/seconds");
  LUCID_TRY(read.status());
  LUCID_ASSIGN(baseline.network, LoadNetwork(weights));
  if (its_key != key || baseline.network.digest() != digest) {
    return Mismatch(
        fmt::format("{}: not the baseline that its name says, or damaged: remove it "
                    "to train again",
                    record));
  }
  return baseline;
}

// The record comes last: where it is, the network is whole.
Status Save(const TrainedBaseline& baseline, const std::string& record, const std::string& weights,
            const std::string& key) {
  LUCID_TRY(SaveNetwork(baseline.network, weights));
  const Json json = {{"key", key},
                     {"network", baseline.network.digest().Hex()},
                     {"sigma", baseline.sigma},
                     {"rate", baseline.rate},
                     {"steps", baseline.steps},
                     {"seconds", baseline.seconds}};
  return WriteFileAtomically(record, json.dump(2) + "\n");
}

// The path of its files, without their endings.
std::string FileOf(const std::string& folder, const std::string& name, const std::string& key) {
  return (std::filesystem::path(folder) / (name + "-" + Sha256Of(key).Hex().substr(0, 24)))
      .string();
}

}  // namespace

bool IsStored(const std::string& folder, const std::string& name, const std::string& key) {
  std::error_code code;
  return std::filesystem::exists(FileOf(folder, name, key) + ".json", code);
}

Result<TrainedBaseline> LoadOrTrain(const std::string& folder, const std::string& name,
                                    const std::string& key,
                                    const std::function<Result<TrainedBaseline>()>& train) {
  const std::string file = FileOf(folder, name, key);
  const std::string record = file + ".json", weights = file + ".safetensors";
  if (IsStored(folder, name, key)) return Load(record, weights, key);
  const auto start = std::chrono::steady_clock::now();
  LUCID_ASSIGN(TrainedBaseline baseline, train());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (baseline.seconds == 0) baseline.seconds = seconds.count();
  LUCID_TRY(MakeDirectories(folder));
  LUCID_TRY(Save(baseline, record, weights, key));
  return baseline;
}

}  // namespace lucid
