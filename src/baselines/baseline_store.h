// Privately trained networks that are kept beside the run: RUN/baselines/.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lucid/base/result.h"
#include "lucid/nn/network.h"

namespace lucid {

struct TrainedBaseline {
  Network network;
  double sigma = 0, rate = 0;  // DP-SGD's; 0 for ALIBI
  std::int64_t steps = 0;
  double seconds = 0;  // that its training took; 0: LoadOrTrain measures it
};

// Whether something was trained under this name and key before.
bool IsStored(const std::string& folder, const std::string& name, const std::string& key);

// What was trained under this name and key before, or what `train` gives now, stored. `key`: a text
// that holds everything that determines the network, noise from the system's entropy excepted
// (using such a network again releases nothing new). Errors: of train; files that are damaged or of
// another key are refused, never replaced; kIo.
Result<TrainedBaseline> LoadOrTrain(const std::string& folder, const std::string& name,
                                    const std::string& key,
                                    const std::function<Result<TrainedBaseline>()>& train);

}  // namespace lucid
