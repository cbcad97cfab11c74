// What this build is; recorded in every artefact.
#pragma once

#include <string>

namespace lucid {

std::string Version();    // "0.1.0"
std::string BuildInfo();  // compiler and build type

}  // namespace lucid
