// lucid demo: all that LUCID does, end to end on the built-in data.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "base/clock.h"
#include "base/files.h"
#include "command.h"
#include "lucid/audit/audit.h"
#include "lucid/certify/certify.h"
#include "lucid/data/dataset.h"
#include "lucid/data/synthetic.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/evaluation/evaluation.h"
#include "lucid/promise/promise.h"
#include "lucid/report/leak_map.h"
#include "lucid/report/leak_picture.h"
#include "lucid/report/report.h"

namespace lucid::app {
namespace {

constexpr std::int64_t kUsualRows = 700;
constexpr std::int64_t kReducedWorlds = 1;  // of the game `deployed`: trained and certified anew
constexpr std::int64_t kPrivatePairs = 24;  // the same of the private run, whose N are trained

struct DemoArguments {
  std::string out;
  std::int64_t rows = kUsualRows;
  LeakMapOptions leak;
};

// The data set in DIR/data: written now, or there already. What is there counts only if it is what
// these options give, which is seen by giving it once more and comparing digests.
Result<Dataset> PrepareData(const DemoArguments& arguments, std::uint64_t seed) {
  const std::string folder = PathIn(arguments.out, "data");
  Synthetic2dOptions options;
  options.rows = arguments.rows;
  options.seed = seed;
  LUCID_TRY(MakeDirectories(arguments.out));
  if (!std::filesystem::exists(folder)) {
    LUCID_TRY(WriteSynthetic2d(folder, options));
    return LoadDataset(folder);
  }
  const std::string again = PathIn(arguments.out, "data.expected");
  options.overwrite = true;  // a stopped demo may have left one
  LUCID_TRY(WriteSynthetic2d(again, options));
  const Result<Dataset> expected = LoadDataset(again);
  std::error_code ignored;
  std::filesystem::remove_all(again, ignored);
  LUCID_TRY(expected);
  LUCID_ASSIGN(Dataset found, LoadDataset(folder));
  if (found.schema_digest == expected->schema_digest &&
      found.train_digest == expected->train_digest && found.test_digest == expected->test_digest) {
    return found;
  }
  return InvalidInput(
      fmt::format("'{}' holds {} training rows that are not those of --rows {} --seed {}: use "
                  "another --out, or "
                  "remove '{}'",
                  folder, found.train.rows(), arguments.rows, seed, arguments.out));
}

// Enough steps for the S-shaped boundary whatever the number of rows, so that one network costs
// about the same for 700 rows as for 7,000.
TrainOptions DemoTraining(std::int64_t rows, std::uint64_t seed) {
  constexpr std::int64_t kSteps = 1050, kMostEpochs = 300;
  TrainOptions train;
  train.batch = 100;
  train.epochs = std::clamp<std::int64_t>(kSteps * train.batch / rows, 1, kMostEpochs);
  train.rate = 0.3;
  train.momentum = 0.9;
  train.schedule = TrainOptions::Schedule::kCosine;
  train.seed = seed;
  return train;
}

// The run that keeps `full`, too: the public recipe for so many rows, at E = 1.
EnsembleOptions PrivateTraining(const Session& session, std::int64_t rows) {
  EnsembleOptions options;
  options.train.method = TrainOptions::Method::kPrivate;
  options.train.expected_rows = rows;
  options.train.seed = session.seed;
  options.train = RecipeFor(options.train, rows);
  options.declare = kDeclaredShare;
  options.resume = true;
  options.threads = session.threads;
  options.command = session.arguments;
  return options;
}

constexpr double kBoundLimit = 60;    // seconds; with the usual rows a fraction of one is enough
constexpr double kDecisionLimit = 5;  // seconds; an open decision is shown as one
constexpr double kSpatialLimit = 10;  // seconds for the usual rows; more members take longer

struct DemoResult {
  TrainSummary training, private_training;
  Report report;
  double private_seconds = 0;  // all of the private run
  double bound_seconds = 0, evaluation_seconds = 0, audit_seconds = 0, report_seconds = 0;
  std::string page, picture, certificate_path;
};

// This does what `lucid bound RUN` does.
Status Bound(const Session& session, const std::string& run) {
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run));
  CertifyOptions options;
  BoundOptions& bound = options.bound();
  bound.seed = session.seed;
  bound.threads = session.threads;
  bound.time_limit = kBoundLimit;
  bound.command = session.arguments;
  options.spatial_options.time_limit =
      kSpatialLimit * std::max(1.0, static_cast<double>(ensemble.members()) / kUsualRows);
  options.spatial_options.least_spared = 0;  // the demo shows every guard
  LUCID_TRY(Certify(ensemble, run, options, session.Progress(), session.stop));
  return Ok();
}

// This does what `lucid bound RUN` does for a private run: it decides about the declared bound.
Status Decide(const Session& session, const std::string& run) {
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run));
  CertifyOptions options;
  options.bound().seed = session.seed;
  options.bound().threads = session.threads;
  options.bound().time_limit = kDecisionLimit;
  options.bound().command = session.arguments;
  options.declared = OwnDecision(ensemble.manifest());
  options.index = options.spatial = false;
  LUCID_TRY(Certify(ensemble, run, options, session.Progress(), session.stop));
  return Ok();
}

// This does what `lucid evaluate RUN` does.
Status Measure(const Session& session, const std::string& run, const Dataset& dataset,
               EvaluationOptions options = {}) {
  options.threads = session.threads;
  LUCID_ASSIGN(Evaluation evaluation, Evaluate(run, dataset.test, &dataset.train, options,
                                               session.Progress(), session.stop));
  evaluation.command = session.arguments;
  evaluation.test = dataset.directory;
  return WriteFileAtomically(PathIn(run, kEvaluationFile), EvaluationJson(evaluation));
}

// This does what `lucid audit RUN` does.
Status Attack(const Session& session, const std::string& run, const Dataset& dataset,
              AuditOptions options) {
  options.seed = session.seed;
  options.threads = session.threads;
  options.scratch = PathIn(run, "audit.worlds");
  LUCID_TRY(MakeDirectories(options.scratch));
  const Result<Audit> made =
      RunAudit(run, dataset.train, dataset.test, options, session.Progress(), session.stop);
  std::error_code ignored;
  std::filesystem::remove_all(options.scratch, ignored);
  LUCID_ASSIGN(Audit audit, made);
  audit.command = session.arguments;
  return WriteFileAtomically(PathIn(run, kAuditFile), AuditJson(audit));
}

// This does what `lucid report RUN` does, and writes the picture by itself, too.
Status Show(const Session& session, const DemoArguments& arguments, const std::string& run,
            DemoResult& result) {
  ReportOptions options;
  options.leak = arguments.leak;
  options.beside = PathIn(arguments.out, "private");
  options.threads = session.threads;
  LUCID_ASSIGN(result.report, GatherReport(run, options, session.Progress(), session.stop));
  const Report& report = result.report;
  const Report& beside = *report.beside;
  if (!report.leak || !report.certificate || !report.evaluation || !report.audit || !beside.leak ||
      !beside.certificate || !beside.evaluation || !beside.audit) {
    return InternalError("the demo's report lacks a part that was made a moment ago");
  }
  result.page = PathIn(arguments.out, kReportFile);
  result.picture = PathIn(arguments.out, "leak_map.svg");
  LUCID_TRY(WriteFileAtomically(result.picture, LeakSvg(*report.leak, *report.dataset)));
  return WriteFileAtomically(result.page, ReportPage(report));
}

// The private run beside the first one: trained, decided, measured, attacked.
Status RunPrivate(const Session& session, const Dataset& dataset, const Architecture& architecture,
                  const std::string& run, DemoResult& result) {
  LUCID_ASSIGN(result.private_training,
               TrainEnsemble(dataset, architecture, PrivateTraining(session, dataset.train.rows()),
                             run, session.Progress(), session.stop));
  LUCID_TRY(Decide(session, run));
  EvaluationOptions evaluation;
  evaluation.methods = {Method::kNone, Method::kScalar};
  evaluation.epsilons = {0};
  LUCID_TRY(Measure(session, run, dataset, evaluation));
  AuditOptions audit;
  audit.attacks = {AuditAttack::kGap, AuditAttack::kRegion, AuditAttack::kWhiteBox};
  audit.games = {World::kDeployed};
  audit.accesses = {Method::kScalar};
  audit.epsilons = {0};
  audit.targets = kPrivatePairs;
  audit.deployed = kPrivatePairs;
  return Attack(session, run, dataset, audit);
}

Result<DemoResult> RunSteps(const Session& session, const DemoArguments& arguments) {
  LUCID_ASSIGN(const Dataset dataset, PrepareData(arguments, session.seed));
  LUCID_ASSIGN(const Architecture architecture,
               Architecture::FromName("2x50", dataset.features(), dataset.classes()));
  EnsembleOptions options;
  options.train = DemoTraining(arguments.rows, session.seed);
  options.resume = true;
  options.threads = session.threads;
  options.command = session.arguments;
  const std::string run = PathIn(arguments.out, "run");
  DemoResult result;
  LUCID_ASSIGN(result.training, TrainEnsemble(dataset, architecture, options, run,
                                              session.Progress(), session.stop));
  result.certificate_path = PathIn(run, kCertificateFile);
  const auto timed = [](double& seconds, const auto& step) -> Status {
    const auto start = Clock::now();
    const Status status = step();
    seconds = SecondsSince(start);
    return status;
  };
  LUCID_TRY(timed(result.bound_seconds, [&] { return Bound(session, run); }));
  LUCID_TRY(timed(result.evaluation_seconds, [&] { return Measure(session, run, dataset); }));
  LUCID_TRY(timed(result.audit_seconds, [&] {
    AuditOptions audit;
    audit.deployed = kReducedWorlds;
    return Attack(session, run, dataset, audit);
  }));
  LUCID_TRY(timed(result.private_seconds, [&] {
    return RunPrivate(session, dataset, architecture, PathIn(arguments.out, "private"), result);
  }));
  LUCID_TRY(timed(result.report_seconds, [&] { return Show(session, arguments, run, result); }));
  return result;
}

std::string Share(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.2f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string LeakText(const LeakMap& map, const Certificate& certificate) {
  std::string text = fmt::format("{:<8}  {:>9}  {:>10}  {:>20}  {:>16}  {:>13}  {:>13}\n", "label",
                                 "leaking", "test rows", "beta, proved in", "rows that matter",
                                 "strongest row", "changes alone");
  for (std::size_t c = 0; c < map.classes.size(); ++c) {
    const ClassLeak& leak = map.classes[c];
    const ClassBound& bound = certificate.classes[c];
    text += fmt::format("{:<8}  {:>9}  {:>10}  {:>20}  {:>16}  {:>13}  {:>13}\n", leak.name,
                        Share(leak.leaking, leak.points), Share(leak.test_leaking, leak.test_rows),
                        fmt::format("[{:.5g}, {:.5g}]", bound.beta_lower, bound.beta_upper),
                        leak.rows_that_matter,
                        leak.strongest_row >= 0 ? fmt::format("{}", leak.strongest_row) : "-",
                        Share(leak.strongest_points, leak.points));
  }
  return text;
}

// The most that attacks prove of epsilon: of unguarded access, and whether claims hold.
std::string AuditSummary(const Audit& audit) {
  double unguarded = 0;
  for (const AuditRow& row : audit.rows) {
    if (row.access == NameOf(Method::kNone)) unguarded = std::max(unguarded, row.epsilon_lower);
  }
  const auto claims = std::ranges::count_if(
      audit.rows, [](const AuditRow& row) { return !std::isnan(row.claimed); });
  const auto held = std::ranges::count_if(
      audit.rows, [](const AuditRow& row) { return !std::isnan(row.claimed) && row.holds; });
  return fmt::format(
      "attacks: unguarded access leaks an epsilon of at least {:.2f}; {} of {} claims of privacy "
      "hold\n",
      unguarded, held, claims);
}

// Shows both runs by their promise, and who wins the game of two services.
std::string PromisesText(const Report& report) {
  std::string text;
  for (const Report* one : {&report, report.beside.get()}) {
    const Promise promise = PromiseOf(one->manifest, &*one->certificate);
    text += fmt::format("{}: promise {}", one->run, promise.Title());
    for (const AuditRow& row : one->audit->rows) {
      if (row.attack != AuditAttack::kRegion || row.epsilon != 0) continue;
      text += fmt::format(
          "; {} games of two services against {}: AUC {:.2f}, {}", row.trials, row.access, row.auc,
          row.not_covered()
              ? (row.lost() ? "told apart, which labels does not cover" : "not covered by labels")
              : (row.holds ? "holds" : "DOES NOT HOLD"));
    }
    text += "\n";
  }
  return text;
}

std::string ToText(const DemoResult& result) {
  const Report& report = result.report;
  const LeakMap& map = *report.leak;
  return fmt::format(
      "{} networks of {} parameters, test accuracy of N {:.2f} %\n"
      "{} of all inputs and {} of the test rows leak a training row by their label alone\n\n{}"
      "leaks are counted on a grid of {} x {} inputs; beta holds for all of them "
      "(lucid-check {} --run {})\n\n{}\n{}report: {}\n",
      map.members + 1, result.training.parameters, 100 * report.manifest.test_accuracy,
      Share(map.leaking(), map.points()), Share(map.test_leaking, map.test_rows),
      LeakText(map, *report.certificate), map.grid, map.grid, result.certificate_path,
      result.training.run, EvaluationText(*report.evaluation),
      AuditSummary(*report.audit) + PromisesText(report), result.page);
}

// Every claim of both runs.
bool Holds(const Report& report) { return report.audit->Holds() && report.beside->audit->Holds(); }

nlohmann::ordered_json ToJson(const DemoResult& result, const std::string& out) {
  const TrainSummary& training = result.training;
  const Report& report = result.report;
  const auto betas = [&](double ClassBound::*beta) {
    std::vector<double> values;
    for (const ClassBound& bound : report.certificate->classes) values.push_back(bound.*beta);
    return values;
  };
  using Json = nlohmann::ordered_json;
  return {
      {"out", out},
      {"run", training.run},
      {"report", result.page},
      {"picture", result.picture},
      {"rows", training.rows},
      {"members", training.members},
      {"parameters", training.parameters},
      {"train_accuracy", report.manifest.train_accuracy},
      {"test_accuracy", report.manifest.test_accuracy},
      {"trained_now", training.trained_now},
      {"training_seconds", training.seconds},
      {"certificate", result.certificate_path},
      {"bound_seconds", result.bound_seconds},
      {"private_run", result.private_training.run},
      {"private_promise", PromiseOf(report.beside->manifest, &*report.beside->certificate).name()},
      {"private_seconds", result.private_seconds},
      {"evaluation_seconds", result.evaluation_seconds},
      {"audit_seconds", result.audit_seconds},
      {"report_seconds", result.report_seconds},
      {"beta_lower", betas(&ClassBound::beta_lower)},
      {"beta_upper", betas(&ClassBound::beta_upper)},
      {"leak", Json::parse(LeakJson(*report.leak, report.manifest))},
      {"evaluation", Json::parse(EvaluationJson(*report.evaluation)).at("rows")},
      {"audit_holds", Holds(report)}};
}

Result<ExitCode> RunDemo(const Session& session, const DemoArguments& arguments) {
  const Result<DemoResult> result = RunSteps(session, arguments);
  if (!result.ok() && result.error().kind == ErrorKind::kInterrupted) {
    return Interrupted(fmt::format(
        "stopped; what was trained is kept in '{}': the same command goes on from there",
        arguments.out));
  }
  LUCID_TRY(result);
  LUCID_TRY(session.json ? PrintJson(ToJson(*result, arguments.out)) : Print(ToText(*result)));
  return Holds(result->report) ? kDone : kAnswerIsNo;
}

}  // namespace

void AddDemoCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<DemoArguments>();
  CLI::App* command = AddCommand(
      root, session, "demo",
      "Runs everything on built-in data: train, bound, evaluate, audit, report",
      "lucid demo --out demo", [&session, arguments] { return RunDemo(session, *arguments); });
  command->add_option("--out", arguments->out, "Folder for data, run and report.html")->required();
  command->add_option("--rows", arguments->rows, "Training rows; as many networks are trained")
      ->check(CLI::Range(2, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--grid", arguments->leak.grid, "Inputs per axis at which networks are compared")
      ->check(CLI::Range(2, 2000))
      ->capture_default_str();
}

}  // namespace lucid::app
