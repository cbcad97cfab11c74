// From one plain CSV to a run that can be served: what `lucid fit` does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/certificate/receipt.h"
#include "lucid/data/infer_schema.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/evaluation/evaluation.h"
#include "lucid/promise/promise.h"

namespace lucid {

struct FitOptions {
  std::string csv;       // file [.gz] with a header
  std::string label;     // the column of the classes
  std::string unit;      // the column that says whose row it is; empty: every row is a unit
  std::string declared;  // a schema.csv to take columns from; `full` wants one (docs/fit.md)
  std::vector<std::string> ignore;  // columns that are left out
  // kLabels: clipped training, and bounds by a search. kFull, kBoth: private training with declared
  // bounds. Where the schema or the number of rows came from the data, such a run promises `full,
  // chosen after looking`.
  WantedPromise promise = WantedPromise::kLabels;
  // Empty: kRefuse, but kFill for kFull and kBoth, where no row may be an error.
  std::optional<MissingCells> missing;
  double test_share = 0.2;         // of the units, by a public hash
  std::string architecture;        // as Architecture::FromName; empty: by the number of rows
  std::int64_t expected_rows = 0;  // n0 of training; 0: the training rows to one digit
  std::int64_t rows_per_unit = 0;  // kept of each unit; 0: at most 8, which clipping needs
  double train_epsilon = 1;        // of private training
  double train_delta = 0;          // 0: the smaller of 1e-6 and 1 / (10 n0)
  double time_limit = 600;         // seconds for the bounds; at its end they hold, but are looser
  std::optional<std::uint64_t> seed;  // none: from the system's entropy
  int threads = 0;                    // 0: all cores
  std::vector<std::string> command;   // recorded in the files of the run

  // Names the field, its value and the rule.
  Status Validate() const;
};

// A guard at an epsilon: what it keeps, and what it costs.
struct FitChoice {
  Method method = Method::kNone;  // kNone: N itself, without a guard
  double epsilon = 0;             // of an answer
  std::string promise;            // Promise::Title
  double accuracy = 0;            // expected, on the test rows
  double noised = 0;              // share of the test rows; NaN for kNone
};

struct FitSummary {
  std::string run, data;  // folders
  InferredSchema schema;
  TrainSummary training;
  std::optional<Certificate> certificate;  // none: some members are not finite, or there are none
  bool finished = true;                    // false: the bounds hold, but could be tighter
  Standing standing = Standing::kUnproved;
  Promise promise;                 // of the choice that is recommended
  std::vector<FitChoice> choices;  // none without test rows
  FitChoice best;                  // what `serve` and `predict` are with
  double majority_share = 0;       // of the test rows, or the training rows where there are none
  std::string page;                // the report
  std::string serve, predict;      // the commands
  std::vector<std::string> warnings;
};

// Who looks on. Both may be empty.
struct FitListener {
  ProgressCallback progress;  // `what` begins with the number of the stage: "2/6 training"
  std::function<void(const std::string& line)> say;  // one line at the end of each stage
};

// Schema and split, training by the recipe for so many rows, bounds, check with a receipt,
// evaluation, page: all in the folder `run`, the data in RUN/data. Killed at any moment, or stopped
// (kInterrupted), it goes on when called again with the same options and file; limits, threads and
// command may differ.
// Errors: options; the CSV (see InferSchema); a folder that holds something else, or was begun with
// other options or another file; those of the stages; a proof that the checker refuses (kMismatch).
Result<FitSummary> Fit(const FitOptions& options, const std::string& run,
                       const FitListener& listener = {}, std::stop_token stop = {});

// For other programs: what `lucid fit --json` prints (docs/fit.md). `wanted`: the promise that was
// asked for; "kept" says whether it is.
std::string FitJson(const FitSummary& fit, WantedPromise wanted);

inline constexpr const char* kFitFile = "fit.json";    // in a run folder: how far it got
inline constexpr const char* kFitDataFolder = "data";  // in a run folder

}  // namespace lucid
