// What privacy costs: accuracy and access time of every guard and baseline on a run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/base/team.h"
#include "lucid/certificate/certificate.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/guard/guard.h"
#include "lucid/guard/mechanism.h"
#include "lucid/nn/network.h"
#include "lucid/train/accountant.h"

namespace lucid {

enum class Method {
  kNone,        // N itself
  kScalar,      // the guards
  kSpatial,     //
  kExact,       //
  kNaiveNoise,  // the mechanism on every input
  kNaiveIdp,    // the mechanism where one of all members disagrees
  kDpSgd,       // a network trained privately, without a guard
  kAlibi,       // the same, for the labels only
};
std::string_view NameOf(Method method);  // "none", "scalar", ..., "naive-noise", "dpsgd", "alibi"
Result<Method> MethodNamed(std::string_view name);
std::span<const Method> AllMethods();
std::optional<GuardKind> GuardOf(Method method);  // of one that is a guard
bool IsTrained(Method method);                    // a network trained otherwise: DP-SGD, ALIBI

struct EvaluationOptions {
  // Empty: all; those whose files the run does not have are left out, and the result says why.
  std::vector<Method> methods;
  std::vector<double> epsilons = {0, 0.2, 1};  // per query; of training for kDpSgd and kAlibi
  MechanismKind mechanism = MechanismKind::kPaper;
  std::string certificate;  // empty: RUN/certificate.json
  // Accuracy and noised share only: answers are not sampled and access is not timed, so that it
  // takes one pass over the rows.
  bool only_expected = false;

  // These are read by kDpSgd and kAlibi only.
  double smallest_epsilon = 0.02;  // in the place of 0, which they cannot do
  double delta = 1e-5;
  double clip = 1;
  Conversion conversion = Conversion::kTight;
  std::optional<TrainOptions> train;  // nullopt: as the run was trained
  // kDpSgd without `train`: the public recipe of private training (RecipeFor) and its clip instead
  // of the run's options and `clip`, which are the paper's.
  bool recipe = true;
  int repeats = 3;                          // networks per epsilon; the accuracy is their mean
  std::optional<std::uint64_t> noise_seed;  // given: repeatable, and nothing is private

  int threads = 0;  // 0: all cores. Access times are measured on one, with nothing beside
  // Processes that share what SharesWork says, with HelpEvaluate; null: none. They do not show in
  // the figures.
  Team* team = nullptr;

  Status Validate() const;
  // Whether there is something to share: inputs that all members look at (kNaiveIdp), or networks
  // to train (kDpSgd, kAlibi).
  bool SharesWork() const;
};

// One method at one epsilon. Shares are between 0 and 1. NaN means that a figure does not apply.
struct EvaluationRow {
  Method method = Method::kNone;
  double epsilon = 0;  // that was used: above asked_epsilon where a baseline cannot do that
  double asked_epsilon = 0;
  std::string guarantee;  // in words: Promise::Price, "(1, 1e-05)-DP", "1-label-DP", "none"
  // The promise of the row. N and the guards have Promise::name: "none", "labels", "full" or
  // "labels+full". Baselines make promises of their own: "per answer" (the naive ones), "whole
  // network" (DP-SGD), "label-DP" (ALIBI).
  std::string promise = "none";
  double answer_epsilon = 0;  // that every new answer costs; NaN: answers cost nothing
  double total_epsilon = 0, total_delta = 0;  // once, for all answers; NaN: no such price
  double accuracy = 0;        // expected, in closed form from the probabilities of the answers
  double accuracy_drop = 0;   // accuracy of N minus that
  double standard_error = 0;  // of the accuracy: of so many test rows, and of trained networks
  double noised_fraction = 0;
  double access_us_p50 = 0, access_us_p99 = 0;  // one query in this process, microseconds
  std::int64_t access_queries = 0;              // that were timed

  // The check by sampling, of methods that draw.
  double sampled_accuracy = 0, sampled_standard_error = 0;
  std::int64_t sampled_queries = 0;

  // Trained baselines have these, too.
  double training_seconds = 0;    // mean of one network
  double accuracy_deviation = 0;  // standard deviation between networks; NaN for one
  std::int64_t networks = 0;
  double sigma = 0, delta = 0, clip = 0;
};

struct Evaluation {
  std::string run, version, test;  // test: where the rows come from
  std::vector<std::string> command;
  std::string data;  // the folder of the run's data
  std::int64_t test_rows = 0, members = 0, rows_of_training = 0;
  double majority_share = 0;  // of the most common class among the test rows: what is right anyway
  bool partial = false;       // not every row has a member: guards say nothing of the others
  std::string mechanism, architecture;
  Digest run_key, network_digest, test_digest;
  std::optional<Digest> guards_digest;  // GuardsDigest of the certificate, if there was one
  std::vector<EvaluationRow> rows;
  std::vector<std::pair<Method, std::string>> left_out;  // and why
  std::vector<std::string> advice;                       // AdviceOf this, when it was made
};

// Which promise at which price on this data, a line each, with the commands; last what such a
// choice costs itself.
std::vector<std::string> AdviceOf(const Evaluation& evaluation);

// The share of the most common class. Requires: a table with rows.
double MajorityShare(const Table& table);

// Requires: `test` and `train` are encoded by the run's schema. `train`: the rows the run was
// trained on, checked against its manifest; only kDpSgd and kAlibi need them. Trained baselines are
// kept in RUN/baselines and used again, so a stopped evaluation goes on where it was.
// Errors: options; files that are missing (naming the command that makes them; only if `methods`
// asks for them by name), damaged or of another run; a run that was not trained by LUCID and no
// options.train; a sampled accuracy that contradicts the expected one (kInternal); kInterrupted.
Result<Evaluation> Evaluate(const std::string& run, const Table& test, const Table* train,
                            const EvaluationOptions& options, const ProgressCallback& progress = {},
                            std::stop_token stop = {});

// The part of a helper in `team` while rank 0 evaluates the same run. `train`: the run's training
// rows, or null where they are not; then it refuses to train. Returns when rank 0 has ended.
// Requires: not rank 0. Errors: a run or a program that are not those of rank 0.
Status HelpEvaluate(const std::string& run, const Table* train, Team& team, int threads,
                    std::stop_token stop = {});

// For other programs ({"rows": [{"method", "epsilon", "accuracy", ...}]}), for people,
// for spreadsheets, for papers.
std::string EvaluationJson(const Evaluation& evaluation);
std::string EvaluationText(const Evaluation& evaluation);
std::string EvaluationCsv(const Evaluation& evaluation);
std::string EvaluationLatex(const Evaluation& evaluation);
// Reads back what EvaluationJson wrote. A field that it leaves out is NaN or 0. Errors name the
// source and the field.
Result<Evaluation> ParseEvaluation(std::string_view text, const std::string& source);

inline constexpr const char* kEvaluationFile = "evaluation.json";
inline constexpr const char* kBaselinesFolder = "baselines";

// The share of right answers on `test` that the scalar guard is expected to give with the paper's
// mechanism: an input is noised if its confidence, less N's forward error, is not above the bound
// of its class. Errors: epsilon negative or not finite; no test rows.
Result<double> ScalarAccuracy(const Evaluator& network, const Certificate& certificate,
                              const Table& test, double epsilon);

}  // namespace lucid
