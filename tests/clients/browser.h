// Where a real browser is, and what drives it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

namespace lucid::test {

// The path of a program, or "".
inline std::string Find(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (std::filesystem::exists(folder + "/" + name)) return folder + "/" + name;
  }
  return "";
}

inline std::string PlaywrightFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string folder =
      cache != nullptr ? cache : std::string(home != nullptr ? home : "") + "/.cache";
  return folder + "/lucid/playwright-core-1.65.0";
}

}  // namespace lucid::test
