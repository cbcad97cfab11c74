#include "lucid/certificate/guards_digest.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/files.h"

namespace lucid {

Digest GuardsDigest(const Certificate& certificate) {
  const auto named = [](const std::optional<Digest>& digest) {
    return digest ? digest->Hex() : std::string("none");
  };
  std::string text =
      fmt::format("guards {} {} {} {}\n", certificate.run_key.Hex(), NameOf(certificate.domain),
                  named(certificate.spatial_digest), named(certificate.index_digest));
  for (const ClassBound& bound : certificate.classes) {
    text += fmt::format("{} {:a}\n", bound.label, bound.beta_upper);
  }
  return Sha256Of(text);
}

Result<std::optional<Digest>> GuardsDigestOf(const std::string& run, const std::string& given) {
  const std::string path = given.empty() ? PathIn(run, kCertificateFile) : given;
  std::error_code code;
  const bool there = std::filesystem::exists(path, code);
  if (code) return IoError(fmt::format("cannot look for '{}': {}", path, code.message()));
  if (!there) return std::optional<Digest>();
  LUCID_ASSIGN(const Certificate certificate, LoadCertificate(path));
  return std::optional(GuardsDigest(certificate));
}

}  // namespace lucid
