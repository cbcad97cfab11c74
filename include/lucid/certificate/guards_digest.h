// Which bounds an evaluation, an audit or a page is about.
#pragma once

#include <optional>
#include <string>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"

namespace lucid {

// Of what guards read of a certificate: run, domain, bounds and the files that it names. The same
// for two certificates that differ in times, counters, witnesses or proofs alone.
Digest GuardsDigest(const Certificate& certificate);

// Of the certificate in the given file, or in RUN/certificate.json if none is given; none where
// there is no such file. Errors: as LoadCertificate.
Result<std::optional<Digest>> GuardsDigestOf(const std::string& run, const std::string& given);

}  // namespace lucid
