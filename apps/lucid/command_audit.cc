#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/files.h"
#include "command.h"
#include "lucid/audit/audit.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid::app {
namespace {

constexpr std::int64_t kUsualPairs = 24;  // of services or networks that games make anew

struct AuditArguments {
  std::string run, out, mechanism = "paper", url, api_key_file, ledger;
  std::string reference;
  std::vector<std::string> attacks = {"all"}, accesses, games;
  bool http = false;
  double latency_floor = 0;
  std::int64_t connections = 1;
  AuditOptions audit;
};

// A folder for keys, ledgers and runs of services that live as long as the audit.
class ScratchFolder {
 public:
  static Result<std::unique_ptr<ScratchFolder>> Make() {
    std::error_code error;
    std::string path =
        (std::filesystem::temp_directory_path(error) / "lucid-audit-XXXXXX").string();
    if (error || ::mkdtemp(path.data()) == nullptr) {
      return IoError(fmt::format("cannot make a temporary folder: {}",
                                 error ? error.message() : std::strerror(errno)));
    }
    return std::unique_ptr<ScratchFolder>(new ScratchFolder(std::move(path)));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The key comes from a file, because everybody on a machine sees the arguments of a program.
Result<std::string> ReadApiKey(const std::string& path) {
  LUCID_ASSIGN(std::string key, ReadTextFile(path, 4096));
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  if (key.empty()) return InvalidInput(fmt::format("'{}' holds no API key", path));
  return key;
}

Result<AuditOptions> OptionsOf(const Session& session, const AuditArguments& arguments) {
  AuditOptions options = arguments.audit;
  if (arguments.attacks != std::vector<std::string>{"all"}) {
    for (const std::string& name : arguments.attacks) {
      LUCID_ASSIGN(const AuditAttack attack, AttackNamed(name));
      if (!std::ranges::count(options.attacks, attack)) options.attacks.push_back(attack);
    }
  }
  for (const std::string& name : arguments.games) {
    LUCID_ASSIGN(const World world, WorldNamed(name));
    if (!std::ranges::count(options.games, world)) options.games.push_back(world);
    if (world == World::kDeployed && options.deployed == 0) options.deployed = kUsualPairs;
    if (world == World::kRetrained && options.retrained == 0) options.retrained = kUsualPairs;
  }
  for (const std::string& name : arguments.accesses) {
    LUCID_ASSIGN(const Method access, MethodNamed(name));
    if (!std::ranges::count(options.accesses, access)) options.accesses.push_back(access);
  }
  LUCID_ASSIGN(options.mechanism, MechanismNamed(arguments.mechanism));
  options.seed = session.seed;
  options.threads = session.threads;
  options.team = session.team.get();
  if (!arguments.url.empty()) {
    options.url = UrlAuditOptions{arguments.url, ""};
    if (!arguments.api_key_file.empty()) {
      LUCID_ASSIGN(options.url->api_key, ReadApiKey(arguments.api_key_file));
    }
  } else if (!arguments.api_key_file.empty()) {
    return InvalidInput("--api-key-file: it goes with --url");
  }
  if (arguments.latency_floor > 0 && !arguments.http) {
    return InvalidInput("--latency-floor: it goes with --http");
  }
  if (arguments.connections != 1 && !arguments.http) {
    return InvalidInput("--connections: it goes with --http");
  }
  if (!arguments.ledger.empty() && !arguments.http) {
    return InvalidInput("--ledger: it goes with --http");
  }
  return options;
}

// The part of a process that is not rank 0.
Result<ExitCode> HelpAuditCommand(const Session& session, const AuditArguments& arguments) {
  LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(arguments.run));
  LUCID_ASSIGN(const Dataset dataset, LoadRunData(opened.manifest));
  LUCID_ASSIGN(const auto scratch, ScratchFolder::Make());
  LUCID_TRY(HelpAudit(arguments.run, dataset.train, dataset.test, scratch->path(), *session.team,
                      session.threads, session.stop));
  return kDone;
}

Result<ExitCode> RunAuditCommand(const Session& session, const AuditArguments& arguments) {
  if (!session.Speaks()) return HelpAuditCommand(session, arguments);
  LUCID_ASSIGN(AuditOptions options, OptionsOf(session, arguments));
  std::unique_ptr<ScratchFolder> scratch;
  if (arguments.http) {
    options.http =
        HttpAuditOptions{arguments.latency_floor, arguments.connections, arguments.ledger};
  }
  if (arguments.http || options.deployed > 0) {
    LUCID_ASSIGN(scratch, ScratchFolder::Make());
    options.scratch = scratch->path();
  }
  LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(arguments.run));
  SayAdjacency(session, opened.manifest);
  LUCID_ASSIGN(const Dataset dataset, LoadRunData(opened.manifest));
  if (!arguments.reference.empty()) {
    LUCID_ASSIGN(options.reference, LoadTable(arguments.reference, dataset.schema, {.clip = true},
                                              /*label_required=*/false));
  }
  LUCID_ASSIGN(Audit audit, RunAudit(arguments.run, dataset.train, dataset.test, options,
                                     session.Progress(), session.stop));
  audit.command = session.arguments;
  for (const std::string& line : audit.left_out) session.Say("left out: " + line);
  for (const std::string& line : audit.notes) session.Say(line);
  const std::string path = GivenOrInRun(arguments.out, arguments.run, kAuditFile);
  LUCID_TRY(WriteFileAtomically(path, AuditJson(audit)));
  LUCID_TRY(session.json
                ? Print(AuditJson(audit))
                : Print(AuditText(audit, ColoursStdout()) + fmt::format("audit: {}\n", path)));
  return audit.Holds() ? kDone : kAnswerIsNo;
}

}  // namespace

void AddAuditCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<AuditArguments>();
  CLI::App* command = AddCommand(
      root, session, "audit", "Attacks guarded and unguarded access: does it hold what it claims?",
      "lucid data synth2d --rows 40 --out points && lucid train --data points --arch 2x10 --out "
      "run && lucid bound run && lucid audit run",
      [&session, arguments] { return RunAuditCommand(session, *arguments); }, Processes::kSeveral);
  command->add_option("run", arguments->run, "Folder of the run")->required();
  command
      ->add_option("--attacks", arguments->attacks,
                   "all, or some of gap,noise,boundary,distinguisher,averaging,timing,white-box,"
                   "region")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--games", arguments->games,
                   "Some of leave-one-out,re-certified,train-test,retrained,deployed: which worlds "
                   "are compared (default: the first three)")
      ->delimiter(',');
  command
      ->add_option("--access", arguments->accesses,
                   "Some of none,scalar,spatial,exact,naive-noise,naive-idp,dpsgd,alibi (default: "
                   "all that the run has files for, but naive-idp, which takes minutes)")
      ->delimiter(',');
  command->add_option("--epsilon", arguments->audit.epsilons, "Privacy per query")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--mechanism", arguments->mechanism, "paper or krr (spends all of epsilon)")
      ->check(CLI::IsMember({"paper", "krr"}))
      ->capture_default_str();
  command->add_option("--certificate", arguments->audit.certificate,
                      "The guards' certificate (default: RUN/certificate.json)");
  command->add_option("--targets", arguments->audit.targets, "Rows to attack, at most")
      ->capture_default_str();
  command
      ->add_option("--duplicates", arguments->audit.duplicates,
                   "averaging: near-duplicates that are asked for one guess")
      ->capture_default_str();
  command
      ->add_option("--retrain", arguments->audit.retrained,
                   "dpsgd, alibi: train so many pairs of networks with a row and without it")
      ->capture_default_str();
  command
      ->add_option(
          "--deployed", arguments->audit.deployed,
          "deployed: make so many pairs of services anew, with a unit and without it (default: "
          "24 if the game is named)")
      ->capture_default_str();
  command->add_option("--reference", arguments->reference,
                      "The reference rows of the run's declared bounds, if it has some");
  command->add_flag("--http", arguments->http,
                    "Attack none and the guards over HTTP too: starts lucid serve on loopback");
  AddDuration(*command, "--latency-floor", arguments->latency_floor,
              "With --http: time the servers with this floor, too, e.g. 2ms");
  command->add_option("--connections", arguments->connections,
                      "With --http: connections that ask at once while one of them is timed");
  command->add_option("--ledger", arguments->ledger,
                      "With --http: make and charge a ledger here (postgresql://...), not in a "
                      "file");
  command->add_option(
      "--url", arguments->url,
      "Attack this server (http://HOST:PORT) with the run's rows, and nothing else");
  command->add_option("--api-key-file", arguments->api_key_file, "With --url: file with its key");
  command->add_option("--out", arguments->out, "The result (default: RUN/audit.json)");
}

}  // namespace lucid::app
