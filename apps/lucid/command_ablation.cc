#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "base/files.h"
#include "command.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/evaluation/evaluation.h"
#include "lucid/paper/ablation.h"

namespace lucid::app {
namespace {

struct AblationArguments {
  std::string run, out, test, tighten = "none";
  std::vector<std::string> variants = {"all"};
  AblationOptions ablation;
};

std::string NumberOr(double value, const char* format, const char* otherwise) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : otherwise;
}

// One line per variant: which parts it has, then beta and time per class, then accuracy.
std::string ToText(const std::vector<AblationRow>& rows, const Manifest& manifest) {
  std::string text =
      fmt::format("{:<7} {:^3} {:^3} {:^3} {:^3}", "variant", "Hyp", "MD", "RiS", "BaB");
  for (std::int64_t c = 0; c < manifest.schema.classes(); ++c) {
    text += fmt::format(" {:>9} {:>9} {:>9}", fmt::format("beta_{}", c), fmt::format("T_{} [s]", c),
                        "to H [s]");
  }
  text += fmt::format(" {:>9} {:>9}\n", "Acc(0) %", "Acc(1) %");
  const auto mark = [](bool has) { return has ? "x" : "-"; };
  for (const AblationRow& row : rows) {
    const Variant v = row.variant;
    text += fmt::format("{:<7} {:^3} {:^3} {:^3} {:^3}", NameOf(v), mark(UsesHyperNetwork(v)),
                        mark(UsesMatchingDependencies(v)), mark(UsesRelaxIfSimilar(v)),
                        mark(UsesBranchAndBound(v)));
    for (const ClassBound& bound : row.certificate.classes) {
      const bool late = bound.status == BoundStatus::kDeadline;
      text += fmt::format(" {:>9} {:>9} {:>9}", NumberOr(bound.beta_upper, "{:.4f}", "-"),
                          fmt::format("{}{:.1f}", late ? ">" : "", bound.seconds),
                          NumberOr(row.seconds_to_h[bound.label], "{:.2f}", "-"));
    }
    text += fmt::format(" {:>9} {:>9}\n", NumberOr(100 * row.accuracy_0, "{:.2f}", "-"),
                        NumberOr(100 * row.accuracy_1, "{:.2f}", "-"));
  }
  return text + fmt::format(
                    "accuracy without protection {} %; beta_lower (attack, witness):{}\n"
                    "T: '>' ended by the time limit. to H: until the bound was at or below H's\n",
                    NumberOr(100 * manifest.test_accuracy, "{:.2f}", "unknown"), [&] {
                      std::string lower;
                      for (const ClassBound& b : rows.back().certificate.classes) {
                        lower += fmt::format(" {:.4f}", b.beta_lower);
                      }
                      return lower;
                    }());
}

nlohmann::ordered_json ToJson(const std::vector<AblationRow>& rows) {
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const AblationRow& row : rows) {
    nlohmann::ordered_json classes = nlohmann::ordered_json::array();
    for (const ClassBound& bound : row.certificate.classes) {
      nlohmann::ordered_json item = {{"class", bound.label},
                                     {"beta_upper", number(bound.beta_upper)},
                                     {"beta_lower", bound.beta_lower},
                                     {"status", NameOf(bound.status)},
                                     {"seconds", bound.seconds},
                                     {"seconds_to_h", number(row.seconds_to_h[bound.label])}};
      for (const auto& [name, value] : bound.counters) item[name] = value;
      classes.push_back(std::move(item));
    }
    list.push_back({{"variant", NameOf(row.variant)},
                    {"hyper_network", UsesHyperNetwork(row.variant)},
                    {"matching_dependencies", UsesMatchingDependencies(row.variant)},
                    {"relax_if_similar", UsesRelaxIfSimilar(row.variant)},
                    {"branch_and_bound", UsesBranchAndBound(row.variant)},
                    {"classes", std::move(classes)},
                    {"accuracy_eps_0", number(row.accuracy_0)},
                    {"accuracy_eps_1", number(row.accuracy_1)}});
  }
  return {{"rows", std::move(list)}};
}

// The test rows: of --test, or of the folder the run was trained on, if it is still there.
Result<std::optional<Table>> TestRows(const Session& session, const AblationArguments& arguments,
                                      const Manifest& manifest) {
  if (!arguments.test.empty()) {
    LUCID_ASSIGN(Table table, LoadTable(arguments.test, manifest.schema));
    return std::optional<Table>(std::move(table));
  }
  Result<Dataset> dataset = LoadDataset(manifest.data_directory);
  if (!dataset.ok() || dataset->schema_digest != manifest.schema_digest ||
      dataset->test_digest != manifest.test_digest) {
    session.Say(fmt::format(
        "no accuracies: '{}' no longer holds the run's test rows (--test FILE gives others)",
        manifest.data_directory));
    return std::optional<Table>();
  }
  return std::optional<Table>(std::move(dataset->test));
}

Result<ExitCode> RunAblationCommand(const Session& session, const AblationArguments& arguments) {
  AblationOptions options = arguments.ablation;
  if (arguments.variants != std::vector<std::string>{"all"}) {
    options.variants.clear();
    for (const std::string& name : arguments.variants) {
      LUCID_ASSIGN(const Variant variant, VariantNamed(name));
      options.variants.push_back(variant);
    }
  }
  options.bound.common.seed = session.seed;
  options.bound.common.threads = session.threads;
  options.bound.common.command = session.arguments;
  options.bound.tighten = arguments.tighten == "lp";
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(arguments.run, session.Progress()));
  LUCID_ASSIGN(const std::optional<Table> test, TestRows(session, arguments, ensemble.manifest()));
  options.folder = arguments.out.empty()
                       ? (std::filesystem::path(arguments.run) / "ablation").string()
                       : arguments.out;
  LUCID_ASSIGN(std::vector<AblationRow> rows,
               RunAblation(ensemble, options, session.Progress(), session.stop));
  if (test && test->rows() > 0) {
    const Evaluator network(ensemble.network());
    for (AblationRow& row : rows) {
      LUCID_ASSIGN(row.accuracy_0, ScalarAccuracy(network, row.certificate, *test, 0));
      LUCID_ASSIGN(row.accuracy_1, ScalarAccuracy(network, row.certificate, *test, 1));
    }
  }
  if (rows.empty()) return Interrupted("stopped before the first variant was done");
  const std::string path = (std::filesystem::path(options.folder) / "table.json").string();
  LUCID_TRY(WriteFileAtomically(path, ToJson(rows).dump(2) + "\n"));
  LUCID_TRY(session.json
                ? PrintJson(ToJson(rows))
                : Print(ToText(rows, ensemble.manifest()) + fmt::format("table: {}\n", path)));
  return rows.size() == options.variants.size() ? kDone : kStoppedEarly;
}

}  // namespace

void AddAblationCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<AblationArguments>();
  MilpBoundOptions& bound = arguments->ablation.bound;
  bound.common.class_limit = 8 * 3600.0;
  CLI::App* command = AddCommand(
      root, session, "ablation", "The paper's Table 4 on a run: what each part of it is worth",
      "lucid data synth2d --rows 40 --out points && lucid train --data points --arch 2x8 --out run "
      "&& lucid ablation run --time-limit 20s",
      [&session, arguments] { return RunAblationCommand(session, *arguments); });
  command->add_option("run", arguments->run, "Folder of the run")->required();
  command
      ->add_option("--variants", arguments->variants, "all, or some of naive,H,HM,HMRiS,HMB,full")
      ->delimiter(',')
      ->capture_default_str();
  AddDuration(*command, "--time-limit", bound.common.class_limit,
              "Time for one variant and class, e.g. 60s, 10m (default: 8h, as in the paper)");
  AddDuration(*command, "--subset-limit", bound.subset_limit, "Time for one MILP (default: 40m)");
  command->add_option("--gap", bound.common.gap, "Relative gap at which a search ends")
      ->capture_default_str();
  command->add_option("--tau", bound.tau, "Relax-if-similar's threshold")->capture_default_str();
  command
      ->add_option("--tighten", arguments->tighten,
                   "lp: neuron bounds by linear programs, too; none: by propagation only")
      ->check(CLI::IsMember({"lp", "none"}))
      ->capture_default_str();
  command->add_option("--test", arguments->test,
                      "Test rows for the accuracies (default: those of the run's data folder)");
  command->add_option(
      "--out", arguments->out,
      "Folder for a certificate per variant and table.json (default: RUN/ablation)");
  command->add_flag("--resume", bound.common.resume,
                    "Keep the variants whose certificate is there");
}

}  // namespace lucid::app
