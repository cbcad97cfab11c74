// What lucid-check leaves beside a certificate that it accepted, and what follows for those who are
// about to trust the certificate.
#pragma once

#include <string>
#include <string_view>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"

namespace lucid {

// It says that this certificate was accepted with this proof, and with it the files that the
// certificate names by their digests (spatial bounds, index of members), each with its proof. It is
// sealed like a certificate, which catches damage, not malice. Whoever distrusts the machine runs
// lucid-check again.
struct Receipt {
  Digest certificate;   // of the certificate's file
  Digest proof;         // of the proof's file
  std::string checker;  // version of the program that checked
};

// The receipt of the certificate at this path.
std::string ReceiptPath(const std::string& certificate_path);
Status SaveReceipt(const Receipt& receipt, const std::string& path);
// Errors: kIo; a receipt that is damaged or of another version.
Result<Receipt> LoadReceipt(const std::string& path);

enum class Standing {
  kUnproved,  // of some bound that it vouches for, nobody but the engine says that it holds
  kProved,    // all have proofs, and nobody has checked them
  kChecked,   // lucid-check has accepted this certificate with these proofs
};
std::string_view NameOf(Standing standing);  // "unproved", "proved", "proved and checked"

// Reads the receipt of the certificate at this path. A receipt that cannot be read, or is of
// another certificate or proof, counts for nothing. Errors: a certificate that cannot be read.
Result<Standing> StandingOf(const std::string& certificate_path);

}  // namespace lucid
