#include "evaluation/guard_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/files.h"
#include "lucid/certificate/certificate.h"
#include "lucid/certificate/spatial.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/guard/member_index.h"
#include "lucid/promise/promise.h"

namespace lucid {
namespace {

Result<bool> Exists(const std::string& path) {
  std::error_code code;
  const bool there = std::filesystem::exists(path, code);
  if (code) return IoError(fmt::format("cannot look for '{}': {}", path, code.message()));
  return there;
}

}  // namespace

Result<std::optional<std::string>> MissingGuardFile(const std::string& run,
                                                    const std::string& certificate,
                                                    GuardKind guard) {
  const auto needs = [&](std::string_view file) {
    return std::optional(
        fmt::format("the {} guard needs {}: run lucid bound {}", NameOf(guard), file, run));
  };
  const std::string path = certificate.empty() ? PathIn(run, kCertificateFile) : certificate;
  if (guard == GuardKind::kScalar) {
    LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(run));
    if (HasDeclaredAccess(opened.manifest)) return std::optional<std::string>();
  }
  LUCID_ASSIGN(const bool certified, Exists(path));
  if (!certified) return needs(fmt::format("'{}'", path));
  if (guard == GuardKind::kScalar) return std::optional<std::string>();
  LUCID_ASSIGN(const Certificate loaded, LoadCertificate(path));
  const bool spatial = guard == GuardKind::kSpatial;
  const std::string file = PathIn(run, spatial ? kSpatialFile : kIndexFile);
  LUCID_ASSIGN(const bool there, Exists(file));
  const bool named = (spatial ? loaded.spatial_digest : loaded.index_digest).has_value();
  if (there && named) return std::optional<std::string>();
  return needs(fmt::format("'{}' and a certificate that names it", file));
}

}  // namespace lucid
