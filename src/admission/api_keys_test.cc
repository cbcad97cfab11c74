#include "admission/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>

#include "certificate/test_support.h"

namespace lucid {
namespace {

using namespace std::chrono_literals;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using testing::HasSubstr;

const sys_seconds kNow = sys_days(2026y / 11 / 16);

ApiKeys::Created MakeKey(ApiKeys keys, ApiKeyEntry entry) {
  auto created = ApiKeys::Create(std::move(keys), std::move(entry));
  EXPECT_TRUE(created.ok()) << created.error().message;
  return std::move(created).value();
}

ApiKeyEntry Entry(const std::string& id) {
  ApiKeyEntry entry;
  entry.id = id;
  return entry;
}

const std::string kSalt = "salt = \"" + std::string(32, '0') + "\"\n";
const std::string kHash = "hash = \"" + std::string(64, '0') + "\"\n";
const std::string kWhole = "version = 1\n[[key]]\nid = \"a\"\n" + kSalt + kHash;  // 5 lines

TEST(ApiKeys, AKeyOpensItsOwnEntryOnly) {
  auto [one, alice] = MakeKey({}, Entry("alice"));
  auto [keys, bob] = MakeKey(one, Entry("bob"));
  ASSERT_EQ(keys.Find(alice, kNow).verdict, KeyVerdict::kAccepted);
  EXPECT_EQ(keys.Find(alice, kNow).entry->id, "alice");
  EXPECT_EQ(keys.Find(bob, kNow).entry->id, "bob");
  const std::string crossed = "lucid.alice." + bob.substr(bob.rfind('.') + 1);
  EXPECT_EQ(keys.Find(crossed, kNow).verdict, KeyVerdict::kUnknown);
  EXPECT_EQ(keys.Find(crossed, kNow).entry, nullptr);
}

TEST(ApiKeys, EveryOtherKeyIsUnknown) {
  const auto [keys, key] = MakeKey({}, Entry("alice"));
  std::vector<std::string> others = {"",
                                     ".",
                                     "..",
                                     "lucid",
                                     "lucid.",
                                     "lucid..",
                                     "lucid.alice",
                                     "lucid.alice.",
                                     key + "0",
                                     key.substr(1),
                                     " " + key,
                                     key.substr(0, key.size() - 1),
                                     std::string(100'000, '.')};
  for (std::size_t i = 0; i < key.size(); ++i) {
    for (const int change : {1, 0x20, 0x80}) {
      others.push_back(key);
      others.back()[i] = static_cast<char>(others.back()[i] ^ change);
    }
  }
  for (const std::string& other : others) {
    EXPECT_EQ(keys.Find(other, kNow).verdict, KeyVerdict::kUnknown) << other;
  }
}

// An id that is not there has the salt and hash of nobody: nothing may match it.
TEST(ApiKeys, NobodyHasNoKey) {
  const ApiKeys none;
  for (const std::string& secret : {std::string(64, '0'), std::string(64, 'f'), std::string()}) {
    EXPECT_EQ(none.Find("lucid.x." + secret, kNow).verdict, KeyVerdict::kUnknown);
    EXPECT_EQ(none.Find("lucid.." + secret, kNow).verdict, KeyVerdict::kUnknown);
  }
}

TEST(ApiKeys, ExpiresAtItsSecondAndStaysRevoked) {
  ApiKeyEntry entry = Entry("alice");
  entry.expires = kNow + 60s;
  const auto [keys, key] = MakeKey({}, entry);
  EXPECT_EQ(keys.Find(key, kNow + 59s).verdict, KeyVerdict::kAccepted);
  EXPECT_EQ(keys.Find(key, kNow + 60s).verdict, KeyVerdict::kExpired);
  EXPECT_EQ(keys.Find(key, kNow + 60s).entry, nullptr);
  const auto revoked = ApiKeys::Revoke(keys, "alice");
  ASSERT_TRUE(revoked.ok());
  EXPECT_EQ(revoked->Find(key, kNow).verdict, KeyVerdict::kRevoked);
  const std::string wrong = key.substr(0, key.size() - 1) + (key.back() == '0' ? "1" : "0");
  EXPECT_EQ(revoked->Find(wrong, kNow).verdict, KeyVerdict::kUnknown) << "only its holder is told";
  EXPECT_FALSE(ApiKeys::Revoke(keys, "bob").ok());
}

TEST(ApiKeys, KeysDifferAndAreNotInTheFile) {
  std::set<std::string> secrets;
  for (int i = 0; i < 50; ++i) {
    const auto [keys, key] = MakeKey({}, Entry("a"));
    const std::string secret = key.substr(key.rfind('.') + 1);
    EXPECT_EQ(secret.size(), 64);
    EXPECT_TRUE(secrets.insert(secret).second);
    EXPECT_THAT(keys.Encode(), testing::Not(HasSubstr(secret)));
  }
}

TEST(ApiKeys, TheFileGivesBackWhatWasWritten) {
  ApiKeyEntry entry = Entry("alice-2_B");
  entry.expires = kNow + 12'345s;
  entry.rate = 0.1;
  entry.burst = 1e6;
  entry.budget = 12.5;
  auto [one, alice] = MakeKey({}, entry);
  auto [two, bob] = MakeKey(one, Entry("bob"));
  const ApiKeys keys = ApiKeys::Revoke(two, "bob").value();
  const TemporaryFolder folder;
  const std::string path = folder / "keys.toml";
  ASSERT_TRUE(keys.Save(path).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
  const auto read = ApiKeys::Load(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->Encode(), keys.Encode());
  const auto found = read->Find(alice, kNow);
  ASSERT_EQ(found.verdict, KeyVerdict::kAccepted);
  EXPECT_EQ(found.entry->expires, entry.expires);
  EXPECT_EQ(found.entry->rate, 0.1);
  EXPECT_EQ(found.entry->burst, 1e6);
  EXPECT_EQ(found.entry->budget, 12.5);
  EXPECT_EQ(read->Find(bob, kNow).verdict, KeyVerdict::kRevoked);
}

TEST(ApiKeys, ARewrittenFileKeepsItsReaders) {
  const TemporaryFolder folder;
  const std::string path = folder / "keys.toml";
  ASSERT_TRUE(ApiKeys().Save(path).ok());
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  ASSERT_TRUE(MakeKey({}, Entry("a")).keys.Save(path).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640);
}

TEST(ApiKeys, AFileThatOthersMayWriteIsRefused) {
  const TemporaryFolder folder;
  const std::string path = folder / "keys.toml";
  ASSERT_TRUE(ApiKeys().Save(path).ok());
  for (const mode_t mode : {0620, 0602, 0666}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto keys = ApiKeys::Load(path);
    ASSERT_FALSE(keys.ok());
    EXPECT_THAT(keys.error().message, HasSubstr("chmod 600"));
  }
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_TRUE(ApiKeys::Load(path).ok());
  EXPECT_FALSE(ApiKeys::Load(folder / "none").ok());
}

TEST(ApiKeys, DatesAndZonedTimesAreUnderstood) {
  const std::pair<const char*, sys_seconds> cases[] = {
      {"2027-01-02", sys_days(2027y / 1 / 2)},
      {"2027-01-02T03:04:05Z", sys_days(2027y / 1 / 2) + 3h + 4min + 5s},
      {"2027-01-02T03:04:05+02:00", sys_days(2027y / 1 / 2) + 1h + 4min + 5s}};
  for (const auto& [text, time] : cases) {
    const auto keys = ApiKeys::Parse(kWhole + "expires = " + text + "\n", "f");
    ASSERT_TRUE(keys.ok()) << keys.error().message;
    EXPECT_EQ(keys->entries()[0].expires, time) << text;
  }
}

TEST(ApiKeys, WhatIsWrongIsNamedWithItsLine) {
  ASSERT_TRUE(ApiKeys::Parse(kWhole, "f").ok());
  ASSERT_TRUE(ApiKeys::Parse("version = 1\n", "f").ok());
  const std::pair<std::string, std::string> cases[] = {
      {"", "'version' must be 1"},
      {"version = 2\n", "'version' must be 1"},
      {"version = \"1\"\n", "'version' must be 1"},
      {"version = 1\nkeys = 3\n", "f:2: 'keys' is unknown"},
      {"version = 1\nkey = 3\n", "f:2: 'key' must be [[key]]"},
      {"version = 1\n[key]\n", "f:2: 'key' must be [[key]]"},
      {"version = 1\nkey = [1]\n", "f:2: 'key' must be [[key]]"},
      {"version = 1\n[[key]\n", "f:2:"},
      {"version = 1\n[[key]]\n" + kSalt + kHash, "f:2: 'id' is missing"},
      {"version = 1\n[[key]]\nid = 3\n" + kSalt + kHash, "f:3: 'id' must be a text"},
      {"version = 1\n[[key]]\nid = \"a b\"\n" + kSalt + kHash, "f:2: id 'a b'"},
      {"version = 1\n[[key]]\nid = \"\"\n" + kSalt + kHash, "f:2: id ''"},
      {"version = 1\n[[key]]\nid = \"a\"\n" + kSalt, "f:2: 'hash' is missing"},
      {"version = 1\n[[key]]\nid = \"a\"\nsalt = \"00\"\n" + kHash, "f:4: 'salt' must be 32"},
      {kWhole + "hash = \"00\"\n", "f:6:"},
      {kWhole + "expires = 2027-01-01T00:00:00\n", "f:6: 'expires' must be"},
      {kWhole + "expires = \"2027-01-01\"\n", "f:6: 'expires' must be"},
      {kWhole + "expires = 1999-01-01\n", "f:2: expires"},
      {kWhole + "expires = 2027-02-30\n", "f:6:"},
      {kWhole + "revoked = 1\n", "f:6: 'revoked' must be true"},
      {kWhole + "rate = \"fast\"\n", "f:6: 'rate' must be a number"},
      {kWhole + "rate = 0\n", "f:2: rate 0"},
      {kWhole + "rate = nan\n", "f:6: 'rate' must be a number"},
      {kWhole + "rate = -1.5\n", "f:2: rate -1.5"},
      {kWhole + "burst = 5\n", "f:2: burst: needs a rate"},
      {kWhole + "rate = 1\nburst = 0.5\n", "f:2: burst 0.5"},
      {kWhole + "budget = -1\n", "f:2: budget -1"},
      {kWhole + "budget = inf\n", "f:6: 'budget' must be a number"},
      {kWhole + "colour = \"red\"\n", "f:6: 'colour' is not a field"},
      {kWhole + "[[key]]\nid = \"a\"\n" + kSalt + kHash, "f:6: key 'a' is there already"},
      {"version = 1\n# \xff\n", "not UTF-8"},
  };
  for (const auto& [text, message] : cases) {
    const auto keys = ApiKeys::Parse(text, "f");
    ASSERT_FALSE(keys.ok()) << text;
    EXPECT_THAT(keys.error().message, HasSubstr(message)) << text;
    EXPECT_THAT(keys.error().message, testing::Not(HasSubstr("\n"))) << text;
  }
}

TEST(Utc, ReadsAndWritesTheSame) {
  for (const char* text :
       {"2027-01-01T00:00:00Z", "2000-02-29T23:59:59Z", "9999-12-31T12:30:01Z"}) {
    ASSERT_TRUE(ParseUtc(text).ok()) << text;
    EXPECT_EQ(FormatUtc(*ParseUtc(text)), text);
  }
  EXPECT_EQ(FormatUtc(*ParseUtc("2027-01-01")), "2027-01-01T00:00:00Z");
  for (const char* text :
       {"", "2027", "2027-1-1", "2027-13-01", "2027-02-29", "2027-01-01 00:00:00",
        "2027-01-01T24:00:00Z", "2027-01-01T00:60:00Z", "2027-01-01T00:00:00",
        "2027-01-01T00:00:00Z ", "-027-01-01", "tomorrow"}) {
    EXPECT_FALSE(ParseUtc(text).ok()) << text;
  }
}

TEST(ApiKeys, RotationKeepsTheAccountAndBothSecretsForAWhile) {
  using namespace std::chrono_literals;
  const auto now = std::chrono::sys_seconds(1'800'000'000s);
  ApiKeyEntry entry;
  entry.id = "alice";
  entry.budget = 3;
  const auto first = ApiKeys::Create({}, entry).value();
  const auto second = ApiKeys::Rotate(first.keys, "alice", now + 60s).value();
  const auto parsed = ApiKeys::Parse(second.keys.Encode(), "keys").value();
  ASSERT_EQ(parsed.entries().size(), 1);
  for (const std::string& key : {first.key, second.key}) {
    const ApiKeys::Check check = parsed.Find(key, now);
    ASSERT_EQ(check.verdict, KeyVerdict::kAccepted);
    EXPECT_EQ(check.entry->id, "alice");
    EXPECT_EQ(check.entry->budget, 3);
  }
  EXPECT_EQ(parsed.Find(first.key, now + 59s).verdict, KeyVerdict::kAccepted);
  EXPECT_EQ(parsed.Find(first.key, now + 60s).verdict, KeyVerdict::kExpired);
  EXPECT_EQ(parsed.Find(second.key, now + 60s).verdict, KeyVerdict::kAccepted);

  const auto third = ApiKeys::Rotate(parsed, "alice", now).value();
  EXPECT_EQ(third.keys.Find(first.key, now).verdict, KeyVerdict::kUnknown) << "two are enough";
  EXPECT_EQ(third.keys.Find(second.key, now).verdict, KeyVerdict::kExpired) << "no overlap";
  EXPECT_EQ(third.keys.Find(third.key, now).verdict, KeyVerdict::kAccepted);
  const auto revoked = ApiKeys::Revoke(second.keys, "alice").value();
  EXPECT_EQ(revoked.Find(first.key, now).verdict, KeyVerdict::kRevoked) << "both of them";
  EXPECT_EQ(revoked.Find(second.key, now).verdict, KeyVerdict::kRevoked);
  EXPECT_FALSE(ApiKeys::Rotate(revoked, "alice", now).ok());
  EXPECT_FALSE(ApiKeys::Rotate(parsed, "bob", now).ok());
}

TEST(ApiKeys, AnOldSecretIsWholeOrNotThere) {
  ApiKeyEntry entry;
  entry.id = "alice";
  const auto first = ApiKeys::Create({}, entry).value();
  const std::string whole =
      ApiKeys::Rotate(first.keys, "alice", ParseUtc("2030-01-01").value()).value().keys.Encode();
  ASSERT_TRUE(ApiKeys::Parse(whole, "keys").ok());
  for (const char* field : {"old_salt", "old_hash", "old_until"}) {
    const std::size_t at = whole.find(field);
    ASSERT_NE(at, std::string::npos);
    std::string without = whole;
    without.erase(at, whole.find('\n', at) - at);
    const auto parsed = ApiKeys::Parse(without, "keys");
    ASSERT_FALSE(parsed.ok()) << field;
    EXPECT_NE(parsed.error().message.find(field), std::string::npos) << parsed.error().message;
  }
  // A secret of zeros is no hash of anything: without an old one nothing else opens.
  EXPECT_EQ(first.keys.Find("lucid.alice." + std::string(64, '0'), {}).verdict,
            KeyVerdict::kUnknown);
}

}  // namespace
}  // namespace lucid
