// A leak map for people and for programs. Every function is pure: the same map gives the same
// bytes.
#pragma once

#include <string>
#include <vector>

#include "lucid/certificate/certificate.h"
#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/report/leak_map.h"

namespace lucid {

class SpatialBounds;

// Requires of all: `map` was computed for this data set, certificate and, where it is given, run.

// The picture alone, with its own light background: looks the same on light and dark pages.
std::string LeakSvg(const LeakMap& map, const Dataset& dataset);

// One JSON object: totals, "classes" with their witnesses, "rows" (the strongest), "hashes".
std::string LeakJson(const LeakMap& map, const Manifest& manifest);

// Which inputs a guard noises: a function on the grid of a leak map, positive or zero there.
// Infinite bounds count as very large ones: it can be drawn.
struct GuardRegion {
  std::vector<double> values;  // [j * grid + i]
  std::int64_t noised() const;
};

struct GuardRegions {
  GuardRegion scalar;
  std::optional<GuardRegion> spatial;  // if there are such bounds
  // The exact guard noises where the map leaks.
};
GuardRegions ComputeGuardRegions(const LeakMap& map, const Certificate& certificate,
                                 const SpatialBounds* spatial);

// The same of one declared bound for all classes; `network_error`: of N's computed confidence.
GuardRegion ComputeDeclaredRegion(const LeakMap& map, double bound, double network_error);

}  // namespace lucid
