// lucid fit: from one plain CSV to a run that can be served.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "command.h"
#include "lucid/fit/fit.h"

namespace lucid::app {
namespace {

struct FitArguments {
  std::string promise = "labels", missing, out;
  FitOptions options;
  const CLI::App* command = nullptr;  // says what was given
};

std::string Percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.2f} %", 100 * share) : "-";
}

std::string ToText(const FitSummary& fit, bool kept, const std::string& wanted) {
  std::string text;
  if (!fit.choices.empty()) {
    text += fmt::format("{:<8}  {:<38}  {:>7}  {:>21}  {:>9}\n", "guard", "promise", "epsilon",
                        "accuracy on test rows", "noised");
    for (const FitChoice& choice : fit.choices) {
      const bool none = choice.method == Method::kNone;
      text += fmt::format("{:<8}  {:<38}  {:>7}  {:>21}  {:>9}\n", NameOf(choice.method),
                          choice.promise, none ? "-" : fmt::format("{}", choice.epsilon),
                          Percent(choice.accuracy), none ? "-" : Percent(choice.noised));
    }
    const double p = fit.choices.front().accuracy;
    const auto rows = static_cast<double>(std::max<std::int64_t>(fit.schema.test_rows, 1));
    text += fmt::format(
        "measured on {} test rows: +- {:.1f} points (one standard error); the most common class "
        "has "
        "{}\n",
        fit.schema.test_rows, 100 * std::sqrt(p * (1 - p) / rows), Percent(fit.majority_share));
  }
  if (!fit.finished) text += "bounds: valid, could be tighter\n";
  text += fmt::format("bounds: {}\n", NameOf(fit.standing));
  for (const std::string& line : fit.promise.Lines()) text += line + "\n";
  if (!kept) text += fmt::format("the promise that was asked for, {}, is not kept\n", wanted);
  return text +
         fmt::format("report: {}\nlabels: {}\nserve:  {}\n", fit.page, fit.predict, fit.serve);
}

Result<ExitCode> RunFit(const Session& session, const FitArguments& arguments) {
  FitOptions options = arguments.options;
  LUCID_ASSIGN(options.promise, WantedPromiseNamed(arguments.promise));
  if (!arguments.missing.empty()) {
    LUCID_ASSIGN(options.missing, MissingCellsNamed(arguments.missing));
  }
  if (arguments.command->count("--seed") > 0) options.seed = session.seed;
  options.threads = session.threads;
  options.command = session.arguments;
  const FitListener listener{session.Progress(),
                             [&session](const std::string& line) { session.Say(line); }};
  LUCID_ASSIGN(const FitSummary fit, Fit(options, arguments.out, listener, session.stop));
  const bool kept = fit.promise.Require(options.promise).ok();
  LUCID_TRY(session.json ? Print(FitJson(fit, options.promise))
                         : Print(ToText(fit, kept, arguments.promise)));
  return kept ? kDone : kAnswerIsNo;
}

}  // namespace

void AddFitCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<FitArguments>();
  FitOptions& options = arguments->options;
  CLI::App* command = AddCommand(root, session, "fit",
                                 "From one plain CSV to a run that can be served, in one command",
                                 "lucid data synth2d --rows 300 --out points && lucid fit "
                                 "points/train.csv --label label --out "
                                 "run",
                                 [&session, arguments] { return RunFit(session, *arguments); });
  arguments->command = command;
  command->get_option("--seed")
      ->description("Seed of weights, batches and split (default: from the system's entropy)")
      ->default_str("");
  command->add_option("FILE", options.csv, "CSV file [.gz] with a header; ',', ';' or tabs")
      ->required();
  command->add_option("--label", options.label, "Column of the classes")->required();
  command->add_option("--unit", options.unit, "Column that says whose row it is");
  command->add_option("--ignore", options.ignore, "Columns to leave out, with commas between them")
      ->delimiter(',');
  command
      ->add_option("--promise", arguments->promise,
                   "labels (training without noise), full or both (private training; see "
                   "docs/fit.md)")
      ->check(CLI::IsMember({"labels", "full", "both"}))
      ->capture_default_str();
  command
      ->add_option("--out", arguments->out, "Folder of the run; the same command goes on with it")
      ->required();
  command
      ->add_option(
          "--missing", arguments->missing,
          "What missing cells become: refuse (an error), fill (middle of the range, "
          "'other') or drop (the row is left out); default: refuse, and fill for --promise "
          "full or both")
      ->check(CLI::IsMember({"refuse", "fill", "drop"}));
  command->add_option(
      "--declared", options.declared,
      "schema.csv whose columns are taken as they are; full and both use only them");
  command->add_option("--test", options.test_share, "Share of the units that test")
      ->capture_default_str();
  command->add_option("--arch", options.architecture,
                      "As of lucid train (default: 2x20, from 2,000 rows on 2x50)");
  command
      ->add_option("--expected-rows", options.expected_rows,
                   "How many rows training is meant for (default: the rows to one digit)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--rows-per-unit", options.rows_per_unit,
                   "Keep at most so many rows of each unit (default: 8)")
      ->check(CLI::PositiveNumber);
  command->add_option("--train-epsilon", options.train_epsilon, "full, both: epsilon of training")
      ->capture_default_str();
  command->add_option("--train-delta", options.train_delta,
                      "full, both: delta of training (default: 1e-6, or 1 / (10 expected rows))");
  AddDuration(*command, "--time-limit", options.time_limit,
              "Time for the bounds; then they hold, but could be tighter (default: 10m)");
}

}  // namespace lucid::app
