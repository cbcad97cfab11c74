// What lucid-check leaves beside a certificate that it accepted, and what follows for those who are
// about to trust the certificate.
#pragma once

#include <string>
#include <string_view>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"

namespace lucid {

// That this certificate was accepted with this proof. Sealed like a certificate: that catches
// damage, not malice. Who distrusts the machine runs lucid-check himself.
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
  kUnproved,  // nobody but the engine says that the bounds hold
  kProved,    // there is a proof, and nobody has checked it
  kChecked,   // lucid-check has accepted this certificate with this proof
};
std::string_view NameOf(Standing standing);  // "unproved", "proved", "proved and checked"

// Of the certificate at this path. A receipt that cannot be read, or is of another certificate or
// proof, counts for nothing. Errors: a certificate that cannot be read.
Result<Standing> StandingOf(const std::string& certificate_path);

}  // namespace lucid
