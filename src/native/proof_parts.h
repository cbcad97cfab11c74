// A proof that is written over several processes: every save of a search seals a part of it, and
// the parts become one file at the end.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/certificate/proof.h"

namespace lucid {

// Move-only.
class ProofParts {
 public:
  // `path`: the file in the end; parts stand beside it. `seals`: of the parts that an earlier
  // process left and that belong to what is written now. Errors: kIo; a part that is missing,
  // damaged, or of another search (a folder may hold parts of an older one).
  static Result<ProofParts> Open(const std::string& path, const ProofHeader& header,
                                 std::vector<Digest> seals);

  // Where records go now.
  ProofWriter& writer() { return *writer_; }
  // Makes everything up to here last.
  Status Seal();
  // Writes the whole proof to its file. `keep`: the search may go on, and the parts stay; else none
  // is left.
  Result<ProofNote> Finish(bool keep);
  // The seals of the parts that last, in their order.
  const std::vector<Digest>& seals() const { return seals_; }

 private:
  ProofParts(std::string path, const ProofHeader& header, std::vector<Digest> seals)
      : path_(std::move(path)), header_(header), seals_(std::move(seals)) {}
  std::string PartPath(std::size_t part) const;
  Status CheckPart(std::size_t part) const;
  Status Begin();

  std::string path_;
  ProofHeader header_;
  std::vector<Digest> seals_;
  std::optional<ProofWriter> writer_;
};

}  // namespace lucid
