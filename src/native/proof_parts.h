// A proof that is written over several processes: every save of a search seals a part of it, and
// the parts become one file at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/certificate/proof.h"

namespace lucid {

// Move-only.
class ProofParts {
 public:
  // `path`: the file in the end; parts stand beside it. `sealed`: how many parts an earlier process
  // left that belong to what is written now. Errors: kIo; a part that is not there or not whole.
  static Result<ProofParts> Open(const std::string& path, const ProofHeader& header,
                                 std::int64_t sealed);

  // Where records go now.
  ProofWriter& writer() { return *writer_; }
  // Makes everything up to here last. Returns how many parts there are then.
  Result<std::int64_t> Seal();
  // Writes the whole proof to its file. `keep`: the search may go on, and the parts stay; else none
  // is left.
  Result<ProofNote> Finish(bool keep);
  std::int64_t sealed() const { return sealed_; }

 private:
  ProofParts(std::string path, const ProofHeader& header, std::int64_t sealed)
      : path_(std::move(path)), header_(header), sealed_(sealed) {}
  std::string PartPath(std::int64_t part) const;
  Status Begin();

  std::string path_;
  ProofHeader header_;
  std::int64_t sealed_ = 0;
  std::optional<ProofWriter> writer_;
};

}  // namespace lucid
