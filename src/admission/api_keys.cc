#include "admission/api_keys.h"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "guard/sodium.h"
#include "lucid/guard/ledger.h"

namespace lucid {
namespace {

using std::chrono::sys_days;
using std::chrono::sys_seconds;

constexpr std::string_view kPrefix = "lucid.";
constexpr std::size_t kLongestId = 64;
constexpr std::size_t kSecretDigits = 64;
constexpr std::uint64_t kLargestFile = std::uint64_t{64} << 20;
constexpr double kLargestRate = 1e9;
constexpr std::string_view kHeading =
    "# Keys of a LUCID server. Made by `lucid keys`, which rewrites it; the keys themselves are "
    "kept nowhere.\n";

bool IsId(std::string_view id) {
  return !id.empty() && id.size() <= kLongestId && std::ranges::all_of(id, [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '-');
  });
}

std::string ToHex(std::span<const std::uint8_t> bytes) {
  std::string hex;
  for (const std::uint8_t byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

// Ensures: exactly 2 * out.size() lower-case hex digits.
bool FromHex(std::string_view hex, std::span<std::uint8_t> out) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (hex.size() != 2 * out.size()) return false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return true;
}

std::array<std::uint8_t, 32> HashOf(std::span<const std::uint8_t, 16> salt,
                                    std::string_view secret) {
  std::array<std::uint8_t, 32> hash{};
  crypto_generichash(hash.data(), hash.size(),
                     reinterpret_cast<const unsigned char*>(secret.data()), secret.size(),
                     salt.data(), salt.size());
  return hash;
}

Status CheckRange(std::string_view name, const std::optional<double>& value, double low,
                  double high) {
  if (!value.has_value() || (*value >= low && *value <= high)) return Ok();
  return InvalidInput(fmt::format("{} {}: must be between {} and {}", name, *value, low, high));
}

// A key of 100 years ago is a mistake, one of year 10000 cannot be written.
Status CheckExpiry(std::string_view name, const std::optional<sys_seconds>& expires) {
  using namespace std::chrono_literals;
  if (!expires.has_value()) return Ok();
  if (*expires >= sys_days(2000y / 1 / 1) && *expires < sys_days(10000y / 1 / 1)) return Ok();
  return InvalidInput(fmt::format("{}: the year must be between 2000 and 9999", name));
}

Status CheckEntry(const ApiKeyEntry& entry) {
  if (!IsId(entry.id)) {
    return InvalidInput(
        fmt::format("id {}: must be 1 to {} of A-Z a-z 0-9 _ -", Quoted(entry.id), kLongestId));
  }
  LUCID_TRY(CheckExpiry("expires", entry.expires));
  if (entry.old) LUCID_TRY(CheckExpiry("old_until", entry.old->until));
  LUCID_TRY(CheckRange("rate", entry.rate, 1e-6, kLargestRate));
  LUCID_TRY(CheckRange("burst", entry.burst, 1, kLargestRate));
  LUCID_TRY(CheckRange("budget", entry.budget, 0, EpsilonUnits::kLargest));
  if (entry.burst.has_value() && !entry.rate.has_value()) {
    return InvalidInput("burst: needs a rate beside it");
  }
  return Ok();
}

// Reads one [[key]]; the first thing that is wrong is remembered with its line.
class EntryReader {
 public:
  EntryReader(const toml::table& table, const std::string& source)
      : table_(table), source_(source) {}

  Result<ApiKeyEntry> Read() {
    ApiKeyEntry entry;
    entry.id = Text("id");
    if (!FromHex(Text("salt"), entry.salt)) Wrong("salt", "must be 32 hex digits");
    if (!FromHex(Text("hash"), entry.hash)) Wrong("hash", "must be 64 hex digits");
    if (const toml::node* node = table_.get("expires")) entry.expires = Time("expires", *node);
    if (table_.contains("old_salt") || table_.contains("old_hash") ||
        table_.contains("old_until")) {
      entry.old = Old();
    }
    if (const toml::node* node = table_.get("revoked")) {
      const auto revoked = node->value_exact<bool>();
      if (!revoked) Wrong("revoked", "must be true or false");
      entry.revoked = revoked.value_or(true);
    }
    entry.rate = Number("rate");
    entry.burst = Number("burst");
    entry.budget = Number("budget");
    CheckNames();
    if (!problem_.empty()) return InvalidInput(problem_);
    if (const Status checked = CheckEntry(entry); !checked.ok()) {
      return At(table_, checked.error().message);
    }
    return entry;
  }
  Error At(const toml::node& node, std::string_view what) const {
    return InvalidInput(fmt::format("{}:{}: {}", source_, node.source().begin.line, what));
  }

 private:
  void CheckNames() {
    static const std::set<std::string_view> kKnown = {"id",       "salt",     "hash",     "expires",
                                                      "revoked",  "rate",     "burst",    "budget",
                                                      "old_salt", "old_hash", "old_until"};
    for (const auto& [key, node] : table_) {
      if (!kKnown.contains(key.str())) Wrong(key.str(), "is not a field of a key");
    }
  }
  std::string Text(std::string_view name) {
    const auto text = table_[name].value_exact<std::string>();
    if (!text) Wrong(name, table_.contains(name) ? "must be a text" : "is missing");
    return text.value_or("");
  }
  std::optional<double> Number(std::string_view name) {
    const toml::node* node = table_.get(name);
    if (node == nullptr) return {};
    if (const auto whole = node->value_exact<std::int64_t>()) return static_cast<double>(*whole);
    const auto number = node->value_exact<double>();
    if (!number || !std::isfinite(*number)) Wrong(name, "must be a number");
    return number.value_or(0);
  }
  ApiKeyEntry::OldSecret Old() {
    ApiKeyEntry::OldSecret old;
    if (!FromHex(Text("old_salt"), old.salt)) Wrong("old_salt", "must be 32 hex digits");
    if (!FromHex(Text("old_hash"), old.hash)) Wrong("old_hash", "must be 64 hex digits");
    const toml::node* node = table_.get("old_until");
    if (node == nullptr) Wrong("old_until", "is missing");
    if (node != nullptr) old.until = Time("old_until", *node).value_or(sys_seconds());
    return old;
  }
  std::optional<sys_seconds> Time(std::string_view name, const toml::node& node) {
    using namespace std::chrono;
    const auto day_of = [](const toml::date& date) {
      return sys_days(year(date.year) / date.month / date.day);
    };
    if (const auto date = node.value_exact<toml::date>()) return day_of(*date);
    const auto time = node.value_exact<toml::date_time>();
    if (!time || !time->offset) {
      Wrong(name, "must be a date or a time with its zone, as 2027-01-01T00:00:00Z");
      return {};
    }
    return day_of(time->date) + hours(time->time.hour) + minutes(time->time.minute) +
           seconds(time->time.second) - minutes(time->offset->minutes);
  }
  void Wrong(std::string_view name, std::string_view what) {
    if (!problem_.empty()) return;
    const toml::node* node = table_.get(name);
    problem_ =
        At(node != nullptr ? *node : table_, fmt::format("{} {}", Quoted(name), what)).message;
  }

  const toml::table& table_;
  const std::string& source_;
  std::string problem_;
};

Result<toml::table> ParseToml(std::string_view text, const std::string& source) {
  if (!IsUtf8(text)) return InvalidInput(fmt::format("{}: not UTF-8", source));
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& e) {
    return InvalidInput(
        fmt::format("{}:{}: {}", source, e.source().begin.line, Escaped(e.description())));
  }
}

}  // namespace

Status ApiKeys::Add(ApiKeyEntry entry) {
  LUCID_TRY(CheckEntry(entry));
  if (!by_id_.emplace(entry.id, entries_.size()).second) {
    return InvalidInput(fmt::format("key '{}' is there already", entry.id));
  }
  entries_.push_back(std::move(entry));
  return Ok();
}

Result<ApiKeys> ApiKeys::Parse(std::string_view text, const std::string& source) {
  LUCID_TRY(PrepareSodium());
  LUCID_ASSIGN(const toml::table document, ParseToml(text, source));
  for (const auto& [name, node] : document) {
    if (name.str() == "version" || name.str() == "key") continue;
    return InvalidInput(fmt::format("{}:{}: {} is unknown (only version and [[key]])", source,
                                    node.source().begin.line, Quoted(name.str())));
  }
  const auto version = document["version"].value_exact<std::int64_t>();
  if (version != 1) {
    return InvalidInput(fmt::format("{}: 'version' must be 1, the one this program knows", source));
  }
  ApiKeys keys;
  const toml::node* list = document.get("key");
  if (list == nullptr) return keys;
  if (!list->is_array_of_tables()) {
    return InvalidInput(
        fmt::format("{}:{}: 'key' must be [[key]] tables", source, list->source().begin.line));
  }
  for (const toml::node& node : *list->as_array()) {
    EntryReader reader(*node.as_table(), source);
    LUCID_ASSIGN(ApiKeyEntry entry, reader.Read());
    if (const Status added = keys.Add(std::move(entry)); !added.ok()) {
      return reader.At(node, added.error().message);
    }
  }
  return keys;
}

Result<ApiKeys> ApiKeys::Load(const std::string& path) {
  LUCID_ASSIGN(const std::string text, ReadTextFile(path, kLargestFile));
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return IoError(fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  }
  if ((info.st_mode & 022) != 0) {
    return InvalidInput(fmt::format(
        "'{}' can be written by others than its owner, who could add keys: chmod 600 it", path));
  }
  return Parse(text, path);
}

ApiKeys::Check ApiKeys::Find(std::string_view key, sys_seconds now) const {
  static constexpr ApiKeyEntry kNobody;
  // "lucid." ID "." SECRET; whatever else it is, one hash is made of it.
  const std::size_t dot = key.rfind('.');
  const bool shaped = key.starts_with(kPrefix) && dot != std::string_view::npos &&
                      dot >= kPrefix.size() && key.size() - dot - 1 == kSecretDigits;
  const std::string_view id = shaped ? key.substr(kPrefix.size(), dot - kPrefix.size()) : "";
  const std::string_view secret =
      shaped ? key.substr(dot + 1) : key.substr(0, std::min(key.size(), kSecretDigits));
  const auto found = by_id_.find(id);
  const bool known = found != by_id_.end();
  const ApiKeyEntry& entry = known ? entries_[found->second] : kNobody;
  static constexpr ApiKeyEntry::OldSecret kNoOldSecret;
  const ApiKeyEntry::OldSecret& old = entry.old ? *entry.old : kNoOldSecret;
  const auto hash = HashOf(entry.salt, secret), old_hash = HashOf(old.salt, secret);
  const bool right = sodium_memcmp(hash.data(), entry.hash.data(), hash.size()) == 0;
  const bool was_right = sodium_memcmp(old_hash.data(), old.hash.data(), old_hash.size()) == 0;
  if (!known || (!right && !(entry.old && was_right))) return {};
  if (entry.revoked) return {.verdict = KeyVerdict::kRevoked};
  if (!right && now >= old.until) return {.verdict = KeyVerdict::kExpired};
  if (entry.expires.has_value() && now >= *entry.expires) return {.verdict = KeyVerdict::kExpired};
  return {.verdict = KeyVerdict::kAccepted, .entry = &entry};
}

namespace {

// Gives the entry a secret. Result: the key.
std::string MakeSecret(ApiKeyEntry& entry) {
  std::array<std::uint8_t, kSecretDigits / 2> random{};
  randombytes_buf(random.data(), random.size());
  randombytes_buf(entry.salt.data(), entry.salt.size());
  const std::string secret = ToHex(random);
  sodium_memzero(random.data(), random.size());
  entry.hash = HashOf(entry.salt, secret);
  return fmt::format("{}{}.{}", kPrefix, entry.id, secret);
}

}  // namespace

Result<ApiKeys::Created> ApiKeys::Create(ApiKeys keys, ApiKeyEntry entry) {
  LUCID_TRY(PrepareSodium());
  std::string key = MakeSecret(entry);
  LUCID_TRY(keys.Add(std::move(entry)));
  return Created{.keys = std::move(keys), .key = std::move(key)};
}

Result<ApiKeys::Created> ApiKeys::Rotate(ApiKeys keys, const std::string& id, sys_seconds until) {
  LUCID_TRY(PrepareSodium());
  const auto found = keys.by_id_.find(id);
  if (found == keys.by_id_.end()) {
    return InvalidInput(fmt::format("there is no key with the id {}", Quoted(id)));
  }
  ApiKeyEntry& entry = keys.entries_[found->second];
  if (entry.revoked) return InvalidInput(fmt::format("the key {} is revoked", Quoted(id)));
  entry.old = {.salt = entry.salt, .hash = entry.hash, .until = until};
  std::string key = MakeSecret(entry);
  LUCID_TRY(CheckEntry(entry));
  return Created{.keys = std::move(keys), .key = std::move(key)};
}

Result<ApiKeys> ApiKeys::Revoke(ApiKeys keys, const std::string& id) {
  const auto found = keys.by_id_.find(id);
  if (found == keys.by_id_.end()) {
    return InvalidInput(fmt::format("there is no key with the id {}", Quoted(id)));
  }
  keys.entries_[found->second].revoked = true;
  return keys;
}

std::string ApiKeys::Encode() const {
  std::string text = fmt::format("{}version = 1\n", kHeading);
  for (const ApiKeyEntry& entry : entries_) {
    text += fmt::format("\n[[key]]\nid = \"{}\"\nsalt = \"{}\"\nhash = \"{}\"\n", entry.id,
                        ToHex(entry.salt), ToHex(entry.hash));
    if (entry.expires) text += fmt::format("expires = {}\n", FormatUtc(*entry.expires));
    if (entry.revoked) text += "revoked = true\n";
    const auto number = [&text](std::string_view name, const std::optional<double>& value) {
      // 'e' without '.' is a float to TOML as well; a whole number stays one.
      if (value) text += fmt::format("{} = {}\n", name, *value);
    };
    number("rate", entry.rate);
    number("burst", entry.burst);
    number("budget", entry.budget);
    if (entry.old) {
      text +=
          fmt::format("old_salt = \"{}\"\nold_hash = \"{}\"\nold_until = {}\n",
                      ToHex(entry.old->salt), ToHex(entry.old->hash), FormatUtc(entry.old->until));
    }
  }
  return text;
}

Status ApiKeys::Save(const std::string& path) const {
  // A server that runs as another user reads the file through its group: who could read it still
  // can.
  struct stat before {};
  const bool was_there = ::stat(path.c_str(), &before) == 0;
  LUCID_TRY(WriteFileAtomically(path, Encode(), 0600));
  if (!was_there) return Ok();
  if (::chown(path.c_str(), before.st_uid, before.st_gid) == 0 &&
      ::chmod(path.c_str(), (before.st_mode & 0644) | 0600) == 0) {
    return Ok();
  }
  return IoError(
      fmt::format("cannot give '{}' its owner and mode back: {}", path, std::strerror(errno)));
}

Result<sys_seconds> ParseUtc(std::string_view text) {
  using namespace std::chrono;
  // Exactly these shapes: 'd' stands for a digit.
  const auto has_shape = [text](std::string_view shape) {
    return std::ranges::equal(text, shape, [](unsigned char c, char s) {
      return s == 'd' ? std::isdigit(c) != 0 : c == static_cast<unsigned char>(s);
    });
  };
  const bool with_time = has_shape("dddd-dd-ddTdd:dd:ddZ");
  const auto number = [text](std::size_t at, std::size_t digits) {
    int value = 0;
    for (const char c : text.substr(at, digits)) value = 10 * value + (c - '0');
    return value;
  };
  const auto wrong = [text] {
    return InvalidInput(fmt::format(
        "{}: must be a date or time in UTC, as 2027-01-01 or 2027-01-01T12:00:00Z", Quoted(text)));
  };
  if (!with_time && !has_shape("dddd-dd-dd")) return wrong();
  const year_month_day day(year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))),
                           std::chrono::day(static_cast<unsigned>(number(8, 2))));
  if (!day.ok()) return wrong();
  if (!with_time) return sys_seconds(sys_days(day));
  const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  if (hour > 23 || minute > 59 || second > 59) return wrong();
  return sys_days(day) + hours(hour) + minutes(minute) + seconds(second);
}

std::string FormatUtc(sys_seconds time) {
  using namespace std::chrono;
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

}  // namespace lucid
