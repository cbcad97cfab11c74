// lucid ledger: makes, shows and merges the ledgers that servers charge.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "command.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/guard/guard.h"
#include "lucid/guard/ledger.h"
#include "lucid/promise/promise.h"

namespace lucid::app {
namespace {

using Json = nlohmann::ordered_json;

struct LedgerArguments {
  std::string run, ledger, from, key_file, mark;
  bool new_key = false;
};

std::string Hex(const LedgerName& name) {
  std::string text;
  for (const std::uint8_t byte : name) text += fmt::format("{:02x}", byte);
  return text;
}

Result<Digest> PopulationOfRun(const std::string& run) {
  LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(run));
  return PopulationOf(opened.manifest);
}

Result<LedgerOptions> OptionsOf(const LedgerArguments& arguments, const GuardKey& key,
                                const std::string& key_file) {
  LUCID_ASSIGN(const Digest population, PopulationOfRun(arguments.run));
  return LedgerOptions{.location = arguments.ledger,
                       .population = population,
                       .guard_key = key.Name(),
                       .overall_budget = {},
                       .mark = arguments.mark.empty() ? key_file + ".ledger" : arguments.mark};
}

Result<ExitCode> RunInit(const Session& session, const LedgerArguments& arguments) {
  const std::string key_file = GivenOrInRun(arguments.key_file, arguments.run, kGuardKeyFile);
  const bool makes_key = !std::filesystem::exists(key_file);
  LUCID_TRY(PopulationOfRun(arguments.run));  // before a key is made
  LUCID_ASSIGN(const GuardKey key, GuardKey::LoadOrCreate(key_file));
  LUCID_ASSIGN(const LedgerOptions options, OptionsOf(arguments, key, key_file));
  const Status created = Ledger::Create(options);
  if (!created.ok()) {
    if (makes_key) std::filesystem::remove(key_file);
    return created.error();
  }
  LUCID_ASSIGN(const LedgerView view, Ledger::Look(options.location, options.population));
  LUCID_TRY(session.json
                ? PrintJson({{"ledger", Hex(view.id)},
                             {"guard_key", Hex(key.Name())},
                             {"population", options.population.Hex()},
                             {"key_file", key_file},
                             {"made_key", makes_key}})
                : Print(fmt::format("ledger {} of population {}, guard key {}{}\n", Hex(view.id),
                                    options.population.Hex().substr(0, 16), Hex(key.Name()),
                                    makes_key ? ", which was made, too" : "")));
  session.Say(fmt::format("every server that charges it needs the key in {}", key_file));
  return kDone;
}

Result<ExitCode> RunAllow(const Session& session, const LedgerArguments& arguments) {
  const std::string key_file = GivenOrInRun(arguments.key_file, arguments.run, kGuardKeyFile);
  if (arguments.new_key && std::filesystem::exists(key_file)) {
    return InvalidInput(fmt::format("--new-key: '{}' is there: move it away first", key_file));
  }
  LUCID_TRY(PopulationOfRun(arguments.run));  // before a key is made
  LUCID_ASSIGN(const GuardKey key,
               arguments.new_key ? GuardKey::LoadOrCreate(key_file) : GuardKey::Load(key_file));
  LUCID_ASSIGN(const LedgerOptions options, OptionsOf(arguments, key, key_file));
  LUCID_TRY(Ledger::AllowKey(options));
  LUCID_TRY(session.json ? PrintJson({{"guard_key", Hex(key.Name())}, {"allowed", true}})
                         : Print(fmt::format("allowed: guard key {}\n", Hex(key.Name()))));
  session.Say("answers under this key are new to the ledger: all of them will be charged");
  return kDone;
}

Json ToJson(const LedgerView& view) {
  Json keys = Json::array(), servers = Json::array(), accounts = Json::array();
  for (const LedgerName& key : view.guard_keys) keys.push_back(Hex(key));
  for (const auto& [name, commits] : view.servers) {
    servers.push_back({{"name", Hex(name)}, {"commits", commits}});
  }
  for (const auto& account : view.accounts) {
    accounts.push_back(
        {{"id", account.name}, {"spent", account.spent.epsilon()}, {"answers", account.answers}});
  }
  return {{"ledger", Hex(view.id)},
          {"merged_into", view.merged_into ? Json(Hex(*view.merged_into)) : Json(nullptr)},
          {"guard_keys", keys},
          {"servers", servers},
          {"spent", view.spent.epsilon()},
          {"answers", view.answers},
          {"accounts", accounts}};
}

std::string ToText(const LedgerView& view) {
  std::string text = fmt::format("ledger      {}\n", Hex(view.id));
  if (view.merged_into) text += fmt::format("merged into {}\n", Hex(*view.merged_into));
  for (const LedgerName& key : view.guard_keys) text += fmt::format("guard key   {}\n", Hex(key));
  for (const auto& [name, commits] : view.servers) {
    text += fmt::format("server      {}  {} commits\n", Hex(name), commits);
  }
  text += fmt::format("{:<20}  {:>14}  {:>12}\n", "account", "spent", "answers");
  text += fmt::format("{:<20}  {:>14.6g}  {:>12}\n", "(all)", view.spent.epsilon(), view.answers);
  for (const auto& account : view.accounts) {
    text += fmt::format("{:<20}  {:>14.6g}  {:>12}\n", account.name, account.spent.epsilon(),
                        account.answers);
  }
  return text;
}

Result<ExitCode> RunShow(const Session& session, const LedgerArguments& arguments) {
  LUCID_ASSIGN(const Digest population, PopulationOfRun(arguments.run));
  LUCID_ASSIGN(const LedgerView view, Ledger::Look(arguments.ledger, population));
  LUCID_TRY(session.json ? PrintJson(ToJson(view)) : Print(ToText(view)));
  return kDone;
}

Result<ExitCode> RunMerge(const Session& session, const LedgerArguments& arguments) {
  LUCID_ASSIGN(const Digest population, PopulationOfRun(arguments.run));
  LUCID_TRY(Ledger::Merge(arguments.from, arguments.ledger, population));
  LUCID_ASSIGN(const LedgerView view, Ledger::Look(arguments.ledger, population));
  LUCID_TRY(session.json ? PrintJson(ToJson(view)) : Print(ToText(view)));
  session.Say("the ledger that was merged is closed: no server charges it any more");
  return kDone;
}

void AddRunAndLedger(CLI::App& command, LedgerArguments& arguments) {
  command.add_option("run", arguments.run, "Folder of a run: it says whose budget this is")
      ->required();
  command
      .add_option("--ledger", arguments.ledger,
                  "SQLite file, or postgresql://USER@HOST/DATABASE (the password in ~/.pgpass)")
      ->required();
}

void AddKeyFile(CLI::App& command, LedgerArguments& arguments) {
  command.add_option("--key-file", arguments.key_file,
                     "The guard's secret, as of lucid serve (default: RUN/guard.key)");
}

constexpr const char* kRunExample =
    "lucid data synth2d --rows 40 --out points && lucid train --data points --arch 2x10 --out run "
    "&& ";

}  // namespace

void AddLedgerCommand(CLI::App& root, Session& session) {
  CLI::App* ledger =
      root.add_subcommand("ledger", "Makes, shows and merges the ledgers that servers charge");
  ledger->require_subcommand(1);
  ledger->footer(std::string("Start with:  ") + kRunExample +
                 "lucid ledger init run --ledger ledger.db");
  auto arguments = std::make_shared<LedgerArguments>();
  CLI::App* init = AddCommand(
      *ledger, session, "init", "Makes an empty ledger, and the guard's key if there is none",
      kRunExample + std::string("lucid ledger init run --ledger ledger.db --key-file guard.key"),
      [&session, arguments] { return RunInit(session, *arguments); });
  AddRunAndLedger(*init, *arguments);
  AddKeyFile(*init, *arguments);
  init->add_option("--ledger-mark", arguments->mark,
                   "What this machine's server remembers of its ledger (default: the key file's "
                   "name and .ledger)");
  CLI::App* show = AddCommand(
      *ledger, session, "show", "Shows what was spent, by which accounts and servers",
      kRunExample + std::string("lucid ledger init run --ledger ledger.db && lucid ledger show run "
                                "--ledger ledger.db"),
      [&session, arguments] { return RunShow(session, *arguments); });
  AddRunAndLedger(*show, *arguments);
  CLI::App* merge = AddCommand(
      *ledger, session, "merge",
      "Adds one ledger's charges to another's, those in both once, and closes it",
      kRunExample + std::string("lucid ledger init run --ledger old.db && lucid ledger init run "
                                "--ledger ledger.db && lucid ledger merge run --from old.db "
                                "--ledger ledger.db"),
      [&session, arguments] { return RunMerge(session, *arguments); });
  AddRunAndLedger(*merge, *arguments);
  merge->add_option("--from", arguments->from, "The ledger that is closed")->required();
  CLI::App* allow = AddCommand(
      *ledger, session, "allow", "Lets servers with another guard key charge a ledger",
      kRunExample +
          std::string("lucid ledger init run --ledger ledger.db && lucid ledger allow run "
                      "--ledger ledger.db --key-file new.key --new-key"),
      [&session, arguments] { return RunAllow(session, *arguments); });
  AddRunAndLedger(*allow, *arguments);
  AddKeyFile(*allow, *arguments);
  allow->add_flag("--new-key", arguments->new_key, "Make that key");
}

}  // namespace lucid::app
