// The check of a certificate with its proof as a whole, and the receipt that it leaves.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/check/check.h"

namespace lucid {

// The file that the certificate names, and nothing else, earns a receipt: fails if `proofs` is one
// file that is another one.
Check CheckNamedProof(const Certificate& certificate, const std::vector<std::string>& proofs);

// Says that all was accepted, the proofs of guards' files included, for those who will trust the
// certificate at this path. Leaves nothing where the certificate names no proof, or where the proof
// came in parts.
Status LeaveReceipt(const std::string& certificate_path, const Certificate& certificate,
                    const std::vector<std::string>& proofs);

// What `lucid-check RUN/certificate.json --run RUN` does at its level `proof`: binding, then the
// proof that the certificate names, then those of the files that guards read; a receipt if all of
// it is accepted. Without a proof the check "proof" is not done. Errors: a certificate or run that
// cannot be read; kInterrupted.
Result<CheckReport> CheckRun(const std::string& run, const CheckOptions& options = {},
                             const ProgressCallback& progress = {}, std::stop_token stop = {});

}  // namespace lucid
