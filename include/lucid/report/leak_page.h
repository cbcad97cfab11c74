// A leak map for people and for programs. Every function is pure: the same map gives the same
// bytes.
#pragma once

#include <string>

#include "lucid/data/dataset.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/report/leak_map.h"

namespace lucid {

// Requires of all: `map` was computed for this data set and, where it is given, this run.

// The picture alone, with its own light background: looks the same on light and dark pages.
std::string LeakSvg(const LeakMap& map, const Dataset& dataset);

// One self-contained page: no scripts, no external assets; light and dark; prints in light colours.
// Well-formed XML as well as HTML.
std::string LeakPage(const LeakMap& map, const Dataset& dataset, const Manifest& manifest);

// One JSON object: totals, "classes" with their witnesses, "rows" (the strongest), "hashes".
std::string LeakJson(const LeakMap& map, const Manifest& manifest);

}  // namespace lucid
