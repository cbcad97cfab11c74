#include "lucid/evaluation/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>

#include "baselines/privacy_noise.h"
#include "evaluation/expected_accuracy.h"
#include "evaluation/guard_files.h"
#include "evaluation/labels.h"
#include "evaluation/study_team.h"
#include "evaluation/trained_baselines.h"
#include "lucid/base/version.h"
#include "lucid/baselines/naive_idp.h"
#include "lucid/certificate/guards_digest.h"
#include "lucid/data/units.h"
#include "lucid/guard/guard.h"
#include "lucid/promise/promise.h"

namespace lucid {
namespace {

constexpr double kNotApplicable = std::numeric_limits<double>::quiet_NaN();
// So many queries are sampled for the check of a method that draws (at least every row once).
constexpr std::int64_t kSampledQueries = 20'000;

double AccuracyOf(const NetworkLabels& label, const Table& table) {
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < table.rows(); ++i) right += label(table.row(i)) == table.y[i];
  return static_cast<double>(right) / static_cast<double>(table.rows());
}

// Everything that the rows are computed from.
struct Study {
  const std::string& run;
  const EvaluationOptions& options;
  const ProgressCallback& progress;
  std::stop_token stop;
  TaskTeam* team;  // or null
  RunNetwork opened;
  NetworkLabels label;  // of N
  Table test;           // canonical
  std::vector<std::int64_t> equal_inputs;
  double accuracy;  // of N

  std::int64_t passes() const {
    return std::max<std::int64_t>(1, kSampledQueries / std::max<std::int64_t>(1, test.rows()));
  }
  // Every query draws for itself.
  std::vector<std::int64_t> EachItsOwn() const {
    std::vector<std::int64_t> own(static_cast<std::size_t>(test.rows()));
    std::iota(own.begin(), own.end(), 0);
    return own;
  }
};

// Why the method cannot be evaluated on this run, or nothing.
Result<std::optional<std::string>> WhyNot(const std::string& run, const Manifest& manifest,
                                          const Table* train, const EvaluationOptions& options,
                                          Method method) {
  if (const auto guard = GuardOf(method)) {
    return MissingGuardFile(run, options.certificate, *guard);
  }
  if (!IsTrained(method)) return std::optional<std::string>();
  if (train == nullptr) {
    return std::optional(fmt::format("{} needs the training rows, and '{}' no longer holds them",
                                     NameOf(method), manifest.data_directory));
  }
  if (!options.train && !TrainOptions::FromCanonical(manifest.training).ok()) {
    return std::optional(fmt::format(
        "{} cannot train like this run, whose networks come from elsewhere: say how many epochs",
        NameOf(method)));
  }
  return std::optional<std::string>();
}

Result<Guard> OpenGuard(const Study& study, Method method, double epsilon) {
  return Guard::Open(
      study.run, study.options.certificate,
      {.guard = *GuardOf(method), .mechanism = study.options.mechanism, .epsilon = epsilon},
      GuardKey::Random());
}

// Makes every row canonical, which is the only form of an input that guards answer.
Status Canonicalize(const std::string& run, const EvaluationOptions& options, Table& table) {
  LUCID_ASSIGN(const Guard guard, Guard::Open(run, options.certificate, {}, GuardKey::Random()));
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    const auto row = std::span(table.x).subspan(static_cast<std::size_t>(i * table.features),
                                                static_cast<std::size_t>(table.features));
    if (const Status status = guard.Canonicalize(row); !status.ok()) {
      return InvalidInput(fmt::format("test row {}: {}", i, status.error().message));
    }
  }
  return Ok();
}

// Times single queries on this thread, row after row. It asks 2,000 of them, or fewer if two
// seconds have passed, but at least 20.
template <typename Ask>
void TimeAccess(const Study& study, EvaluationRow& row, const Ask& ask) {
  if (study.options.only_expected) return;
  using Clock = std::chrono::steady_clock;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(study.test.rows(), 3); ++i) ask(i);  // warm
  std::vector<double> times;
  const Clock::time_point start = Clock::now();
  for (std::int64_t i = 0; times.size() < 2000; ++i) {
    const Clock::time_point before = Clock::now();
    if (times.size() >= 20 && before - start > std::chrono::seconds(2)) break;
    ask(i % study.test.rows());
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
  }
  std::ranges::sort(times);
  const auto at = [&](double share) {
    return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  row.access_us_p50 = at(0.5);
  row.access_us_p99 = at(0.99);
  row.access_queries = std::ssize(times);
}

EvaluationRow NewRow(Method method, double epsilon) {
  EvaluationRow row;
  row.method = method;
  row.epsilon = row.asked_epsilon = epsilon;
  row.answer_epsilon = row.total_epsilon = row.total_delta = kNotApplicable;
  row.sampled_accuracy = row.sampled_standard_error = kNotApplicable;
  row.training_seconds = row.accuracy_deviation = kNotApplicable;
  row.sigma = row.delta = row.clip = kNotApplicable;
  return row;
}

void SetAccuracy(const Study& study, EvaluationRow& row, double accuracy) {
  row.accuracy = accuracy;
  row.standard_error =
      std::sqrt(accuracy * (1 - accuracy) / static_cast<double>(study.test.rows()));
  row.accuracy_drop = study.accuracy - accuracy;
}

// Expected accuracy, sampled check and noised share of a method that draws with this mechanism.
template <typename Ask>
Status Measure(const Study& study, std::span<const AccessDecision> decisions,
               const Mechanism& mechanism, std::span<const std::int64_t> same_answer,
               EvaluationRow& row, const Ask& ask) {
  const auto rows = static_cast<double>(study.test.rows());
  const RightAnswers right = CountRightAnswers(
      study.test, decisions, {mechanism.ProbabilityOfLabel(), mechanism.ProbabilityOfEachOther()},
      same_answer);
  SetAccuracy(study, row, right.expected / rows);
  row.noised_fraction =
      static_cast<double>(std::ranges::count_if(decisions, &AccessDecision::noised)) / rows;
  if (study.options.only_expected) return Ok();
  LUCID_ASSIGN(const SampledAccuracy sampled,
               SampleAccuracy(study.test, right, study.passes(), ask));
  row.sampled_accuracy = sampled.accuracy;
  row.sampled_standard_error = sampled.standard_error;
  row.sampled_queries = study.passes() * study.test.rows();
  return Ok();
}

Draw DrawFrom(PrivacyNoise& noise) { return {noise.Next(), noise.Next(), noise.Next()}; }

std::string RowsItHoldsFor(const Study& study) {
  const Manifest& manifest = study.opened.manifest;
  if (!manifest.partial) return "";
  return fmt::format(", only for the {} of {} rows that have a leave-one-out network",
                     manifest.members, manifest.units);
}

Result<EvaluationRow> GuardRow(const Study& study, Method method, double epsilon) {
  EvaluationRow row = NewRow(method, epsilon);
  LUCID_ASSIGN(const Promise promise,
               PromiseOfRun(study.run, study.options.certificate,
                            {.scalar = method == Method::kScalar, .epsilon = epsilon}));
  row.guarantee = promise.Price();
  row.promise = promise.name();
  if (promise.labels()) row.answer_epsilon = epsilon;
  if (promise.full()) {
    row.total_epsilon = promise.loss()->epsilon;
    row.total_delta = promise.loss()->delta;
  }
  LUCID_ASSIGN(const Guard guard, OpenGuard(study, method, epsilon));
  std::vector<AccessDecision> decisions;
  for (std::int64_t i = 0; i < study.test.rows(); ++i) {
    const auto x = study.test.row(i);
    decisions.push_back({study.label(x), guard.Ask(x).noised});
  }
  // The first pass asks as a client does; the others bring draws of their own, because one key
  // gives an input one answer for ever.
  LUCID_ASSIGN(PrivacyNoise noise, PrivacyNoise::Create({}));
  std::vector<Draw> draws(decisions.size());
  const auto ask = [&](std::int64_t pass, std::int64_t i) {
    const auto x = study.test.row(i);
    if (pass == 0) return guard.Label(x);
    const std::int64_t first = study.equal_inputs[i];
    if (first == i) draws[i] = DrawFrom(noise);
    return guard.Ask(x, Budget::kLeft, draws[first]).label;
  };
  LUCID_TRY(Measure(study, decisions, guard.mechanism(), study.equal_inputs, row, ask));
  std::vector<float> x(static_cast<std::size_t>(study.test.features));
  Status refused = Ok();
  TimeAccess(study, row, [&](std::int64_t i) {
    std::ranges::copy(study.test.row(i), x.begin());
    if (Status status = guard.Canonicalize(x); !status.ok()) refused = std::move(status);
    return guard.Label(x);
  });
  LUCID_TRY(refused);
  return row;
}

// The row of a naive access. `decide` is the costly part of a query, which is timed; `decisions` is
// what it says of every test row.
template <typename Decide>
Result<EvaluationRow> NaiveRow(const Study& study, Method method, double epsilon,
                               std::span<const AccessDecision> decisions, const Decide& decide) {
  EvaluationRow row = NewRow(method, epsilon);
  row.guarantee = method == Method::kNaiveNoise
                      ? fmt::format("{}-DP per query", epsilon)
                      : fmt::format("{}-iDP per query{}", epsilon, RowsItHoldsFor(study));
  row.promise = "per answer";
  row.answer_epsilon = epsilon;
  LUCID_ASSIGN(const Mechanism mechanism,
               Mechanism::Create(study.options.mechanism, epsilon,
                                 study.opened.network.architecture.classes()));
  LUCID_ASSIGN(PrivacyNoise noise, PrivacyNoise::Create({}));
  const auto answer = [&](const AccessDecision& decision) {
    return mechanism.Answer(decision.label, decision.noised, DrawFrom(noise));
  };
  LUCID_TRY(Measure(study, decisions, mechanism, study.EachItsOwn(), row,
                    [&](std::int64_t, std::int64_t i) { return answer(decisions[i]); }));
  TimeAccess(study, row, [&](std::int64_t i) { return answer(decide(study.test.row(i))); });
  return row;
}

EvaluationRow NoneRow(const Study& study) {
  EvaluationRow row = NewRow(Method::kNone, kNotApplicable);
  row.guarantee = "none";
  SetAccuracy(study, row, study.accuracy);
  TimeAccess(study, row, [&](std::int64_t i) { return study.label(study.test.row(i)); });
  return row;
}

Result<EvaluationRow> TrainedRow(const Study& study, Method method, double asked,
                                 const std::vector<TrainedBaseline>& baselines) {
  EvaluationRow row = NewRow(method, asked);
  row.epsilon = EpsilonOfBaseline(study.options, asked);
  row.guarantee = method == Method::kDpSgd
                      ? fmt::format("({}, {})-DP", row.epsilon, study.options.delta)
                      : fmt::format("{}-label-DP", row.epsilon);
  if (!study.options.noise_seed) {
    row.promise = method == Method::kDpSgd ? "whole network" : "label-DP";
    row.total_epsilon = row.epsilon;
    row.total_delta = method == Method::kDpSgd ? study.options.delta : 0;
  } else {
    row.guarantee = fmt::format("none: the noise comes from a seed (else {})", row.guarantee);
  }
  std::vector<double> accuracies;
  row.training_seconds = 0;
  for (const TrainedBaseline& baseline : baselines) {
    LUCID_ASSIGN(const NetworkLabels label, NetworkLabels::Of(baseline.network));
    accuracies.push_back(AccuracyOf(label, study.test));
    row.training_seconds += baseline.seconds;
  }
  const auto count = static_cast<double>(baselines.size());
  row.networks = std::ssize(baselines);
  row.training_seconds /= count;
  const double mean = std::accumulate(accuracies.begin(), accuracies.end(), 0.0) / count;
  SetAccuracy(study, row, mean);
  if (baselines.size() > 1) {
    double square = 0;
    for (const double a : accuracies) square += (a - mean) * (a - mean);
    row.accuracy_deviation = std::sqrt(square / (count - 1));
    row.standard_error = std::hypot(row.standard_error, row.accuracy_deviation / std::sqrt(count));
  }
  if (method == Method::kDpSgd) {
    row.sigma = baselines.front().sigma;
    row.delta = study.options.delta;
    const bool recipe = study.options.recipe && !study.options.train;
    row.clip = recipe ? TrainOptions::Preset("private").value().clip : study.options.clip;
  }
  LUCID_ASSIGN(const NetworkLabels first, NetworkLabels::Of(baselines.front().network));
  TimeAccess(study, row, [&](std::int64_t i) { return first(study.test.row(i)); });
  return row;
}

// The rows of one method, one per epsilon.
Result<std::vector<EvaluationRow>> RowsOf(const Study& study, Method method, const Table* train) {
  std::vector<EvaluationRow> rows;
  if (method == Method::kNone) {
    rows.push_back(NoneRow(study));
    return rows;
  }
  if (IsTrained(method)) {
    LUCID_ASSIGN(const auto baselines,
                 TrainBaselines(study.run, study.opened.manifest, *train, method == Method::kDpSgd,
                                study.options, study.team, study.progress, study.stop));
    for (std::size_t k = 0; k < baselines.size(); ++k) {
      LUCID_ASSIGN(EvaluationRow row,
                   TrainedRow(study, method, study.options.epsilons[k], baselines[k]));
      rows.push_back(std::move(row));
    }
    return rows;
  }
  const auto each_epsilon = [&](const auto& row_of) -> Result<std::vector<EvaluationRow>> {
    for (const double epsilon : study.options.epsilons) {
      if (study.stop.stop_requested()) return Interrupted("stopped on request");
      LUCID_ASSIGN(EvaluationRow row, row_of(epsilon));
      rows.push_back(std::move(row));
    }
    return rows;
  };
  if (GuardOf(method)) {
    return each_epsilon([&](double epsilon) { return GuardRow(study, method, epsilon); });
  }
  if (method == Method::kNaiveNoise) {
    const auto decide = [&](std::span<const float> x) {
      return AccessDecision{study.label(x), true};
    };
    std::vector<AccessDecision> decisions;
    for (std::int64_t i = 0; i < study.test.rows(); ++i) {
      decisions.push_back(decide(study.test.row(i)));
    }
    return each_epsilon(
        [&](double epsilon) { return NaiveRow(study, method, epsilon, decisions, decide); });
  }
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(study.run, study.progress));
  LUCID_ASSIGN(const NaiveIdp naive, NaiveIdp::Create(ensemble, study.options.threads));
  LUCID_ASSIGN(const auto decisions, DecideAll(naive, study.test, study.team, study.options.threads,
                                               study.progress, study.stop));
  const auto decide = [&](std::span<const float> x) { return naive.Decide(x); };
  return each_epsilon(
      [&](double epsilon) { return NaiveRow(study, method, epsilon, decisions, decide); });
}

Status CheckTables(const Manifest& manifest, const Table& test, const Table* train) {
  if (test.rows() == 0) return InvalidInput("no test rows: accuracy needs some");
  if (test.features != manifest.architecture.inputs()) {
    return InvalidInput(fmt::format("test rows of {} features, the run has {}", test.features,
                                    manifest.architecture.inputs()));
  }
  if (train != nullptr && !IsDigestOf(*train, manifest.train_digest)) {
    return Mismatch("the training rows are not those of the run: their digests differ");
  }
  return Ok();
}

}  // namespace

double MajorityShare(const Table& table) {
  std::map<std::int32_t, std::int64_t> counts;
  std::int64_t most = 0;
  for (const std::int32_t label : table.y) most = std::max(most, ++counts[label]);
  return static_cast<double>(most) / static_cast<double>(table.rows());
}

Status EvaluationOptions::Validate() const {
  if (epsilons.empty()) return InvalidInput("no epsilon to evaluate");
  for (const double epsilon : epsilons) {
    if (!(epsilon >= 0 && std::isfinite(epsilon))) {
      return InvalidInput(fmt::format("epsilon is {}, must be a finite number >= 0", epsilon));
    }
  }
  if (!(smallest_epsilon > 0 && std::isfinite(smallest_epsilon))) {
    return InvalidInput(
        fmt::format("the epsilon of baselines in the place of 0 is {}, must be "
                    "above 0 and finite",
                    smallest_epsilon));
  }
  if (repeats < 1 || repeats > 1000) {
    return InvalidInput(fmt::format("repeats is {}, must be from 1 to 1000", repeats));
  }
  return train ? train->Validate() : Ok();
}

bool EvaluationOptions::SharesWork() const {
  return methods.empty() || std::ranges::any_of(methods, [](Method method) {
           return IsTrained(method) || method == Method::kNaiveIdp;
         });
}

Status HelpEvaluate(const std::string& run, const Table* train, Team& team, int threads,
                    std::stop_token stop) {
  LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(run));
  StudyHelper helper(run, opened.manifest, train, threads);
  const TeamService service{
      [&](std::string_view topic, std::stop_token nobody_waits) -> Status {
        if (!StudyHelper::Serves(topic))
          return InternalError("the leader's tasks are not known here");
        return helper.Begin(topic, std::move(nobody_waits));
      },
      [&](ByteCursor& in, int worker, std::string& out) { return helper.Answer(in, worker, out); }};
  return HelpTaskTeam(team, SubjectOfStudy(opened.manifest), threads, service, std::move(stop));
}

Result<Evaluation> Evaluate(const std::string& run, const Table& test, const Table* train,
                            const EvaluationOptions& options, const ProgressCallback& progress,
                            std::stop_token stop) {
  LUCID_TRY(options.Validate());
  LUCID_ASSIGN(RunNetwork opened, OpenRunNetwork(run));
  LUCID_TRY(CheckTables(opened.manifest, test, train));
  Evaluation evaluation;
  std::vector<Method> methods;
  for (const Method method : options.methods.empty() ? AllMethods() : options.methods) {
    LUCID_ASSIGN(const auto why_not, WhyNot(run, opened.manifest, train, options, method));
    if (!why_not) {
      methods.push_back(method);
    } else if (options.methods.empty()) {
      evaluation.left_out.emplace_back(method, *why_not);
    } else {
      return InvalidInput(*why_not);
    }
  }
  std::unique_ptr<TaskTeam> helpers;
  if (options.SharesWork()) {
    LUCID_ASSIGN(helpers, GatherForStudy(options.team, opened.manifest, stop));
    if (helpers) stop = helpers->stop();
  }
  Table rows = test;
  if (std::ranges::any_of(methods, [](Method m) { return GuardOf(m).has_value(); }))
    LUCID_TRY(Canonicalize(run, options, rows));
  LUCID_ASSIGN(NetworkLabels label, NetworkLabels::Of(opened.network));
  const double accuracy = AccuracyOf(label, rows);
  std::vector<std::int64_t> equal_inputs = EqualInputs(rows);
  const Study study{run,
                    options,
                    progress,
                    stop,
                    helpers.get(),
                    std::move(opened),
                    std::move(label),
                    std::move(rows),
                    std::move(equal_inputs),
                    accuracy};
  std::int64_t total = 0;
  for (const Method method : methods) {
    total += method == Method::kNone ? 1 : std::ssize(options.epsilons);
  }
  for (const Method method : methods) {
    if (progress) {
      progress({"evaluating", "rows", std::ssize(evaluation.rows), total, 0, NameOf(method)});
    }
    LUCID_ASSIGN(auto of_method, RowsOf(study, method, train));
    std::ranges::move(of_method, std::back_inserter(evaluation.rows));
  }
  const Manifest& manifest = study.opened.manifest;
  evaluation.run = run;
  evaluation.version = Version();
  evaluation.test_rows = test.rows();
  evaluation.members = manifest.members;
  evaluation.rows_of_training = manifest.rows;
  evaluation.partial = manifest.partial;
  evaluation.mechanism = NameOf(options.mechanism);
  evaluation.architecture = manifest.architecture.Canonical();
  evaluation.run_key = manifest.run_key;
  evaluation.network_digest = manifest.network_digest;
  evaluation.test_digest = TableDigest(test);
  LUCID_ASSIGN(evaluation.guards_digest, GuardsDigestOf(run, options.certificate));
  evaluation.data = manifest.data_directory;
  evaluation.majority_share = MajorityShare(test);
  evaluation.advice = AdviceOf(evaluation);
  return evaluation;
}

}  // namespace lucid
