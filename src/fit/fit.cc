#include "lucid/fit/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "base/files.h"
#include "base/text.h"
#include "fit/fit_state.h"
#include "lucid/certify/certify.h"
#include "lucid/check/accept.h"
#include "lucid/fit/advice.h"
#include "lucid/report/report.h"

namespace lucid {
namespace {

constexpr int kStages = 6;
constexpr std::int64_t kMostRowsPerUnit = 8;  // a clipped unit lies in one strip
// From so many expected rows on 20 epochs of batch 512 are enough steps to learn something.
constexpr std::int64_t kManyRows = 20'000;

bool WantsFull(const FitOptions& options) {
  return options.promise == WantedPromise::kFull || options.promise == WantedPromise::kBoth;
}

// A word of a command line, in quotes where the shell would not take it as it is.
std::string ShellWord(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+:@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

class Fitting {
 public:
  Fitting(const FitOptions& options, std::string run, const FitListener& listener,
          std::stop_token stop)
      : options_(options), listener_(listener), stop_(std::move(stop)) {
    summary_.run = std::move(run);
    summary_.data = PathIn(summary_.run, kFitDataFolder);
  }

  Result<FitSummary> Run() {
    LUCID_TRY(options_.Validate());
    LUCID_ASSIGN(state_, FitState::Open(options_, summary_.run));
    if (const Status prepared = Prepare(); !prepared.ok()) {
      // The next call will ask for something else than what was wrong here, so the folder forgets
      // what was asked.
      if (prepared.error().kind != ErrorKind::kInterrupted) state_.Abandon();
      return prepared.error();
    }
    LUCID_TRY(TrainNetworks());
    LUCID_TRY(FindBounds());
    LUCID_TRY(CheckBounds());
    LUCID_TRY(MeasureGuards());
    LUCID_TRY(Choose());
    LUCID_TRY(MakePage());
    return std::move(summary_);
  }

 private:
  // ---- what is told ----

  ProgressCallback Progress() const {
    if (!listener_.progress) return {};
    return [this, what = std::string()](const lucid::Progress& p) mutable {
      what = fmt::format("{}/{} {}", stage_, kStages, p.what);
      lucid::Progress shown = p;
      shown.what = what;
      listener_.progress(shown);
    };
  }
  void Say(const std::string& line) const {
    if (listener_.say) listener_.say(fmt::format("{}/{} {}", stage_, kStages, line));
  }
  Status Stopped() const {
    if (!stop_.stop_requested()) return Ok();
    return Interrupted(
        fmt::format("stopped; the same command goes on from what is in '{}'", summary_.run));
  }

  // ---- the stages ----

  Status Prepare() {
    LUCID_TRY(MakeData());
    stage_ = 2;
    const std::string name = !options_.architecture.empty() ? options_.architecture
                             : ExpectedRows() < kFewRows    ? "2x20"
                                                            : "2x50";
    LUCID_ASSIGN(architecture_,
                 Architecture::FromName(name, dataset_.features(), dataset_.classes()));
    LUCID_ASSIGN(recipe_, Recipe());
    LUCID_TRY(ResolveOptions(recipe_, architecture_, Size()));
    if (WantsFull(options_) && ExpectedRows() < kFewRows) {
      Warn({"private training of so few rows loses much accuracy: the promise labels keeps it"});
    }
    return Ok();
  }

  Status MakeData() {
    stage_ = 1;
    InferOptions infer;
    infer.label = options_.label;
    infer.unit = options_.unit;
    infer.declared = options_.declared;
    infer.ignore = options_.ignore;
    infer.only_declared = WantsFull(options_) && !options_.declared.empty();
    infer.missing = options_.missing.value_or(WantsFull(options_) ? MissingCells::kFill
                                                                  : MissingCells::kRefuse);
    infer.test_share = options_.test_share;
    infer.split_key = options_.seed.value_or(0);
    infer.proposal = summary_.run + ".schema.csv";
    infer.owner_only = true;  // a server refuses a run with files that others may read
    infer.overwrite = true;   // the same file again: FitState looked
    LUCID_ASSIGN(summary_.schema, InferSchema(options_.csv, infer, summary_.data));
    const InferredSchema& made = summary_.schema;
    for (const ColumnDecision& column : made.columns) {
      if (!column.what.starts_with("left out")) continue;
      Say(fmt::format("column {} is {}", Quoted(column.name), column.what));
    }
    if (made.left_out > 0) Say(fmt::format("{} rows have no class that is used", made.left_out));
    if (made.missing_cells > 0) {
      Say(infer.missing == MissingCells::kDrop
              ? fmt::format("{} rows with missing cells were left out", made.rows_with_missing)
              : fmt::format("{} missing cells were filled: numbers with the middle of their range, "
                            "categories with '{}'",
                            made.missing_cells, kOther));
    }
    LUCID_ASSIGN(dataset_, LoadDataset(summary_.data, {.rows_per_unit = RowsPerUnit(),
                                                       .total = WantsFull(options_)}));
    const Table& judged = dataset_.test.rows() > 0 ? dataset_.test : dataset_.train;
    if (judged.rows() > 0) summary_.majority_share = MajorityShare(judged);
    Say(fmt::format("data: {} training rows, {} test rows, {} inputs, {} classes",
                    dataset_.train.rows(), dataset_.test.rows(), dataset_.features(),
                    dataset_.classes()));
    if (!options_.declared.empty()) Warn(DataWarnings(dataset_, WantsFull(options_)));
    return Stopped();
  }

  Status TrainNetworks() {
    stage_ = 2;
    EnsembleOptions ensemble;
    ensemble.train = recipe_;
    ensemble.seed_from_entropy = !options_.seed.has_value();
    ensemble.train.seed = options_.seed.value_or(0);
    ensemble.declare = WantsFull(options_) ? kDeclaredShare : 0;
    ensemble.after_looking = AfterLooking();
    ensemble.resume = true;
    ensemble.threads = options_.threads;
    ensemble.command = options_.command;
    LUCID_ASSIGN(summary_.training,
                 TrainEnsemble(dataset_, architecture_, ensemble, summary_.run, Progress(), stop_));
    const TrainSummary& made = summary_.training;
    Say(fmt::format("training: {} networks of {} parameters, N is right on {:.1f} % of the {}",
                    made.members + 1, made.parameters,
                    100 * (dataset_.test.rows() > 0 ? made.test_accuracy : made.train_accuracy),
                    dataset_.test.rows() > 0 ? "test rows" : "training rows"));
    LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(summary_.run));
    Warn(NetworkWarnings(opened.network, dataset_));
    if (const std::string& looked = opened.manifest.after_looking; !looked.empty()) {
      Warn(
          {fmt::format("{} came from the data, so the promise is 'full, chosen after looking': "
                       "look at {}, write ranges and categories that you would give any data of "
                       "this kind, make its last line '# declared = true', and give both "
                       "that file and the number of rows that you expect as options",
                       looked, PathIn(summary_.data, "schema.csv"))});
    }
    return Stopped();
  }

  Status FindBounds() {
    stage_ = 3;
    const std::string path = PathIn(summary_.run, kCertificateFile);
    if (state_.IsDone("bound")) {
      LUCID_ASSIGN(summary_.certificate, LoadCertificate(path));
      summary_.finished = Finished(*summary_.certificate);
      return Ok();
    }
    const Result<Ensemble> ensemble = Ensemble::Open(summary_.run, Progress());
    if (!ensemble.ok() && WantsFull(options_)) {  // no member decides about a private run
      Warn({fmt::format("nothing is certified: {}", ensemble.error().message)});
      return Ok();
    }
    LUCID_TRY(ensemble);
    CertifyOptions certify;
    auto& native = std::get<NativeBoundOptions>(certify.engine);
    native.common.time_limit = options_.time_limit;
    native.common.threads = options_.threads;
    // The seed is the default one, so that `lucid bound --resume` goes on with this search.
    native.common.command = options_.command;
    native.common.journal = JournalPath(path);
    native.common.resume = true;
    native.domain = DomainOfEarlier(*ensemble, path);
    if (ensemble->manifest().declared) {
      certify.declared = OwnDecision(ensemble->manifest());
      certify.index = certify.spatial = false;  // no guard that states `full` reads them
    }
    LUCID_ASSIGN(const CertifySummary made,
                 Certify(*ensemble, summary_.run, certify, Progress(), stop_));
    LUCID_TRY(Stopped());
    summary_.certificate = made.certificate;
    summary_.finished = made.finished;
    LUCID_TRY(state_.Finish("bound"));
    SayBounds(made.certificate);
    return Ok();
  }

  Status CheckBounds() {
    stage_ = 4;
    if (!summary_.certificate) return Ok();
    const std::string path = PathIn(summary_.run, kCertificateFile);
    LUCID_ASSIGN(summary_.standing, StandingOf(path));
    if (summary_.standing == Standing::kChecked) return Ok();
    LUCID_ASSIGN(const CheckReport report,
                 CheckRun(summary_.run, {options_.threads}, Progress(), stop_));
    LUCID_ASSIGN(summary_.standing, StandingOf(path));
    if (const Check* problem = report.FirstProblem(); problem != nullptr) {
      const std::string what = fmt::format("the checker does not accept the bounds: {}: {}",
                                           problem->name, problem->detail);
      if (problem->outcome == Check::Outcome::kFailed) return Mismatch(what);
      Warn({what});
      return Ok();
    }
    Say(fmt::format("check: accepted, {} checks passed, receipt {}", report.checks.size(),
                    ReceiptPath(path)));
    return Stopped();
  }

  Status MeasureGuards() {
    stage_ = 5;
    if (dataset_.test.rows() == 0) {
      Warn({"there are no test rows, so no accuracy was measured"});
      return Ok();
    }
    const std::string path = PathIn(summary_.run, kEvaluationFile);
    if (state_.IsDone("evaluate")) {
      LUCID_ASSIGN(const std::string text, ReadTextFile(path));
      LUCID_ASSIGN(evaluation_, ParseEvaluation(text, path));
      return Ok();
    }
    EvaluationOptions evaluate;
    evaluate.threads = options_.threads;
    evaluate.methods = {Method::kNone};
    if (summary_.certificate || WantsFull(options_)) evaluate.methods.push_back(Method::kScalar);
    if (summary_.certificate && summary_.certificate->spatial_digest) {
      evaluate.methods.push_back(Method::kSpatial);
    }
    if (summary_.certificate && summary_.certificate->index_digest) {
      evaluate.methods.push_back(Method::kExact);
    }
    LUCID_ASSIGN(evaluation_,
                 Evaluate(summary_.run, dataset_.test, nullptr, evaluate, Progress(), stop_));
    evaluation_->command = options_.command;
    evaluation_->test = summary_.data;
    LUCID_TRY(WriteFileAtomically(path, EvaluationJson(*evaluation_)));
    LUCID_TRY(state_.Finish("evaluate"));
    Say(fmt::format("evaluation: N and its guards on {} test rows", dataset_.test.rows()));
    return Stopped();
  }

  // What to serve: at epsilon 0 the guard that noises fewest test rows, and of equals the simplest.
  // (Not the one that is right most often: noise that helps on some test rows is luck.)
  Status Choose() {
    summary_.best.method = Method::kScalar;
    double fewest = std::numeric_limits<double>::infinity();
    for (const EvaluationRow& row :
         evaluation_ ? evaluation_->rows : std::vector<EvaluationRow>()) {
      FitChoice choice{row.method, row.asked_epsilon, "none", row.accuracy, row.noised_fraction};
      if (const auto guard = GuardOf(row.method)) {
        LUCID_ASSIGN(const Promise promise, PromiseThrough(*guard, row.asked_epsilon));
        choice.promise = promise.Title();
        if (row.asked_epsilon == 0 && row.noised_fraction < fewest) {
          fewest = row.noised_fraction;
          summary_.best = choice;
        }
      } else if (std::ranges::count(summary_.choices, Method::kNone, &FitChoice::method) > 0) {
        continue;  // N is the same at every epsilon
      }
      summary_.choices.push_back(std::move(choice));
    }
    const GuardKind guard = GuardOf(summary_.best.method).value_or(GuardKind::kScalar);
    LUCID_ASSIGN(summary_.promise, PromiseThrough(guard, 0));
    summary_.best.promise = summary_.promise.Title();
    const std::string words =
        guard == GuardKind::kScalar ? "" : fmt::format(" --guard {}", NameOf(guard));
    summary_.serve = fmt::format("lucid serve {}{}{}", ShellWord(summary_.run), words,
                                 guard == GuardKind::kExact ? " --latency-floor 20ms" : "");
    summary_.predict = fmt::format("lucid predict {} --input {} --clip{}", ShellWord(summary_.run),
                                   ShellWord(options_.csv), words);
    return Ok();
  }

  Status MakePage() {
    stage_ = 6;
    summary_.page = PathIn(summary_.run, kReportFile);
    if (state_.IsDone("report") && std::filesystem::exists(summary_.page)) return Ok();
    ReportOptions report;
    report.threads = options_.threads;
    LUCID_ASSIGN(const Report gathered, GatherReport(summary_.run, report, Progress(), stop_));
    LUCID_TRY(WriteFileAtomically(summary_.page, ReportPage(gathered)));
    return state_.Finish("report");
  }

  // ---- what the stages are made of ----

  void Warn(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      summary_.warnings.push_back(line);
      Say("warning: " + line);
    }
  }

  std::int64_t RowsPerUnit() const {
    if (options_.unit.empty()) return 0;
    return options_.rows_per_unit > 0 ? options_.rows_per_unit : kMostRowsPerUnit;
  }

  DataSize Size() const {
    DataSize size{dataset_.train.rows(), 1, dataset_.train.has_units()};
    std::map<std::string, std::int64_t> rows;
    for (const std::string& unit : dataset_.train.unit_ids) {
      size.largest_unit = std::max(size.largest_unit, ++rows[unit]);
    }
    return size;
  }

  std::int64_t ExpectedRows() const {
    return options_.expected_rows > 0 ? options_.expected_rows
                                      : RoundedToOneDigit(dataset_.train.rows());
  }

  Result<TrainOptions> Recipe() const {
    LUCID_ASSIGN(TrainOptions train,
                 TrainOptions::Preset(WantsFull(options_) ? "private" : "clipped"));
    train.epsilon = options_.train_epsilon;
    train.delta = options_.train_delta;
    train.rows_per_unit = std::max<std::int64_t>(RowsPerUnit(), 1);
    train.expected_rows = options_.expected_rows;
    if (WantsFull(options_) && options_.expected_rows == 0) {
      // ResolveOptions takes no number from the data for private training. This one is said aloud,
      // and it is one that no single unit decides.
      const DataSize size = Size();
      if (RoundedToOneDigit(size.rows) != RoundedToOneDigit(size.rows - size.largest_unit)) {
        return InvalidInput(fmt::format(
            "a single unit decides to what {} training rows are rounded: say how many are expected "
            "with the option expected_rows",
            size.rows));
      }
      train.expected_rows = ExpectedRows();
    }
    train = RecipeFor(train, ExpectedRows());
    if (!WantsFull(options_) && ExpectedRows() < kFewRows) {
      // Ranges of an inferred schema are wider than the data, and inputs that lie closer together
      // need more of the same. Found on heart, pima and breast cancer (docs/fit.md).
      train.rate = 2;
      train.epochs = 100;
    } else if (!WantsFull(options_) && ExpectedRows() < kManyRows) {
      // Batch 512 would be a hundred steps: N says the most common class (docs/fit.md).
      train.rate = 2;
      train.batch = 64;
      train.epochs = 50;
      train.standardise = false;
    }
    return train;
  }

  // What else of a private run's options came from the data, in words: the schema and the training
  // say that of themselves.
  std::string AfterLooking() const {
    if (!WantsFull(options_)) return "";
    return options_.expected_rows == 0 ? "the expected number of rows" : "";
  }

  bool Finished(const Certificate& certificate) const {
    return certificate.declared ? certificate.Outcome() != DeclaredOutcome::kOpen
                                : BoundOptions().Finished(certificate);
  }

  void SayBounds(const Certificate& certificate) const {
    if (certificate.declared) {
      Say(fmt::format("bounds: the declared bound {:.4g} is {}", certificate.declared->bounds[0],
                      NameOf(certificate.Outcome())));
      return;
    }
    for (const ClassBound& bound : certificate.classes) {
      Say(fmt::format("bounds: class {}: beta in [{:.4g}, {:.4g}]",
                      Quoted(dataset_.schema.label().categories[bound.label]), bound.beta_lower,
                      bound.beta_upper));
    }
    if (!summary_.finished) {
      Say(fmt::format("bounds: valid, could be tighter: lucid bound {} --resume goes on",
                      ShellWord(summary_.run)));
    }
  }

  Result<Promise> PromiseThrough(GuardKind guard, double epsilon) const {
    AccessTerms access{.scalar = guard == GuardKind::kScalar,
                       .epsilon = epsilon,
                       .trusted = summary_.standing == Standing::kChecked};
    if (summary_.certificate) access.domain = summary_.certificate->domain;
    return PromiseOfRun(summary_.run, "", access);
  }

  const FitOptions& options_;
  const FitListener& listener_;
  const std::stop_token stop_;
  FitState state_;
  int stage_ = 0;
  Dataset dataset_;
  Architecture architecture_;
  TrainOptions recipe_;
  std::optional<Evaluation> evaluation_;
  FitSummary summary_;
};

}  // namespace

Status FitOptions::Validate() const {
  if (csv.empty()) return InvalidInput("no CSV file is given");
  if (promise == WantedPromise::kWhatever) return InvalidInput("no promise is asked for");
  if (!(time_limit > 0)) {
    return InvalidInput(fmt::format("the time limit is {}, must be above 0", time_limit));
  }
  if (rows_per_unit < 0 || rows_per_unit > kMostRowsPerUnit) {
    return InvalidInput(
        fmt::format("rows-per-unit is {}, must be from 1 to {}", rows_per_unit, kMostRowsPerUnit));
  }
  if (expected_rows < 0) {
    return InvalidInput(fmt::format("expected-rows is {}, must be 1 or more", expected_rows));
  }
  return Ok();  // each stage checks its own options
}

Result<FitSummary> Fit(const FitOptions& options, const std::string& run,
                       const FitListener& listener, std::stop_token stop) {
  return Fitting(options, run, listener, std::move(stop)).Run();
}

}  // namespace lucid
