#include "native/proof_parts.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "base/files.h"

namespace lucid {

std::string ProofParts::PartPath(std::int64_t part) const {
  return fmt::format("{}.part{}", path_, part);
}

Status ProofParts::Begin() {
  LUCID_ASSIGN(writer_, ProofWriter::Create(PartPath(sealed_), header_));
  return Ok();
}

Result<ProofParts> ProofParts::Open(const std::string& path, const ProofHeader& header,
                                    std::int64_t sealed) {
  ProofParts parts(path, header, sealed);
  for (std::int64_t part = 0; part < sealed; ++part) {
    if (std::filesystem::exists(parts.PartPath(part))) continue;
    return Mismatch(fmt::format("'{}' is missing, a part of the proof that was begun: start anew",
                                parts.PartPath(part)));
  }
  LUCID_TRY(parts.Begin());
  return parts;
}

Result<std::int64_t> ProofParts::Seal() {
  LUCID_TRY(writer_->Finish());
  ++sealed_;
  LUCID_TRY(Begin());
  return sealed_;
}

Result<ProofNote> ProofParts::Finish(bool keep) {
  LUCID_TRY(Seal());
  writer_.reset();
  std::vector<std::string> parts;
  for (std::int64_t part = 0; part < sealed_; ++part) parts.push_back(PartPath(part));
  LUCID_TRY(MergeProofs(parts, path_));
  std::error_code ignored;
  for (const std::string& part : parts) {
    if (!keep) std::filesystem::remove(part, ignored);
  }
  LUCID_ASSIGN(const Digest digest, Sha256OfFile(path_));
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path_));
  return ProofNote{std::filesystem::path(path_).filename().string(), bytes, digest};
}

}  // namespace lucid
