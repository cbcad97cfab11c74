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

// A browser and what drives it; `missing` says what is not there, and is empty if all is.
struct Browser {
  std::string node = Find("node"), chromium = Find("chromium"), playwright = PlaywrightFolder();
  std::string missing;

  Browser() {
    if (node.empty() || chromium.empty()) {
      missing = "no Node.js or no Chromium here";
    } else if (!std::filesystem::exists(playwright)) {
      missing = "no playwright-core here: tools/get_playwright fetches it";
    }
  }
};

// Where a test leaves its pictures: where the caller wants them, or `otherwise`.
inline std::string PicturesFolder(const std::string& otherwise) {
  const char* pictures = std::getenv("LUCID_PICTURES");
  return pictures != nullptr ? pictures : otherwise;
}

}  // namespace lucid::test
