// Bounds of linear programs that hold in exact arithmetic, from multipliers that need not be exact
// (Neumaier and Shcherbina, "Safe bounds in linear and mixed-integer linear programming", 2004).
#pragma once

#include <span>

#include "numeric/rounding.h"
#include "paper/model.h"

namespace lucid {

// Ensures: result >= cost . x for every x that satisfies the rows and `bounds` (which replace the
// model's column bounds; integrality is not used). Any multipliers are valid; good ones give a good
// bound. A multiplier that would need an infinite row side counts as 0, NaN too.
// Requires: bounds finite, one multiplier per row. Thread-safe. O(nonzeros).
UpperBound SafeUpperBound(const MilpModel& model, std::span<const Interval> bounds,
                          std::span<const double> multipliers);

// True only if no x satisfies the rows and `bounds`: the multipliers (a Farkas ray) prove it.
bool ProvesInfeasible(const MilpModel& model, std::span<const Interval> bounds,
                      std::span<const double> ray);

}  // namespace lucid
