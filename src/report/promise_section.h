// The part of the page that tells the two promises apart.
#pragma once

#include <string>
#include <vector>

#include "lucid/report/report.h"

namespace lucid {

// Noised sets side by side, the price list, the game `deployed`. Requires: report.beside.
std::string PromisesSection(const Report& report);

// A bar for each guard that was attacked by real services without a unit: how often the attacker is
// right. Empty if no such game was played.
std::string DeployedPicture(const std::vector<const Report*>& reports);

// What was computed again of a private run; empty if nothing was.
std::string ChecksTable(const Audit& audit);

}  // namespace lucid
