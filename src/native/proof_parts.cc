#include "native/proof_parts.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/files.h"
#include "certificate/proof_reader.h"

namespace lucid {

std::string ProofParts::PartPath(std::size_t part) const {
  return fmt::format("{}.part{}", path_, part);
}

Status ProofParts::CheckPart(std::size_t part) const {
  const std::string path = PartPath(part);
  if (!std::filesystem::exists(path)) {
    return Mismatch(
        fmt::format("'{}' is missing, a part of the proof that was begun: start anew", path));
  }
  LUCID_ASSIGN(const ProofFile file, ProofFile::Open(path));
  if (file.seal() == seals_[part] && file.header() == header_) return Ok();
  return Mismatch(fmt::format("'{}' is not a part of the proof that was begun: start anew", path));
}

Status ProofParts::Begin() {
  LUCID_ASSIGN(writer_, ProofWriter::Create(PartPath(seals_.size()), header_));
  return Ok();
}

Result<ProofParts> ProofParts::Open(const std::string& path, const ProofHeader& header,
                                    std::vector<Digest> seals) {
  ProofParts parts(path, header, std::move(seals));
  for (std::size_t part = 0; part < parts.seals_.size(); ++part) {
    LUCID_TRY(parts.CheckPart(part));
  }
  LUCID_TRY(parts.Begin());
  return parts;
}

Status ProofParts::Seal() {
  LUCID_ASSIGN(const Digest seal, writer_->Finish());
  seals_.push_back(seal);
  return Begin();
}

Result<ProofNote> ProofParts::Finish(bool keep) {
  LUCID_TRY(Seal());
  writer_.reset();
  std::vector<std::string> parts;
  for (std::size_t part = 0; part < seals_.size(); ++part) parts.push_back(PartPath(part));
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
