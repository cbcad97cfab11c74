// lucid keys: makes, lists, rotates and revokes the API keys of a server.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "admission/api_keys.h"
#include "base/files.h"
#include "command.h"

namespace lucid::app {
namespace {

using Json = nlohmann::ordered_json;

struct KeysArguments {
  std::string file, id, expires;
  double overlap = 24 * 3600;  // seconds
  ApiKeyEntry entry;
};

std::chrono::sys_seconds Now() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

// Two commands at once must not lose one's change: whoever changes the file holds FILE.lock.
class Lock {
 public:
  static Result<Lock> Take(const std::string& path) {
    LUCID_ASSIGN(File file, File::CreateLocked(path + ".lock"));
    return Lock(std::move(file));
  }
  // While it is still held: CreateLocked notices that the name is gone.
  ~Lock() {
    if (file_.descriptor() >= 0) ::unlink(file_.path().c_str());
  }
  Lock(Lock&&) = default;
  Lock& operator=(Lock&&) = delete;

 private:
  explicit Lock(File file) : file_(std::move(file)) {}
  File file_;
};

Result<ExitCode> RunCreate(const Session& session, const KeysArguments& arguments) {
  ApiKeyEntry entry = arguments.entry;
  entry.id = arguments.id;
  if (!arguments.expires.empty()) {
    LUCID_ASSIGN(entry.expires, ParseUtc(arguments.expires));
    if (*entry.expires <= Now()) {
      return InvalidInput(fmt::format("--expires {}: is over already", arguments.expires));
    }
  }
  LUCID_ASSIGN(const Lock lock, Lock::Take(arguments.file));
  ApiKeys keys;
  if (std::filesystem::exists(arguments.file)) {
    LUCID_ASSIGN(keys, ApiKeys::Load(arguments.file));
  }
  LUCID_ASSIGN(const ApiKeys::Created created, ApiKeys::Create(std::move(keys), entry));
  LUCID_TRY(created.keys.Save(arguments.file));
  LUCID_TRY(session.json ? PrintJson({{"id", entry.id}, {"key", created.key}})
                         : Print(created.key + "\n"));
  session.Say("this key is shown once and kept nowhere: give it to its user");
  return kDone;
}

Result<ExitCode> RunRotate(const Session& session, const KeysArguments& arguments) {
  constexpr double kLongest = 366 * 24 * 3600.0;
  if (!(arguments.overlap >= 0 && arguments.overlap <= kLongest)) {
    return InvalidInput(fmt::format("--overlap {} s: must be from 0 to a year", arguments.overlap));
  }
  LUCID_ASSIGN(const Lock lock, Lock::Take(arguments.file));
  LUCID_ASSIGN(ApiKeys keys, ApiKeys::Load(arguments.file));
  const auto until = Now() + std::chrono::seconds(static_cast<std::int64_t>(arguments.overlap));
  LUCID_ASSIGN(const ApiKeys::Created rotated,
               ApiKeys::Rotate(std::move(keys), arguments.id, until));
  LUCID_TRY(rotated.keys.Save(arguments.file));
  LUCID_TRY(
      session.json
          ? PrintJson({{"id", arguments.id}, {"key", rotated.key}, {"old_until", FormatUtc(until)}})
          : Print(rotated.key + "\n"));
  session.Say(
      fmt::format("this key is shown once and kept nowhere; the one before is good until "
                  "{}; a running server takes note on SIGHUP",
                  FormatUtc(until)));
  return kDone;
}

Result<ExitCode> RunRevoke(const Session& session, const KeysArguments& arguments) {
  LUCID_ASSIGN(const Lock lock, Lock::Take(arguments.file));
  LUCID_ASSIGN(ApiKeys keys, ApiKeys::Load(arguments.file));
  LUCID_ASSIGN(keys, ApiKeys::Revoke(std::move(keys), arguments.id));
  LUCID_TRY(keys.Save(arguments.file));
  LUCID_TRY(session.json ? PrintJson({{"id", arguments.id}, {"revoked", true}})
                         : Print(fmt::format("revoked: {}\n", arguments.id)));
  session.Say("a running server takes note on SIGHUP");
  return kDone;
}

std::string_view StateOf(const ApiKeyEntry& entry) {
  if (entry.revoked) return "revoked";
  return entry.expires && *entry.expires <= Now() ? "expired" : "valid";
}

std::string ToText(const ApiKeys& keys) {
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : std::string("-");
  };
  std::string text = fmt::format("{:<20}  {:<8}  {:<20}  {:>8}  {:>8}  {:>8}\n", "id", "state",
                                 "expires", "rate", "burst", "budget");
  for (const ApiKeyEntry& entry : keys.entries()) {
    text += fmt::format("{:<20}  {:<8}  {:<20}  {:>8}  {:>8}  {:>8}\n", entry.id, StateOf(entry),
                        entry.expires ? FormatUtc(*entry.expires) : "never", number(entry.rate),
                        number(entry.burst), number(entry.budget));
  }
  return text;
}

Json ToJson(const ApiKeys& keys) {
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  Json list = Json::array();
  for (const ApiKeyEntry& entry : keys.entries()) {
    list.push_back({{"id", entry.id},
                    {"state", StateOf(entry)},
                    {"expires", entry.expires ? Json(FormatUtc(*entry.expires)) : Json(nullptr)},
                    {"rate", number(entry.rate)},
                    {"burst", number(entry.burst)},
                    {"budget", number(entry.budget)}});
  }
  return {{"keys", list}};
}

Result<ExitCode> RunList(const Session& session, const KeysArguments& arguments) {
  LUCID_ASSIGN(const ApiKeys keys, ApiKeys::Load(arguments.file));
  LUCID_TRY(session.json ? PrintJson(ToJson(keys)) : Print(ToText(keys)));
  return kDone;
}

void AddFile(CLI::App& command, KeysArguments& arguments) {
  command.add_option("--file", arguments.file, "The keys file (lucid serve --api-keys)")
      ->required();
}

void AddCreate(CLI::App& keys, Session& session) {
  auto arguments = std::make_shared<KeysArguments>();
  CLI::App* command = AddCommand(
      keys, session, "create", "Makes a key, adds its hash to the file and prints it once",
      "lucid keys create --file keys.toml --id alice --expires 2099-01-01 --budget 10 --rate 100",
      [&session, arguments] { return RunCreate(session, *arguments); });
  AddFile(*command, *arguments);
  command->add_option("--id", arguments->id, "Name of its user: A-Z a-z 0-9 _ -")->required();
  command->add_option("--expires", arguments->expires,
                      "UTC, as 2027-01-01 or 2027-01-01T12:00:00Z (default: never)");
  command->add_option("--budget", arguments->entry.budget,
                      "Epsilon in total, then noised answers are uniform (default: only the "
                      "server's overall budget)");
  command->add_option("--rate", arguments->entry.rate,
                      "Requests per second (default: the server's)");
  command->add_option("--burst", arguments->entry.burst,
                      "Requests at once after a pause (default: one second's worth)");
}

void AddOthers(CLI::App& keys, Session& session) {
  auto arguments = std::make_shared<KeysArguments>();
  CLI::App* list = AddCommand(
      keys, session, "list", "Shows the keys of a file (not the keys themselves: nobody can)",
      "lucid keys create --file keys.toml --id alice && lucid keys list --file keys.toml",
      [&session, arguments] { return RunList(session, *arguments); });
  AddFile(*list, *arguments);
  CLI::App* rotate = AddCommand(
      keys, session, "rotate", "Gives a key a new secret; the old one stays good for a while",
      "lucid keys create --file keys.toml --id carol && lucid keys rotate --file keys.toml --id "
      "carol --overlap 1h",
      [&session, arguments] { return RunRotate(session, *arguments); });
  AddFile(*rotate, *arguments);
  rotate->add_option("--id", arguments->id, "Whose key")->required();
  AddDuration(*rotate, "--overlap", arguments->overlap,
              "How long the old secret stays good, as 1h (default: 24h)");
  CLI::App* revoke = AddCommand(
      keys, session, "revoke", "Makes a key invalid for good",
      "lucid keys create --file keys.toml --id bob && lucid keys revoke --file keys.toml --id bob",
      [&session, arguments] { return RunRevoke(session, *arguments); });
  AddFile(*revoke, *arguments);
  revoke->add_option("--id", arguments->id, "Whose key")->required();
}

}  // namespace

void AddKeysCommand(CLI::App& root, Session& session) {
  CLI::App* keys =
      root.add_subcommand("keys", "Makes, lists, rotates and revokes the API keys of a server");
  keys->require_subcommand(1);
  keys->footer("Start with:  lucid keys create --file keys.toml --id alice");
  AddCreate(*keys, session);
  AddOthers(*keys, session);
}

}  // namespace lucid::app
