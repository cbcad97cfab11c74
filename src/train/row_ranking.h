// An order of the rows in which alike ones stand side by side.
#pragma once

#include <cstdint>
#include <vector>

#include "lucid/data/dataset.h"

namespace lucid {

// The rows sorted by a key of their own features only, equal keys by row number. Ensures: the
// relative order of two rows depends on no third one. So leaving a row out, or changing it, moves
// no other: a network trained without a row must not know anything of that row, not even through
// rounding.
std::vector<std::int32_t> RankRows(const Table& table);

}  // namespace lucid
