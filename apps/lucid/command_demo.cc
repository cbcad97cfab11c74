// lucid demo: what LUCID does today, end to end on the built-in data.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>

#include "base/files.h"
#include "command.h"
#include "lucid/data/dataset.h"
#include "lucid/data/synthetic.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/report/leak_map.h"
#include "lucid/report/leak_page.h"
#include "lucid/verify/bound.h"

namespace lucid::app {
namespace {

struct DemoArguments {
  std::string out;
  std::int64_t rows = 700;
  LeakMapOptions leak;
};

std::string PathIn(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

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

constexpr double kBoundLimit = 60;  // seconds; a fraction of one is enough

struct DemoResult {
  TrainSummary training;
  Manifest manifest;
  LeakMap map;
  Certificate certificate;
  std::string page, picture, certificate_path;
  double leak_seconds = 0;
};

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
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run));
  result.manifest = ensemble.manifest();

  NativeBoundOptions bound;
  bound.seed = session.seed;
  bound.threads = session.threads;
  bound.time_limit = kBoundLimit;
  bound.command = session.arguments;
  LUCID_ASSIGN(result.certificate,
               ComputeBounds(ensemble, bound, session.Progress(), session.stop));
  result.certificate_path = PathIn(run, kCertificateFile);
  LUCID_TRY(SaveCertificate(result.certificate, result.certificate_path));

  const auto start = std::chrono::steady_clock::now();
  LeakMapOptions leak = arguments.leak;
  leak.threads = session.threads;
  LUCID_ASSIGN(result.map,
               ComputeLeakMap(ensemble, dataset, leak, session.Progress(), session.stop));
  result.leak_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.page = PathIn(arguments.out, "report.html");
  result.picture = PathIn(arguments.out, "leak_map.svg");
  LUCID_TRY(WriteFileAtomically(result.picture, LeakSvg(result.map, dataset)));
  LUCID_TRY(WriteFileAtomically(result.page, LeakPage(result.map, dataset, result.manifest)));
  return result;
}

std::string Share(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.2f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string ToText(const DemoResult& result) {
  const LeakMap& map = result.map;
  std::string text = fmt::format(
      "{} networks of {} parameters, test accuracy of N {:.2f} %\n"
      "{} of all inputs and {} of the test rows leak a training row by their label alone\n\n",
      map.members + 1, result.training.parameters, 100 * result.manifest.test_accuracy,
      Share(map.leaking(), map.points()), Share(map.test_leaking, map.test_rows));
  text += fmt::format("{:<8}  {:>9}  {:>10}  {:>20}  {:>16}  {:>13}  {:>13}\n", "label", "leaking",
                      "test rows", "beta, proved in", "rows that matter", "strongest row",
                      "changes alone");
  for (std::size_t c = 0; c < map.classes.size(); ++c) {
    const ClassLeak& leak = map.classes[c];
    const ClassBound& bound = result.certificate.classes[c];
    text += fmt::format("{:<8}  {:>9}  {:>10}  {:>20}  {:>16}  {:>13}  {:>13}\n", leak.name,
                        Share(leak.leaking, leak.points), Share(leak.test_leaking, leak.test_rows),
                        fmt::format("[{:.5g}, {:.5g}]", bound.beta_lower, bound.beta_upper),
                        leak.rows_that_matter,
                        leak.strongest_row >= 0 ? fmt::format("{}", leak.strongest_row) : "-",
                        Share(leak.strongest_points, leak.points));
  }
  text += fmt::format(
      "\nleaks are counted on a grid of {0} x {0} inputs; beta holds for all of them "
      "({1:.2f} s, lucid-check {2} --run {3})\npage: {4}\n",
      map.grid, result.certificate.seconds, result.certificate_path, result.training.run,
      result.page);
  return text;
}

nlohmann::ordered_json ToJson(const DemoResult& result, const std::string& out) {
  const TrainSummary& training = result.training;
  const auto betas = [&](double ClassBound::*beta) {
    std::vector<double> values;
    for (const ClassBound& bound : result.certificate.classes) values.push_back(bound.*beta);
    return values;
  };
  return {{"out", out},
          {"run", training.run},
          {"report", result.page},
          {"picture", result.picture},
          {"rows", training.rows},
          {"members", training.members},
          {"parameters", training.parameters},
          {"train_accuracy", result.manifest.train_accuracy},
          {"test_accuracy", result.manifest.test_accuracy},
          {"trained_now", training.trained_now},
          {"training_seconds", training.seconds},
          {"certificate", result.certificate_path},
          {"bound_seconds", result.certificate.seconds},
          {"beta_lower", betas(&ClassBound::beta_lower)},
          {"beta_upper", betas(&ClassBound::beta_upper)},
          {"leak_seconds", result.leak_seconds},
          {"leak", nlohmann::ordered_json::parse(LeakJson(result.map, result.manifest))}};
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
  return kDone;
}

}  // namespace

void AddDemoCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<DemoArguments>();
  CLI::App* command = AddCommand(
      root, session, "demo", "Shows on built-in data where labels leak training rows",
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
