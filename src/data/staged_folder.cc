#include "data/staged_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/files.h"

namespace lucid {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSchema = "schema.csv";
constexpr std::array<std::string_view, 6> kDatasetFiles = {
    kSchema, "train.csv", "train.csv.gz", "test.csv", "test.csv.gz", "SOURCE.txt"};

}  // namespace

StagedFolder::StagedFolder(std::string path, std::string target, bool target_exists, unsigned mode)
    : path_(std::move(path)),
      target_(std::move(target)),
      target_exists_(target_exists),
      mode_(mode) {}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      target_(std::move(other.target_)),
      target_exists_(other.target_exists_),
      mode_(other.mode_),
      names_(std::move(other.names_)) {}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<StagedFolder> StagedFolder::Create(const std::string& target, bool overwrite,
                                          unsigned mode) {
  std::error_code code;
  fs::path place = fs::path(target).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();  // "dir/"
  const bool exists = fs::exists(place, code);
  if (exists && !fs::is_directory(place, code)) {
    return InvalidInput(fmt::format("'{}' is a file, expected a folder", target));
  }
  for (const std::string_view name : kDatasetFiles) {
    if (exists && !overwrite && fs::exists(place / name, code)) {
      return InvalidInput(fmt::format(
          "'{}' holds a data set already ('{}'): choose another folder or the option overwrite",
          target, name));
    }
  }
  // Inside a folder that exists, for it may be the root of a file system; beside one that does not.
  const std::string hidden = fmt::format(".{}.tmp-{}", place.filename().string(), ::getpid());
  const fs::path staging = exists ? place / hidden : place.parent_path() / hidden;
  fs::remove_all(staging, code);
  LUCID_TRY(MakeDirectories(staging.string()));
  return StagedFolder(staging.string(), place.string(), exists, mode);
}

Status StagedFolder::Write(const std::string& name, std::string_view content) {
  names_.push_back(name);
  return WriteFileAtomically((fs::path(path_) / name).string(), content, mode_);
}

Status StagedFolder::Publish() {
  if (!target_exists_) {
    LUCID_TRY(RenameDurably(path_, target_));
    path_.clear();
    return Ok();
  }
  std::error_code code;
  for (const std::string_view name : kDatasetFiles) {
    fs::remove(fs::path(target_) / name, code);
    if (code) {
      return IoError(
          fmt::format("cannot remove the old '{}' in '{}': {}", name, target_, code.message()));
    }
  }
  std::stable_partition(names_.begin(), names_.end(),
                        [](const std::string& name) { return name != kSchema; });
  for (const std::string& name : names_) {
    LUCID_TRY(
        RenameDurably((fs::path(path_) / name).string(), (fs::path(target_) / name).string()));
  }
  return Ok();
}

}  // namespace lucid
