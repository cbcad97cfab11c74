// What every subcommand shares: the common options, how errors become exit codes, how results and
// progress are shown. One file per subcommand; each has one Add...Command function.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/base/team.h"
#include "lucid/data/domain.h"

namespace lucid {
struct Manifest;
struct TrainSummary;
}  // namespace lucid

namespace lucid::app {

enum ExitCode : int {
  kDone = 0,
  kAnswerIsNo = 1,    // a check failed, a bound was not met
  kBadInput = 2,      // bad usage, bad input, or the system refused
  kStoppedEarly = 3,  // stopped with a valid partial result
  kInternalError = 4,
};

// The common options and the state of one invocation.
struct Session {
  int threads = 0;  // 0: all cores
  std::uint64_t seed = 0;
  bool quiet = false;
  bool json = false;
  std::string log_level = "info";
  std::vector<std::string> arguments;  // the command line, for manifests
  std::stop_token stop;                // Ctrl-C and SIGTERM ask for it
  std::shared_ptr<Team> team;          // the processes that mpirun started; null: this one only
  int processes_here = 1;              // of the team, on this machine

  // Renders progress on stderr: a bar on a terminal, otherwise a line every few seconds. Nothing is
  // shown with --quiet, or of work that ends within two seconds.
  ProgressCallback Progress() const;
  bool Speaks() const { return team == nullptr || team->leads(); }
  // One line on stderr unless --quiet.
  void Say(const std::string& line) const;
  bool LogsAtLeast(std::string_view level) const;
};

// A subcommand's work: writes its result to stdout and returns an exit code.
using Run = std::function<Result<ExitCode>()>;

// Whether a command shares its work among the processes that mpirun started. One that does not is
// refused there, because every process would do the same thing.
enum class Processes { kOne, kSeveral };

// Adds `lucid NAME` (or a nested one) with the common options; `example` is shown by --help and
// must run as it stands. The body runs after parsing.
CLI::App* AddCommand(CLI::App& parent, Session& session, const std::string& name,
                     const std::string& description, const std::string& example, Run run,
                     Processes processes = Processes::kOne);

// The same for an app that is there: for a program that is one command by itself.
void MakeCommand(CLI::App& command, Session& session, const std::string& example, Run run,
                 Processes processes = Processes::kOne);

// One line on stderr, whatever the text holds. A stderr that cannot be written to is no reason to
// stop: this never fails.
void Complain(std::string_view line);

// One line on stderr and the exit code that belongs to the kind of error.
ExitCode ReportError(const Error& error, std::string_view program = "lucid");

// The library's messages call an option `the option expected_rows`. This says it as somebody types
// it, `--expected-rows`, if the command has such an option.
std::string WithFlags(const std::string& message, const CLI::App& command);

// Whether stdout is a terminal that may show colours (NO_COLOR is not set).
bool ColoursStdout();

// stdout, checked: a full disk behind a redirection is an error, not silence.
Status PrintJson(const nlohmann::ordered_json& document);
Status Print(const std::string& text);

// A run that is there, or a shard of it. `done`: what was done with its networks ("trained").
Status PrintSummary(const Session& session, const TrainSummary& summary, std::string_view done);

// Prints one line if the run's members are not what training without the unit gives.
void SayAdjacency(const Session& session, const Manifest& manifest);

// "8h", "40m", "90s", "500ms" or plain seconds, as seconds.
Result<double> ParseDuration(const std::string& text);

// A file that the user named, or the one of this name in the run's folder.
std::string GivenOrInRun(const std::string& given, const std::string& run, const char* name);

// Adds --promise and --domain, which `lucid predict` and `lucid serve` share.
void AddPromiseOptions(CLI::App& command, std::string& promise, std::optional<DomainKind>& domain);
// Adds --domain, which takes the name of a DomainKind.
CLI::Option* AddDomain(CLI::App& command, const std::string& description,
                       const std::function<void(DomainKind)>& set);

// Adds an option that takes a duration, in seconds afterwards.
CLI::Option* AddDuration(CLI::App& command, const std::string& name, double& seconds,
                         const std::string& description);

void AddDataCommand(CLI::App& root, Session& session);
void AddFitCommand(CLI::App& root, Session& session);
void AddTrainCommand(CLI::App& root, Session& session);
void AddImportCommand(CLI::App& root, Session& session);
void AddBoundCommand(CLI::App& root, Session& session);
void AddAblationCommand(CLI::App& root, Session& session);
void AddPredictCommand(CLI::App& root, Session& session);
void AddKeysCommand(CLI::App& root, Session& session);
void AddLedgerCommand(CLI::App& root, Session& session);
void AddServeCommand(CLI::App& root, Session& session);
void AddEvaluateCommand(CLI::App& root, Session& session);
void AddAuditCommand(CLI::App& root, Session& session);
void AddReportCommand(CLI::App& root, Session& session);
void AddStatusCommand(CLI::App& root, Session& session);
void AddDemoCommand(CLI::App& root, Session& session);
void AddCompletionCommand(CLI::App& root, Session& session);

}  // namespace lucid::app
