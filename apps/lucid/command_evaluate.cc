#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/files.h"
#include "command.h"
#include "lucid/certificate/receipt.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/evaluation/evaluation.h"
#include "lucid/promise/promise.h"

namespace lucid::app {
namespace {

struct EvaluateArguments {
  std::string run, test, out, csv, latex, mechanism = "paper", accountant = "tight",
                                          recipe = "default";
  std::vector<std::string> methods;
  bool clip_rows = false, seeded_noise = false;
  std::optional<std::int64_t> epochs, batch;
  std::optional<double> rate;
  EvaluationOptions evaluation;
};

struct RunData {
  Table test;
  std::string test_source;
  std::optional<Table> train;  // if it is needed and still there
};

Result<RunData> LoadRows(const EvaluateArguments& arguments, const Manifest& manifest,
                         bool needs_training) {
  RunData data;
  if (!arguments.test.empty()) {
    LUCID_ASSIGN(data.test, LoadTable(arguments.test, manifest.schema,
                                      {.clip = arguments.clip_rows, .any_columns = true}));
    data.test_source = arguments.test;
    if (!needs_training) return data;
  }
  Result<Dataset> dataset = LoadRunData(manifest);
  if (arguments.test.empty()) {
    if (!dataset.ok()) {
      return Error{dataset.error().kind,
                   fmt::format("the run's test rows: {} (--test FILE gives others)",
                               dataset.error().message)};
    }
    if (dataset->test.rows() == 0 || dataset->test_digest != manifest.test_digest) {
      return Mismatch(
          fmt::format("'{}' does not hold the run's test rows: --test FILE gives others",
                      manifest.data_directory));
    }
    data.test = std::move(dataset->test);
    data.test_source = manifest.data_directory;
  }
  if (needs_training && dataset.ok() && dataset->train_digest == manifest.train_digest) {
    data.train = std::move(dataset->train);
  }
  return data;
}

Result<EvaluationOptions> OptionsOf(const Session& session, const EvaluateArguments& arguments,
                                    const Manifest& manifest) {
  EvaluationOptions options = arguments.evaluation;
  for (const std::string& name : arguments.methods) {
    LUCID_ASSIGN(const Method method, MethodNamed(name));
    if (!std::ranges::count(options.methods, method)) options.methods.push_back(method);
  }
  LUCID_ASSIGN(options.mechanism, MechanismNamed(arguments.mechanism));
  LUCID_ASSIGN(options.conversion, ConversionNamed(arguments.accountant));
  if (arguments.epochs || arguments.batch || arguments.rate) {
    // Options that are not given are those of the run or, for a run from elsewhere, those of `lucid
    // train`.
    const auto of_run = TrainOptions::FromCanonical(manifest.training);
    TrainOptions train = of_run.ok() ? *of_run : TrainOptions{.seed = session.seed};
    train.epochs = arguments.epochs.value_or(train.epochs);
    train.batch = arguments.batch.value_or(train.batch);
    if (arguments.batch) train.batches = 0;  // as many as the data has
    train.rate = arguments.rate.value_or(train.rate);
    options.train = train;
  }
  options.recipe = arguments.recipe == "default";
  if (arguments.seeded_noise) options.noise_seed = session.seed;
  options.threads = session.threads;
  options.team = session.team.get();
  return options;
}

// The part of a process that is not rank 0.
Result<ExitCode> HelpEvaluateCommand(const Session& session, const EvaluateArguments& arguments) {
  LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(arguments.run));
  const Result<Dataset> dataset = LoadRunData(opened.manifest);
  const bool there = dataset.ok() && dataset->train_digest == opened.manifest.train_digest;
  LUCID_TRY(HelpEvaluate(arguments.run, there ? &dataset->train : nullptr, *session.team,
                         session.threads, session.stop));
  return kDone;
}

Result<ExitCode> RunEvaluate(const Session& session, const EvaluateArguments& arguments) {
  if (!session.Speaks()) return HelpEvaluateCommand(session, arguments);
  LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(arguments.run));
  SayAdjacency(session, opened.manifest);
  LUCID_ASSIGN(const EvaluationOptions options, OptionsOf(session, arguments, opened.manifest));
  if (options.team != nullptr && options.team->size() > 1 && !options.SharesWork()) {
    session.Say("these methods have nothing to share: rank 0 does all of it");
  }
  const bool needs_training = options.methods.empty() ||
                              std::ranges::count(options.methods, Method::kDpSgd) > 0 ||
                              std::ranges::count(options.methods, Method::kAlibi) > 0;
  LUCID_ASSIGN(const RunData data, LoadRows(arguments, opened.manifest, needs_training));
  LUCID_ASSIGN(Evaluation evaluation,
               Evaluate(arguments.run, data.test, data.train ? &*data.train : nullptr, options,
                        session.Progress(), session.stop));
  const std::string certificate =
      GivenOrInRun(options.certificate, arguments.run, kCertificateFile);
  if (std::filesystem::exists(certificate)) {
    LUCID_ASSIGN(const Standing standing, StandingOf(certificate));
    session.Say(fmt::format("the guards' bounds are {}", NameOf(standing)));
  }
  LUCID_ASSIGN(const Promise promise, PromiseOfRun(arguments.run, options.certificate));
  for (const std::string& line : promise.Lines()) session.Say(line);
  evaluation.command = session.arguments;
  evaluation.test = data.test_source;
  for (const auto& [method, why] : evaluation.left_out) {
    session.Say(fmt::format("left out {}: {}", NameOf(method), why));
  }
  const std::string path = GivenOrInRun(arguments.out, arguments.run, kEvaluationFile);
  LUCID_TRY(WriteFileAtomically(path, EvaluationJson(evaluation)));
  if (!arguments.csv.empty()) {
    LUCID_TRY(WriteFileAtomically(arguments.csv, EvaluationCsv(evaluation)));
  }
  if (!arguments.latex.empty()) {
    LUCID_TRY(WriteFileAtomically(arguments.latex, EvaluationLatex(evaluation)));
  }
  LUCID_TRY(session.json
                ? Print(EvaluationJson(evaluation))
                : Print(EvaluationText(evaluation) + fmt::format("evaluation: {}\n", path)));
  return kDone;
}

void AddBaselineOptions(CLI::App& command, EvaluateArguments& arguments) {
  EvaluationOptions& evaluation = arguments.evaluation;
  const auto group = [](CLI::Option* option) { option->group("dpsgd and alibi"); };
  group(command
            .add_option("--baseline-epsilon", evaluation.smallest_epsilon,
                        "Epsilon in the place of 0, which training cannot do")
            ->capture_default_str());
  group(command
            .add_option("--repeats", evaluation.repeats,
                        "Networks per epsilon; the accuracy is their mean")
            ->capture_default_str());
  group(command.add_option("--epochs", arguments.epochs, "Epochs (default: the run's)"));
  group(command.add_option("--batch", arguments.batch, "Rows per batch (default: the run's)"));
  group(command.add_option("--lr", arguments.rate, "Learning rate (default: the run's)"));
  group(command
            .add_option("--recipe", arguments.recipe,
                        "dpsgd: default (the public recipe of private training), or paper (the "
                        "run's own batch, epochs and rate, and --clip-norm)")
            ->check(CLI::IsMember({"default", "paper"}))
            ->capture_default_str());
  group(command.add_option("--delta", evaluation.delta, "dpsgd: delta of (epsilon, delta)-DP")
            ->capture_default_str());
  group(command
            .add_option("--clip-norm", evaluation.clip,
                        "dpsgd --recipe paper: the largest norm of an example's gradient")
            ->capture_default_str());
  group(command
            .add_option("--accountant", arguments.accountant,
                        "dpsgd: tight, or classic (orders up to 512, the paper's)")
            ->check(CLI::IsMember({"tight", "classic"}))
            ->capture_default_str());
  group(command.add_flag("--seeded-noise", arguments.seeded_noise,
                         "Noise of training from --seed: repeatable, and nothing is private"));
}

}  // namespace

void AddEvaluateCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* command = AddCommand(
      root, session, "evaluate", "Accuracy and access time of every guard and baseline on a run",
      "lucid data synth2d --rows 40 --out points && lucid train --data points --arch 2x10 --out "
      "run && lucid bound run && lucid evaluate run",
      [&session, arguments] { return RunEvaluate(session, *arguments); }, Processes::kSeveral);
  command->add_option("run", arguments->run, "Folder of the run")->required();
  command->add_option("--test", arguments->test,
                      "Rows to measure accuracy with (default: those of the run's data folder)");
  command
      ->add_option("--epsilon", arguments->evaluation.epsilons,
                   "Privacy per query; 0 makes noised answers uniform")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--methods", arguments->methods,
                   "Some of none,scalar,spatial,exact,naive-noise,naive-idp,dpsgd,alibi (default: "
                   "all that the run has files for)")
      ->delimiter(',');
  command->add_option("--mechanism", arguments->mechanism, "paper or krr (spends all of epsilon)")
      ->check(CLI::IsMember({"paper", "krr"}))
      ->capture_default_str();
  command->add_option("--certificate", arguments->evaluation.certificate,
                      "The guards' certificate (default: RUN/certificate.json)");
  command->add_flag("--clip", arguments->clip_rows,
                    "With --test: clip values outside [0,1] instead of refusing them");
  command->add_option("--out", arguments->out, "The result (default: RUN/evaluation.json)");
  command->add_option("--csv", arguments->csv, "Also write the rows as CSV");
  command->add_option("--latex", arguments->latex, "Also write a LaTeX table");
  AddBaselineOptions(*command, *arguments);
}

}  // namespace lucid::app
