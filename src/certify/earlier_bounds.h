// The certificate that a run has already: what is better in it stays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/data/domain.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

class EarlierBounds {
 public:
  // Looks for a certificate at `path` that is of this run and domain and has its proof beside it,
  // and keeps that under another name while a new one is written to `proof` (empty: none will be).
  // Whatever else is there counts as none, bounds without a proof included. Errors: kIo.
  static Result<EarlierBounds> Find(const std::string& path, const std::string& proof,
                                    const Ensemble& ensemble, DomainKind domain);

  // Makes `made` the best of both: of every class the smaller upper bound, with the proof that goes
  // with it, and the larger lower bound with its witness. If the new one has no proof, bounds are
  // not mixed: the earlier one stays whole if no class of the new one is tighter, else the new one
  // counts. Returns the classes whose earlier upper bound stays although
  // the new one is looser. Errors: kIo; kInternal for bounds that contradict each other.
  Result<std::vector<std::int32_t>> Improve(Certificate& made, double gap);

 private:
  Status MixProofs(const std::vector<bool>& keep, Certificate& made) const;

  std::optional<Certificate> earlier_;  // none: there is nothing to keep
  std::string proof_, kept_;            // files: the new proof, and the earlier one meanwhile
};

}  // namespace lucid
