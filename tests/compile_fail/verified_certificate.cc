// Bounds are trusted only as a VerifiedCertificate, and there is one way to make one.
#include "lucid/certificate/certificate.h"

namespace {

double Guard(const lucid::VerifiedCertificate& certificate) { return certificate.beta(0); }

[[maybe_unused]] double Use(const lucid::Certificate& certificate, const lucid::Network& network) {
#if CASE == 0
  const auto verified = lucid::VerifiedCertificate::Verify(certificate, network);
  return verified.ok() ? Guard(*verified) : 0;
#elif CASE == 1
  const lucid::VerifiedCertificate verified(certificate);
  return Guard(verified);
#elif CASE == 2
  return Guard(certificate);
#elif CASE == 3
  const lucid::VerifiedCertificate verified;
  return Guard(verified);
#elif CASE == 4
  return Guard(0.5);
#elif CASE == 5
  auto verified = lucid::VerifiedCertificate::Verify(certificate, network);
  verified->certificate().classes[0].beta_upper = 0;
  return Guard(*verified);
#endif
}

}  // namespace
