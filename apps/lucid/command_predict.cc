#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "base/files.h"
#include "base/parallel.h"
#include "command.h"
#include "data/byte_source.h"
#include "data/csv.h"
#include "data/table_reader.h"
#include "lucid/certificate/receipt.h"
#include "lucid/guard/guard.h"
#include "lucid/promise/promise.h"

namespace lucid::app {
namespace {

constexpr std::int64_t kRowsPerBatch = 1024;

struct PredictArguments {
  std::string run, input, out, certificate, key_file, guard = "scalar", mechanism = "paper";
  std::string promise;
  bool names = false, mend = false;
  GuardOptions options;
};

Result<GuardKey> Key(const Session& session, const std::string& path) {
  const bool is_new = !std::filesystem::exists(path);
  LUCID_ASSIGN(GuardKey key, GuardKey::LoadOrCreate(path));
  if (is_new) {
    session.Say(fmt::format(
        "new key: {} (mode 0600; the same answers come only with the same key: keep it, and keep "
        "it secret)",
        path));
  }
  return key;
}

void Warn(const Session& session, const Guard& guard, const Promise& promise, Standing standing) {
  if (guard.certificate() != nullptr) {
    session.Say(fmt::format("the certificate's bounds are {}", NameOf(standing)));
  }
  for (const std::string& line : promise.Lines()) session.Say(line);
  for (const std::string& warning : guard.Warnings()) session.Say("warning: " + warning);
  if (guard.options().epsilon > 0 && guard.certificate() != nullptr) {
    session.Say(
        fmt::format("warning: every distinct row costs epsilon {}, and no ledger counts it: lucid "
                    "serve has one",
                    guard.options().epsilon));
  }
}

// The rows of the file, canonical.
Result<std::vector<float>> ReadRows(const Session& session, const Guard& guard,
                                    const std::string& path, bool mend) {
  LUCID_ASSIGN(auto source, OpenSource(path));
  LUCID_ASSIGN(TableReader reader, TableReader::Open(std::move(source), path, guard.schema(),
                                                     {.any_columns = true, .mend = mend},
                                                     /*label_required=*/false));
  if (!reader.ignored().empty()) {
    session.Say(
        fmt::format("columns that the run does not use: {}", fmt::join(reader.ignored(), ", ")));
  }
  std::vector<float> rows, x(static_cast<std::size_t>(guard.features()));
  std::int32_t ignored_label = 0;
  while (true) {
    const Result<bool> more = reader.Next(x, ignored_label);
    if (!more.ok() && reader.row_failed()) return WithFurtherErrors(more.error(), reader);
    LUCID_TRY(more);
    if (!*more) break;
    const Status canonical = guard.Canonicalize(x);
    if (!canonical.ok()) return reader.ErrorHere(canonical.error().message);
    rows.insert(rows.end(), x.begin(), x.end());
  }
  if (rows.empty()) return reader.ErrorHere("the file has a header but no rows");
  return rows;
}

Result<std::vector<std::int32_t>> Labels(const Session& session, const Guard& guard,
                                         std::span<const float> rows) {
  const std::int64_t features = guard.features(), count = std::ssize(rows) / features;
  std::vector<GuardedAnswer> answers(static_cast<std::size_t>(count));
  const std::int64_t batches = (count + kRowsPerBatch - 1) / kRowsPerBatch;
  LUCID_TRY(ParallelFor(batches, session.threads, session.stop, [&](std::int64_t batch, int) {
    const std::int64_t first = batch * kRowsPerBatch;
    const auto size = static_cast<std::size_t>(std::min(kRowsPerBatch, count - first));
    guard.AskBatch(rows.subspan(static_cast<std::size_t>(first * features),
                                size * static_cast<std::size_t>(features)),
                   std::span(answers).subspan(static_cast<std::size_t>(first), size));
    return Ok();
  }));
  std::vector<std::int32_t> labels;
  labels.reserve(answers.size());
  for (const GuardedAnswer& answer : answers) labels.push_back(answer.label);
  return labels;
}

std::string ToCsv(const std::vector<std::int32_t>& labels, const Schema& schema, bool names) {
  std::string text = "label\n";
  for (const std::int32_t label : labels) {
    const std::string cell = names ? schema.label().categories[label] : fmt::format("{}", label);
    AppendCsvRecord(text, std::array{std::string_view(cell)});
  }
  return text;
}

nlohmann::ordered_json ToJson(const std::vector<std::int32_t>& labels, const Guard& guard,
                              const Promise& promise, Standing standing) {
  nlohmann::ordered_json document;
  document["rows"] = labels.size();
  document["classes"] = guard.schema().label().categories;
  document["guard"] = NameOf(guard.options().guard);
  document["mechanism"] = NameOf(guard.options().mechanism);
  document["epsilon"] = guard.mechanism().epsilon();
  document["effective_epsilon"] = guard.mechanism().EffectiveEpsilon();
  document["promise"] = promise.public_name();
  // A run with declared bounds gives the same output, whatever was certified.
  if (guard.certificate() != nullptr) document["certificate"] = NameOf(standing);
  document["labels"] = labels;
  return document;
}

// What the run promises through this command, which counts nothing.
Result<Promise> CheckPromise(const PredictArguments& arguments, const GuardOptions& options,
                             WantedPromise wanted) {
  const AccessTerms access{
      .scalar = options.guard == GuardKind::kScalar,
      .domain = options.domain,
      .epsilon = options.epsilon,
      .counted = false,
      .only_if_certified = wanted == WantedPromise::kLabels || wanted == WantedPromise::kBoth};
  LUCID_ASSIGN(Promise promise, PromiseOfRun(arguments.run, arguments.certificate, access));
  LUCID_TRY(promise.Require(wanted));
  return promise;
}

// A certificate that cannot be read matters only to a guard that needs it, which said so.
Standing StandingOrUnproved(const PredictArguments& arguments) {
  const Result<Standing> standing =
      StandingOf(GivenOrInRun(arguments.certificate, arguments.run, kCertificateFile));
  return standing.ok() ? *standing : Standing::kUnproved;
}

Result<ExitCode> RunPredict(const Session& session, const PredictArguments& arguments) {
  GuardOptions options = arguments.options;
  LUCID_ASSIGN(options.guard, GuardNamed(arguments.guard));
  LUCID_ASSIGN(options.mechanism, MechanismNamed(arguments.mechanism));
  LUCID_TRY(options.Validate());
  LUCID_ASSIGN(const WantedPromise wanted, WantedPromiseNamed(arguments.promise));
  LUCID_ASSIGN(const Promise promise, CheckPromise(arguments, options, wanted));
  const std::string key_path = GivenOrInRun(arguments.key_file, arguments.run, kGuardKeyFile);
  if (!std::filesystem::exists(key_path)) {  // no key is made for what cannot be answered
    LUCID_ASSIGN(const Guard trial,
                 Guard::Open(arguments.run, arguments.certificate, options, GuardKey::Random()));
    LUCID_TRY(ReadRows(session, trial, arguments.input, arguments.mend));
  }
  LUCID_ASSIGN(const GuardKey key, Key(session, key_path));
  LUCID_ASSIGN(const Guard guard, Guard::Open(arguments.run, arguments.certificate, options, key));
  const Standing standing = StandingOrUnproved(arguments);
  Warn(session, guard, promise, standing);
  LUCID_ASSIGN(const std::vector<float> rows,
               ReadRows(session, guard, arguments.input, arguments.mend));
  LUCID_ASSIGN(const std::vector<std::int32_t> labels, Labels(session, guard, rows));
  const std::string text = ToCsv(labels, guard.schema(), arguments.names);
  if (!arguments.out.empty()) LUCID_TRY(WriteFileAtomically(arguments.out, text, kForEverybody));
  if (session.json) {
    LUCID_TRY(PrintJson(ToJson(labels, guard, promise, standing)));
  } else if (arguments.out.empty()) {
    LUCID_TRY(Print(text));
  }
  return kDone;
}

}  // namespace

CLI::Option* AddDomain(CLI::App& command, const std::string& description,
                       const std::function<void(DomainKind)>& set) {
  return command
      .add_option_function<std::string>(
          "--domain", [set](const std::string& name) { set(DomainNamed(name).value()); },
          description)
      ->check(CLI::IsMember({"box", "schema"}));
}

void AddPromiseOptions(CLI::App& command, std::string& promise, std::optional<DomainKind>& domain) {
  command
      .add_option("--promise", promise,
                  "labels, full or both: refuse to open where the run does not keep it")
      ->check(CLI::IsMember({"labels", "full", "both"}));
  AddDomain(command,
            "What may be asked of a run with declared bounds: box or schema (default: schema where "
            "columns are not all numbers)",
            [&domain](DomainKind kind) { domain = kind; });
}

void AddPredictCommand(CLI::App& root, Session& session) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command = AddCommand(
      root, session, "predict", "Guarded labels for the rows of a CSV file",
      "lucid data synth2d --rows 40 --out points && lucid train --data points --arch 2x10 --out "
      "run && lucid bound run --time-limit 1m && lucid predict run --input points/test.csv",
      [&session, arguments] { return RunPredict(session, *arguments); });
  command->add_option("run", arguments->run, "Folder of the run")->required();
  command
      ->add_option("--input", arguments->input,
                   "CSV file [.gz] with the columns of the run's schema, in any order; others are "
                   "ignored, the label may be absent")
      ->required();
  command
      ->add_option("--epsilon", arguments->options.epsilon,
                   "Privacy loss of each answer; 0: noised answers are uniform")
      ->capture_default_str();
  command
      ->add_option("--guard", arguments->guard,
                   "scalar (the paper's), spatial or exact: which inputs are noised")
      ->check(CLI::IsMember({"scalar", "spatial", "exact"}))
      ->capture_default_str();
  command
      ->add_option("--mechanism", arguments->mechanism,
                   "paper (exponential mechanism) or krr (the same, spending all of epsilon)")
      ->check(CLI::IsMember({"paper", "krr"}))
      ->capture_default_str();
  command->add_option("--key-file", arguments->key_file,
                      "Secret that fixes the noise; made if it is not there (default: "
                      "RUN/guard.key)");
  command->add_option("--certificate", arguments->certificate,
                      "The certificate (default: RUN/certificate.json)");
  AddPromiseOptions(*command, arguments->promise, arguments->options.domain);
  command
      ->add_option("--grid-bits", arguments->options.grid_bits,
                   "Round inputs to multiples of 2^-B first; 0: do not")
      ->capture_default_str();
  command->add_flag("--clip", arguments->mend,
                    "Cells as lucid data schema takes them: values outside of a range are clipped, "
                    "unknown categories are 'other', missing numbers the middle of the range");
  command->add_flag("--names", arguments->names, "Names of classes instead of their numbers");
  command->add_option("--out", arguments->out, "File for the labels instead of stdout");
}

}  // namespace lucid::app
