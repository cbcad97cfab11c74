// What an operator should be told before a run is trusted: lines for people, never for clients.
#pragma once

#include <string>
#include <vector>

#include "lucid/data/dataset.h"
#include "lucid/nn/network.h"

namespace lucid {

// A range that ends where one unit does gives that unit away: in errors, and by itself.
// `is_private`: the promise `full` is about every data set, so that no rows may have decided the
// schema; a file that does not say who wrote it is mentioned.
std::vector<std::string> DataWarnings(const Dataset& dataset, bool is_private);

// Whether N learned anything: N is not better than always saying the most common class, or says one
// class nearly always. Judged by the test rows, or the training rows where there are none.
std::vector<std::string> NetworkWarnings(const Network& network, const Dataset& dataset);

}  // namespace lucid
