// The world without a unit, really made: its rows are deleted from the file, and everything is run
// anew.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/task_team.h"
#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/data/data_source.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// Why there is no such world of this run: its networks come from elsewhere, or its rows were chosen
// from the file. Empty: there is one.
std::string WhyNotReduced(const Manifest& manifest);

// Where the plain file is that a run's data were made of: with it schema and split are made anew,
// too.
struct PlainFile {
  std::optional<DataSource> source;   // none: schema and split are held fixed
  std::vector<std::int64_t> records;  // InferredSchema::train_records
  std::string why_not;                // in words, if there is none
};

// Looks for the plain file, and runs everything on it again, in `folder`: only if that gives the
// rows and the schema of the run is it the file. Errors: kIo in `folder`.
Result<PlainFile> FindPlainFile(const Manifest& manifest, const std::string& folder);

// Deletes the unit of row `row` of the training table `train` from `plain`, or from the run's data
// folder if there is no plain file, and makes a data folder in `folder` of what is left. Errors:
// files; kMismatch: the rule of InferSchema refuses what is left, or gives it another schema.
Status MakeReducedData(const Manifest& manifest, const PlainFile& plain, const Table& train,
                       std::int64_t row, const std::string& folder);

// What all worlds of a run are made from, and where.
struct ReducedWorldMaker {
  const Manifest& manifest;
  const PlainFile& plain;
  const Table& train;
  std::string scratch;
  int threads = 0;
  std::stop_token stop;
};

// For each of `rows` of the training table: MakeReducedData into a folder of its own in the scratch
// folder, training by the run's options and its seed, and bounds as `certificate` has them; also
// the spatial bounds if `spatial`. One world at a time, and as many more as `team`, unless that is
// null, has other processes; the files that guards read of what these make (1 GB at most, each) are
// brought here. Returns the folders of the new runs. Errors: MakeReducedData, training,
// kInterrupted; of a team.
Result<std::vector<std::string>> MakeReducedWorlds(const ReducedWorldMaker& maker,
                                                   const Certificate& certificate, bool spatial,
                                                   std::span<const std::int64_t> rows,
                                                   TaskTeam* team,
                                                   const ProgressCallback& progress);

inline constexpr std::string_view kReducedWorldTopic = "audit: world without a unit";
// A helper's part: reads a row, makes its world in `scratch`, and writes its files. Errors: also
// where the plain file is here and not there, or there and not here.
Status AnswerReducedWorld(const Manifest& manifest, const Table& train, const std::string& scratch,
                          int threads, const std::stop_token& stop, ByteCursor& in,
                          std::string& out);

}  // namespace lucid
