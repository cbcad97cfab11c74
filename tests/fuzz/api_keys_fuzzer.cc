// Any bytes as a keys file, and as a key. What is accepted has one text that gives it back, and
// opens to nobody who has not the secret; what is refused gets one printable line.
#include <cstdint>
#include <string>
#include <string_view>

#include "admission/api_keys.h"
#include "fuzz/require.h"

namespace {

using lucid::ApiKeys;

void CheckKeys(std::string_view text) {
  const auto keys = ApiKeys::Parse(text, "keys.toml");
  if (!keys.ok()) return RequireOneLine(keys.error().message);
  const std::string canonical = keys->Encode();
  const auto again = ApiKeys::Parse(canonical, "keys.toml");
  Require(again.ok() && again->Encode() == canonical);
  Require(again->entries().size() == keys->entries().size());
  for (const lucid::ApiKeyEntry& entry : keys->entries()) {
    Require(!entry.id.empty() && entry.id.size() <= 64);
    Require(!entry.rate || (*entry.rate > 0 && *entry.rate <= 1e9));
    Require(!entry.budget || *entry.budget >= 0);
    const std::string guess = "lucid." + entry.id + "." + std::string(64, '0');
    Require(keys->Find(guess, {}).verdict == lucid::KeyVerdict::kUnknown);
  }
}

// Against a file with one key: no bytes but the key itself may open it.
void CheckKey(std::string_view text) {
  static const auto kCreated = [] {
    lucid::ApiKeyEntry entry;
    entry.id = "a";
    return ApiKeys::Create({}, entry).value();
  }();
  const auto found = kCreated.keys.Find(text, {});
  Require((found.verdict == lucid::KeyVerdict::kAccepted) == (text == kCreated.key));
  Require(kCreated.keys.Find(kCreated.key, {}).entry != nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckKeys(text);
  CheckKey(text);
  return 0;
}
