// The world without a unit, really made: its rows are deleted from the file, and everything is run
// anew.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

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

// Trains on MakeReducedData by the run's options and its seed, and certifies as `certificate` was;
// also the spatial bounds if `spatial`. Returns the folder of the new run. Errors: MakeReducedData,
// training, kInterrupted.
Result<std::string> MakeReducedWorld(const Manifest& manifest, const Certificate& certificate,
                                     const std::string& data, const std::string& folder,
                                     bool spatial, int threads, std::stop_token stop);

}  // namespace lucid
