// Who may ask: the keys file of a server, made by `lucid keys`.
//
// A key is "lucid.ID.SECRET", SECRET being 64 hex digits from the system's entropy. The file holds
// BLAKE2b-256(key = the entry's salt, message = SECRET). A fast hash is enough: nobody can search
// 2^256 secrets, and a slow one would be paid for by the server on every request. The id in the key
// finds the entry, so that a request costs one hash however many keys there are.
//
// The file is TOML:
//   version = 1
//   [[key]]
//   id = "alice"                      # 1..64 of A-Z a-z 0-9 _ -
//   salt = "…"                        # 32 hex digits
//   hash = "…"                        # 64 hex digits
//   expires = 2027-01-01T00:00:00Z    # optional: refused from then on
//   revoked = true                    # optional
//   rate = 100.0                      # optional: requests per second …
//   burst = 200.0                     # … and how many at once (default: one second's worth)
//   budget = 10.0                     # optional: epsilon in total (the ledger counts)
//   old_salt = "…"                    # optional, all three: the secret before the last rotation, …
//   old_hash = "…"
//   old_until = 2027-01-01T00:00:00Z  # … which is refused from then on
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/result.h"

namespace lucid {

struct ApiKeyEntry {
  std::string id;
  std::array<std::uint8_t, 16> salt{};
  std::array<std::uint8_t, 32> hash{};
  std::optional<std::chrono::sys_seconds> expires;
  bool revoked = false;
  std::optional<double> rate, burst;  // finite, > 0, at most 1e9; burst >= 1 and only with a rate
  std::optional<double> budget;       // 0 .. EpsilonUnits::kLargest
  struct OldSecret {
    std::array<std::uint8_t, 16> salt{};
    std::array<std::uint8_t, 32> hash{};
    std::chrono::sys_seconds until;
  };
  std::optional<OldSecret> old;  // before the last rotation
};

enum class KeyVerdict {
  kAccepted,
  kUnknown,  // no such key: also for a known id with another secret
  kExpired,  // only who holds the secret learns this …
  kRevoked,  // … or this
};

// Immutable, thread-safe; a reload makes a new one.
class ApiKeys {
 public:
  // Accepts only what is described above; errors name the source and the line.
  static Result<ApiKeys> Parse(std::string_view text, const std::string& source);
  // Errors: as Parse; a file that group or others may write; kIo.
  static Result<ApiKeys> Load(const std::string& path);

  struct Check {
    KeyVerdict verdict = KeyVerdict::kUnknown;
    const ApiKeyEntry* entry = nullptr;  // if kAccepted; lives as long as this ApiKeys
  };
  // Two hashes and two constant-time comparisons, also when there is no such id.
  Check Find(std::string_view key, std::chrono::sys_seconds now) const;

  const std::vector<ApiKeyEntry>& entries() const { return entries_; }  // in the file's order

  // For `lucid keys`. The key that goes with the new entry is given once and kept nowhere. Errors:
  // the id is there already, or a value is out of range.
  struct Created;
  static Result<Created> Create(ApiKeys keys, ApiKeyEntry entry);
  // A new secret for the same id, with everything that goes with it: its account in the ledger,
  // too. The secret until now is good until `until`, and the one before it no longer. Errors: no
  // such id; it is revoked.
  static Result<Created> Rotate(ApiKeys keys, const std::string& id,
                                std::chrono::sys_seconds until);
  static Result<ApiKeys> Revoke(ApiKeys keys, const std::string& id);  // error: no such id
  std::string Encode() const;                                          // Parse gives it back
  Status Save(const std::string& path) const;  // atomically; mode 0600, or what the file had

 private:
  Status Add(ApiKeyEntry entry);
  std::vector<ApiKeyEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> by_id_;
};

struct ApiKeys::Created {
  ApiKeys keys;
  std::string key;
};

// "2027-01-01" (its first second) or "2027-01-01T12:00:00Z", UTC.
Result<std::chrono::sys_seconds> ParseUtc(std::string_view text);
std::string FormatUtc(std::chrono::sys_seconds time);  // "2027-01-01T12:00:00Z"

}  // namespace lucid
