// The picture of a leak map as SVG. Shapes have classes ("lm-..."), colours come from a style
// sheet: the same picture is a file of its own or a part of a page.
#pragma once

#include <cstdint>
#include <string>

#include "lucid/data/dataset.h"
#include "lucid/report/leak_map.h"
#include "lucid/report/leak_picture.h"

namespace lucid {

// If there are more training rows, a sample is drawn: more dots hide what they show.
inline constexpr std::int64_t kMostDots = 1500;

enum class Shade { kLight, kDark };

// The rules that colour the picture.
std::string LeakSvgStyle(Shade shade);

// The <svg> element. `style` goes into a <style> element of its own if it is not empty.
std::string LeakSvgElement(const LeakMap& map, const Dataset& dataset, const std::string& style);

// The same square three times (twice without spatial bounds), each with what one guard noises: a
// <figure> of its own, named by the guard and the share of the grid that it noises.
std::string GuardPanels(const LeakMap& map, const Dataset& dataset, const GuardRegions& regions);

// One such square: `id` is unique on the page, `caption` goes before "noises ... of all inputs".
// Without `noised`: what leaks, and nothing that is noised.
std::string NoisedPanel(const LeakMap& map, const Dataset& dataset, const std::string& id,
                        std::string_view caption, const GuardRegion* noised);
// What the exact guard noises on the grid: where the map leaks.
GuardRegion LeakingRegion(const LeakMap& map);

// Class c has the colours "lm-region-k" and "lm-dot-k" with k = c modulo this.
inline constexpr int kClassColours = 6;

}  // namespace lucid
