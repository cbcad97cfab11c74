#include <fmt/format.h>

#include <cmath>

#include "check/proof_tree.h"
#include "check/recompute.h"
#include "check/witness.h"
#include "lucid/check/check.h"

namespace lucid {
namespace {

Check Answer(const ClassBound& bound, const ProofTree& tree, const Finding& finding) {
  using enum Check::Outcome;
  const std::string name = fmt::format("proof of class {}", bound.label);
  if (std::isinf(bound.beta_upper)) return {name, kPassed, "beta_upper is inf: nothing is claimed"};
  if (tree.empty()) return {name, kNotDone, "the file has no proof of this class"};
  if (!finding.wrong.empty()) return {name, kFailed, finding.wrong};
  return {name, kPassed,
          fmt::format("{} splits, {} closings, largest bound {}, beta_upper {}", tree.splits(),
                      tree.closings(), finding.largest, bound.beta_upper)};
}

}  // namespace

Result<CheckReport> CheckProof(const Certificate& certificate, const Ensemble& ensemble,
                               std::span<const std::string> paths, const CheckOptions& options,
                               const ProgressCallback& progress, std::stop_token stop) {
  using enum Check::Outcome;
  LUCID_TRY(CheckSizes(certificate, ensemble));
  if (stop.stop_requested()) return Interrupted("stopped before the proof was read");
  CheckReport report;
  for (const ClassBound& bound : certificate.classes) {
    report.checks.push_back(CheckWitness(bound, ensemble));
  }
  // A file that is no proof, or not of this certificate, is an answer; one that cannot be read is
  // an error.
  const auto refuse = [&](std::string why) {
    report.checks.push_back({"proof file", kFailed, std::move(why)});
    for (const ClassBound& bound : certificate.classes) {
      report.checks.push_back(
          {fmt::format("proof of class {}", bound.label), kNotDone, "the file is no proof of it"});
    }
    return report;
  };
  const Result<Proof> proof = OpenProof(certificate, paths);
  if (!proof.ok()) {
    if (proof.error().kind == ErrorKind::kIo) return proof.error();
    return refuse(proof.error().message);
  }
  Domain domain = Domain::Of(certificate.domain, ensemble.manifest().schema);
  const ProofShape shape(ensemble.network().architecture, ensemble.members(), std::move(domain));
  Result<std::vector<ProofTree>> trees = ReadProofTrees(proof->files, shape, stop);
  if (!trees.ok()) {
    if (trees.error().kind == ErrorKind::kInterrupted) return trees.error();
    return refuse(trees.error().message);
  }
  report.checks.push_back({"proof file", kPassed, ""});

  std::vector<Finding> findings(trees->size());
  for (const ClassBound& bound : certificate.classes) {
    ProofTree& tree = (*trees)[bound.label];
    Finding& finding = findings[bound.label];
    if (std::isinf(bound.beta_upper) || tree.empty()) continue;
    finding.wrong = tree.FindProblem();
    if (finding.wrong.empty()) {
      finding.wrong = tree.FindOpenPair(shape, bound.label, bound.beta_upper);
    }
    finding.asked = finding.wrong.empty();
  }
  LUCID_TRY(RecomputeClaims(certificate, ensemble, *proof, shape.domain, *trees, findings,
                            options.threads, progress, stop));
  for (const ClassBound& bound : certificate.classes) {
    report.checks.push_back(Answer(bound, (*trees)[bound.label], findings[bound.label]));
  }
  return report;
}

Result<CheckReport> CheckProof(const Certificate& certificate, const Ensemble& ensemble,
                               const std::string& proof, const CheckOptions& options,
                               const ProgressCallback& progress, std::stop_token stop) {
  return CheckProof(certificate, ensemble, std::span(&proof, 1), options, progress,
                    std::move(stop));
}

}  // namespace lucid
