// A data set as a NumPy archive.
#pragma once

#include <string>

#include "lucid/base/result.h"
#include "lucid/data/dataset.h"

namespace lucid {

// Writes float32 train_x [n,d], test_x [m,d] and int64 train_y [n], test_y [m], little endian, C
// order, stored (not compressed). Equal data sets give equal bytes on every machine: time stamps
// are fixed. All or nothing.
Status WriteNpz(const Dataset& dataset, const std::string& path);

}  // namespace lucid
