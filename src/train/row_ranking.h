// An order of the rows in which alike ones stand side by side.
#pragma once

#include <cstdint>
#include <vector>

#include "lucid/data/dataset.h"
#include "lucid/data/units.h"

namespace lucid {

// The rows sorted by (smallest feature key of the unit's rows, unit key, row key). The rows of a
// unit stand together. Ensures: the relative order of two units depends on no third one, and not on
// where they stand in the table. So a network trained without a unit knows nothing of it, not even
// through rounding.
std::vector<std::int32_t> RankRows(const Table& table, const TableKeys& keys);

}  // namespace lucid
