// The claims of a proof, recomputed: those of a certificate's bounds, and those of the bounds in
// the files that guards read.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "certificate/proof_reader.h"
#include "check/proof_tree.h"
#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/data/domain.h"
#include "lucid/ensemble/ensemble.h"
#include "numeric/rounding.h"

namespace lucid {

// What was found about one class so far.
struct Finding {
  bool asked = false;  // the class claims something, and the file has a well-formed tree for it
  double largest = -kInfinity;
  // The first thing that is wrong, in the file's order: the same one for any number of threads.
  std::uint64_t wrong_at = std::numeric_limits<std::uint64_t>::max();
  std::string wrong;
};

// A proof may be in several files.
struct Proof {
  std::vector<ProofFile> files;
  std::vector<std::pair<std::size_t, std::size_t>> blocks;  // file and block
  std::uint64_t closings = 0;
};

// Opens the files. An error that is not kIo says why they are no proof for this certificate.
Result<Proof> OpenProof(const Certificate& certificate, std::span<const std::string> paths);

// Recomputes every claim about a class that is asked, on a few threads, and adds what is wrong to
// the class's finding. Requires: trees of these files without a problem. Errors: as ReadBlock;
// kInterrupted.
Status RecomputeClaims(const Certificate& certificate, const Ensemble& ensemble, const Proof& proof,
                       const Domain& domain, const std::vector<ProofTree>& trees,
                       std::vector<Finding>& findings, int threads,
                       const ProgressCallback& progress, const std::stop_token& stop);

}  // namespace lucid
