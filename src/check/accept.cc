#include "lucid/check/accept.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/files.h"
#include "lucid/base/version.h"
#include "lucid/certificate/receipt.h"

namespace lucid {

Check CheckNamedProof(const Certificate& certificate, const std::vector<std::string>& proofs) {
  const std::string name = "proof named by the certificate";
  if (!certificate.proof) {
    return {name, Check::Outcome::kPassed, "it names none: there will be no receipt"};
  }
  if (proofs.size() > 1) return {name, Check::Outcome::kPassed, "parts: there will be no receipt"};
  const Result<Digest> found = Sha256OfFile(proofs.front());
  if (found.ok() && *found == certificate.proof->digest) return {name, Check::Outcome::kPassed, ""};
  return {name, Check::Outcome::kFailed,
          found.ok() ? fmt::format("{} is another file", proofs.front()) : found.error().message};
}

Status LeaveReceipt(const std::string& certificate_path, const Certificate& certificate,
                    const std::vector<std::string>& proofs) {
  if (!certificate.proof || proofs.size() != 1) return Ok();
  LUCID_ASSIGN(const Digest own, Sha256OfFile(certificate_path));
  return SaveReceipt({own, certificate.proof->digest, fmt::format("lucid-check {}", Version())},
                     ReceiptPath(certificate_path));
}

Result<CheckReport> CheckRun(const std::string& run, const CheckOptions& options,
                             const ProgressCallback& progress, std::stop_token stop) {
  const std::string path = PathIn(run, kCertificateFile);
  LUCID_ASSIGN(const Certificate certificate, LoadCertificate(path));
  LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run, progress));
  LUCID_ASSIGN(CheckReport report, CheckBinding(certificate, ensemble, options, progress, stop));
  std::ranges::move(CheckFiles(certificate, run), std::back_inserter(report.checks));
  if (!report.accepted()) return report;
  if (!certificate.proof) {
    report.checks.push_back({"proof", Check::Outcome::kNotDone, "the certificate names none"});
    return report;
  }
  const std::vector<std::string> proofs = {PathIn(run, certificate.proof->file)};
  report.checks.push_back(CheckNamedProof(certificate, proofs));
  LUCID_ASSIGN(CheckReport proof,
               CheckProof(certificate, ensemble, proofs, options, progress, stop));
  std::ranges::move(proof.checks, std::back_inserter(report.checks));
  LUCID_ASSIGN(CheckReport guards,
               CheckGuardProofs(certificate, ensemble, run, options, progress, stop));
  std::ranges::move(guards.checks, std::back_inserter(report.checks));
  if (report.accepted()) LUCID_TRY(LeaveReceipt(path, certificate, proofs));
  return report;
}

}  // namespace lucid
