// The world without a unit, really made: its rows are deleted from the file, and everything is run
// anew.
#pragma once

#include <stop_token>
#include <string>

#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// Why there is no such world of this run: its networks come from elsewhere, or its rows were chosen
// from the file. Empty: there is one.
std::string WhyNotReduced(const Manifest& manifest);

// Copies the run's data folder into `folder` without the rows of the unit of row `row` of the
// training table `train`, trains by the run's options and its seed, and certifies as `certificate`
// was. Returns the folder of the new run. Errors: files, training, kInterrupted.
Result<std::string> MakeReducedWorld(const Manifest& manifest, const Certificate& certificate,
                                     const Table& train, std::int64_t row,
                                     const std::string& folder, int threads, std::stop_token stop);

}  // namespace lucid
