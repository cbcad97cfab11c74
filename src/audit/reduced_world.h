// The world without a unit, really made: its rows are deleted from the file, and everything is run
// anew.
#pragma once

#include <cstdint>
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
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// Why there is no such world of this run: its networks come from elsewhere, or its rows were chosen
// from the file. Empty: there is one.
std::string WhyNotReduced(const Manifest& manifest);

// For each of `rows` of the training table `train`: copies the run's data folder without the rows
// of its unit into a folder of its own in `scratch`, trains by the run's options and its seed, and
// certifies as `certificate` was. One world at a time, and as many more as `team`, unless that is
// null, has other processes; the files that guards read of what these make (1 GB at most, each) are
// brought here. Returns the folders of the new runs. Errors: files, training, kInterrupted; of a
// team.
Result<std::vector<std::string>> MakeReducedWorlds(
    const Manifest& manifest, const Certificate& certificate, const Table& train,
    std::span<const std::int64_t> rows, const std::string& scratch, TaskTeam* team, int threads,
    const ProgressCallback& progress, const std::stop_token& stop);

inline constexpr std::string_view kReducedWorldTopic = "audit: world without a unit";
// A helper's part: reads a row, makes its world in `scratch`, and writes its files.
Status AnswerReducedWorld(const Manifest& manifest, const Table& train, const std::string& scratch,
                          int threads, const std::stop_token& stop, ByteCursor& in,
                          std::string& out);

}  // namespace lucid
