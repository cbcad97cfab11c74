// Any bytes as a manifest.json, also with the digests put right, which no mutation would hit. What
// is accepted fits together and can be written and read back; what is refused gets one printable
// line.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ensemble/run_spec.h"
#include "fuzz/require.h"

namespace {

using Json = nlohmann::ordered_json;

void CheckManifest(std::string_view text) {
  const auto manifest = lucid::ParseManifest(text, "manifest.json");
  if (!manifest.ok()) return RequireOneLine(manifest.error().message);
  Require(manifest->units >= 2 && manifest->units <= manifest->rows);
  Require(manifest->members >= (manifest->private_run ? 0 : 1));
  Require(manifest->members <= manifest->units);
  Require(manifest->partial == (manifest->members < manifest->units));
  Require(manifest->architecture.inputs() == manifest->schema.features());
  Require(manifest->architecture.classes() == manifest->schema.classes());
  Require(manifest->architecture.parameters() > 0);
  if (manifest->members < 10'000) {
    std::int64_t before = -2;
    for (const std::int64_t row : lucid::BlankedNetworkRows(manifest->rows, manifest->members)) {
      Require(row > before && row < manifest->rows);
      before = row;
    }
  }
  const std::string encoded = lucid::EncodeManifest(*manifest);
  const auto again = lucid::ParseManifest(encoded, "again");
  Require(again.ok() && lucid::EncodeManifest(*again) == encoded);
  Require(again->run_key == manifest->run_key && again->schema == manifest->schema);
}

const std::string* TextAt(const Json& json, const char* path) {
  const Json::json_pointer pointer(path);
  if (!json.contains(pointer)) return nullptr;
  return json.at(pointer).get_ptr<const std::string*>();
}

// The manifest with the digests its own fields have, where there are such fields.
void CheckWithRightDigests(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("hashes") || !json["hashes"].is_object()) return;
  const std::string *schema_text = TextAt(json, "/data/schema"),
                    *architecture = TextAt(json, "/architecture"),
                    *training = TextAt(json, "/training"), *train = TextAt(json, "/hashes/train");
  if (schema_text == nullptr || architecture == nullptr || training == nullptr) return;
  const auto schema = lucid::Schema::Parse(*schema_text, "schema");
  const auto train_digest = lucid::Digest::FromHex(train == nullptr ? "" : *train);
  if (!schema.ok() || !train_digest.ok()) return;
  const lucid::Digest schema_digest = lucid::Sha256Of(schema->Canonical());
  json["hashes"]["schema"] = schema_digest.Hex();
  const std::string* format = TextAt(json, "/format");
  const auto whole = [&json](const char* path) {
    const Json::json_pointer pointer(path);
    const bool is_whole = json.contains(pointer) && json.at(pointer).is_number_integer();
    return is_whole ? json.at(pointer).get<std::int64_t>() : 0;
  };
  json["hashes"]["run_key"] = lucid::RunKey(format != nullptr && *format == "lucid-run-1" ? 1 : 2,
                                            {schema_digest, *train_digest, whole("/data/rows"),
                                             whole("/units"), *architecture, *training})
                                  .Hex();
  CheckManifest(json.dump());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckManifest(text);
  CheckWithRightDigests(text);
  return 0;
}
