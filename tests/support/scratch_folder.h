// The folders that tests write into.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <deque>
#include <filesystem>
#include <string>
#include <system_error>

namespace lucid {

// A new folder, which goes at the end with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(testing::TempDir() + "lucid-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no folder " << path_;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A new folder, which goes when the program of the test ends.
inline const std::string& ScratchFolder() {
  static std::deque<TemporaryFolder> folders;
  return folders.emplace_back().path();
}

}  // namespace lucid
