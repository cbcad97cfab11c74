// The file in which an operator keeps what private trainings on one population cost.
//
//   lucid-population-1
//   total EPSILON DELTA
//   spent EPSILON DELTA RUN-KEY        one line per training
#pragma once

#include <optional>
#include <string>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// What a population is called: its file without folder and extension.
std::string PopulationName(const std::string& path);

// Writes what the training `run_key` costs into the file, before its first step. A training that
// goes on, or is one of several shards, is there already and is charged once. `total` makes the
// file; where it is there already, it holds another total or none.
// Errors: a file that is not there and no total, another total than the file's, more than is left;
// kIo; damaged; in use by another process. Nothing is written then.
Result<PopulationAccount> ChargePopulation(const std::string& path,
                                           const std::optional<PrivacyTotal>& total,
                                           const PrivacyTotal& cost, const Digest& run_key);

}  // namespace lucid
