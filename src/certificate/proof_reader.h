// Reads a proof file block by block. Everything about the form of a record is checked here; whether
// the records fit a run and each other is for ProofTree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/files.h"
#include "lucid/base/result.h"
#include "lucid/certificate/proof.h"

namespace lucid {

struct ProofRecord {
  std::int32_t label = 0;
  std::variant<ProofSplit, ProofClosing> what;
};

// Move-only; ReadBlock is thread-safe.
class ProofFile {
 public:
  // Checks the seal, the header and the table of blocks. The file stays mapped.
  // Errors: kIo; kInvalidInput or kMismatch for what is no proof, or damaged.
  static Result<ProofFile> Open(const std::string& path);
  // The same for bytes, which must outlive the result.
  static Result<ProofFile> Parse(std::string_view bytes, const std::string& source);

  const ProofHeader& header() const { return header_; }
  std::uint32_t version() const { return version_; }
  const Digest& seal() const { return seal_; }
  const std::string& source() const { return source_; }
  std::uint64_t splits() const { return splits_; }
  std::uint64_t closings() const { return closings_; }
  std::size_t blocks() const { return blocks_.size(); }

  // Errors: a record that no writer makes: numbers that are not finite, a label or kind that does
  // not exist, bytes that are missing or left over.
  Result<std::vector<ProofRecord>> ReadBlock(std::size_t block) const;
  // The blocks as they stand in the file, one after the other.
  std::string_view packed() const;

 private:
  struct Block {
    std::uint64_t at = 0;
    std::uint32_t packed = 0, raw = 0;
  };
  ProofFile() = default;

  std::optional<MappedFile> file_;
  std::string_view bytes_;
  std::string source_;
  ProofHeader header_;
  std::uint32_t version_ = 0;
  Digest seal_;
  std::uint64_t splits_ = 0, closings_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace lucid
