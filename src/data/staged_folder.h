// A data directory that appears whole or not at all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "lucid/base/result.h"

namespace lucid {

// Files are written into a hidden temporary folder and get their final names in Publish().
// Destroying it before removes the temporary folder. Move-only.
class StagedFolder {
 public:
  // Refuses a `target` that holds a data set already, unless `overwrite`; other files in it stay.
  // mode: of the files, as for open(2).
  static Result<StagedFolder> Create(const std::string& target, bool overwrite,
                                     unsigned mode = kForEverybody);
  ~StagedFolder();
  StagedFolder(StagedFolder&& other) noexcept;
  StagedFolder& operator=(StagedFolder&&) = delete;

  const std::string& path() const { return path_; }  // of the temporary folder
  Status Write(const std::string& name, std::string_view content);

  // A new target is one rename. In a folder that exists, schema.csv leaves first and comes last: at
  // no moment do files of two data sets load as one.
  Status Publish();

 private:
  StagedFolder(std::string path, std::string target, bool target_exists, unsigned mode);

  std::string path_;  // empty: published or moved from
  std::string target_;
  bool target_exists_;
  unsigned mode_;
  std::vector<std::string> names_;  // of the files written
};

}  // namespace lucid
