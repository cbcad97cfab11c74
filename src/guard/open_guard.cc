// A guard from the files of a run.
#include <fmt/format.h>

#include <filesystem>

#include "base/files.h"
#include "lucid/certificate/spatial.h"
#include "lucid/ensemble/ensemble.h"
#include "lucid/guard/guard.h"
#include "lucid/guard/member_index.h"
#include "lucid/promise/promise.h"

namespace lucid {
namespace {

// Errors: the file is not there; `how` is the command that makes it.
Status CheckThere(const std::string& path, std::string_view how) {
  std::error_code code;
  if (std::filesystem::exists(path, code)) return Ok();
  return InvalidInput(fmt::format("no '{}': {} makes it", path, how));
}

Status CheckCertificate(const Certificate& certificate, const Manifest& manifest,
                        const std::string& path) {
  if (certificate.run_key == manifest.run_key &&
      certificate.ensemble_digest == manifest.ensemble_digest) {
    return Ok();
  }
  return Mismatch(fmt::format("'{}' is the certificate of another run", path));
}

// What the certificate does not name, Guard::Create complains about.
Result<Guard::Parts> LoadParts(const std::string& run, const Certificate& certificate,
                               GuardKind guard) {
  Guard::Parts parts;
  if (guard != GuardKind::kScalar && certificate.spatial_digest) {
    const std::string path = PathIn(run, kSpatialFile);
    LUCID_TRY(CheckThere(path, fmt::format("lucid bound {}", run)));
    LUCID_ASSIGN(SpatialBounds spatial, SpatialBounds::Load(path));
    parts.spatial = std::make_shared<const SpatialBounds>(std::move(spatial));
  }
  if (guard == GuardKind::kExact && certificate.index_digest) {
    const std::string path = PathIn(run, kIndexFile);
    LUCID_TRY(CheckThere(path, fmt::format("lucid bound {}", run)));
    LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run));
    LUCID_ASSIGN(MemberIndex index, MemberIndex::Load(ensemble, path));
    parts.index = std::make_shared<const MemberIndex>(std::move(index));
  }
  return parts;
}

}  // namespace

Result<Guard> Guard::Open(const std::string& run, const std::string& certificate_path,
                          const GuardOptions& options, const GuardKey& key) {
  LUCID_TRY(options.Validate());
  LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(run));
  if (options.guard == GuardKind::kScalar && HasDeclaredAccess(opened.manifest)) {
    return CreateDeclared(opened, options, key);
  }
  const std::string path =
      certificate_path.empty() ? PathIn(run, kCertificateFile) : certificate_path;
  LUCID_TRY(CheckThere(path, fmt::format("lucid bound {}", run)));
  LUCID_ASSIGN(Certificate certificate, LoadCertificate(path));
  LUCID_TRY(CheckCertificate(certificate, opened.manifest, path));
  LUCID_ASSIGN(const Parts parts, LoadParts(run, certificate, options.guard));
  LUCID_ASSIGN(const VerifiedCertificate verified,
               VerifiedCertificate::Verify(std::move(certificate), opened.network));
  return Create(opened.network, verified, opened.manifest.schema, options, key, parts);
}

}  // namespace lucid
