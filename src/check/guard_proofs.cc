// The proofs of the files that guards read.
#include <fmt/format.h>

#include <functional>

#include "base/files.h"
#include "certificate/member_table.h"
#include "check/guard_cover.h"
#include "check/recompute.h"
#include "check/witness.h"
#include "lucid/certificate/spatial.h"
#include "lucid/check/check.h"

namespace lucid {
namespace {

using enum Check::Outcome;

// One file, its proof, and what the proof's claims have to show.
struct GuardFile {
  std::string name;
  const std::optional<Digest>& proof_digest;
  const char* proof_file = nullptr;
  DomainKind domain = DomainKind::kBox;
  // Of one class: empty, or what the claims of this tree leave open.
  std::function<std::string(const ProofTree&, const ProofShape&, std::int32_t)> find_open;
};

class GuardProofs {
 public:
  GuardProofs(const Certificate& certificate, const Ensemble& ensemble, const std::string& run,
              const CheckOptions& options, const ProgressCallback& progress, std::stop_token stop)
      : certificate_(certificate),
        ensemble_(ensemble),
        run_(run),
        options_(options),
        progress_(progress),
        stop_(std::move(stop)) {}

  Result<CheckReport> Run() {
    if (certificate_.spatial_digest) LUCID_TRY(Spatial());
    if (certificate_.index_digest) LUCID_TRY(Index());
    return report_;
  }

 private:
  Status Spatial() {
    const std::string name = "spatial bounds";
    const Result<SpatialBounds> read = SpatialBounds::Load(PathIn(run_, kSpatialFile));
    if (!read.ok()) return Refuse(name, read.error());
    const SpatialBounds& bounds = *read;
    const Architecture& architecture = ensemble_.network().architecture;
    if (bounds.digest() != *certificate_.spatial_digest) return Refuse(name, Named(kSpatialFile));
    if (bounds.features() != architecture.inputs() || bounds.classes() != architecture.classes()) {
      return Refuse(name, Mismatch("its inputs or classes are not those of the run"));
    }
    return CheckOne(
        {name, certificate_.spatial_proof_digest, kSpatialProofFile, certificate_.domain,
         [&](const ProofTree& tree, const ProofShape& shape, std::int32_t label) {
           return FindOpenBox(tree, shape, label, certificate_.classes[label].beta_upper,
                              bounds.tree(label));
         }});
  }

  Status Index() {
    const std::string name = "index of members";
    const std::string path = PathIn(run_, kIndexFile);
    const Result<std::string> bytes = ReadTextFile(path);
    if (!bytes.ok()) return Refuse(name, bytes.error());
    if (Sha256Of(*bytes) != *certificate_.index_digest) return Refuse(name, Named(kIndexFile));
    const Result<MemberTable> table = ParseMemberTable(*bytes, path);
    if (!table.ok()) return Refuse(name, table.error());
    if (const Status fits = CheckTable(*table, ensemble_, path); !fits.ok()) {
      return Refuse(name, fits.error());
    }
    // The index is asked about inputs of [0,1]^d, whatever the certificate's domain is.
    return CheckOne({name, certificate_.index_proof_digest, kIndexProofFile, DomainKind::kBox,
                     [&](const ProofTree& tree, const ProofShape& shape, std::int32_t label) {
                       return FindOpenMember(tree, shape, label, table->classes[label]);
                     }});
  }

  Status CheckOne(const GuardFile& file) {
    const std::string name = "proof of the " + file.name;
    if (!file.proof_digest) {
      report_.checks.push_back(
          {name, kNotDone, "the certificate names none: lucid bound of this version writes one"});
      return Ok();
    }
    const std::string path = PathIn(run_, file.proof_file);
    const Result<Digest> digest = Sha256OfFile(path);
    if (!digest.ok()) return Refuse(name, digest.error());
    if (*digest != *file.proof_digest) return Refuse(name, Named(file.proof_file));
    const Result<Proof> proof = OpenProof(certificate_, std::span(&path, 1));
    if (!proof.ok()) return Refuse(name, proof.error());
    const ProofShape shape(ensemble_.network().architecture, ensemble_.members(),
                           Domain::Of(file.domain, ensemble_.manifest().schema));
    Result<std::vector<ProofTree>> trees = ReadProofTrees(proof->files, shape, stop_);
    if (!trees.ok()) return Refuse(name, trees.error());
    std::vector<Finding> findings(trees->size());
    for (std::size_t label = 0; label < trees->size(); ++label) {
      Finding& finding = findings[label];
      finding.wrong = (*trees)[label].FindProblem();
      if (finding.wrong.empty()) {
        finding.wrong = file.find_open((*trees)[label], shape, static_cast<std::int32_t>(label));
      }
      finding.asked = finding.wrong.empty();
    }
    LUCID_TRY(RecomputeClaims(certificate_, ensemble_, *proof, shape.domain, *trees, findings,
                              options_.threads, progress_, stop_));
    for (std::size_t label = 0; label < trees->size(); ++label) {
      const std::string& wrong = findings[label].wrong;
      report_.checks.push_back(
          {fmt::format("{}, class {}", name, label), wrong.empty() ? kPassed : kFailed,
           wrong.empty() ? fmt::format("{} splits, {} closings", (*trees)[label].splits(),
                                       (*trees)[label].closings())
                         : wrong});
    }
    return Ok();
  }

  // What is no such file, or another one, is an answer; an interruption is none.
  Status Refuse(std::string name, const Error& why) {
    if (why.kind == ErrorKind::kInterrupted) return why;
    report_.checks.push_back({std::move(name), kFailed, why.message});
    return Ok();
  }
  static Error Named(const char* file) {
    return Mismatch(fmt::format("{} is not the file that the certificate names", file));
  }

  const Certificate& certificate_;
  const Ensemble& ensemble_;
  const std::string run_;
  const CheckOptions& options_;
  const ProgressCallback& progress_;
  const std::stop_token stop_;
  CheckReport report_;
};

}  // namespace

Result<CheckReport> CheckGuardProofs(const Certificate& certificate, const Ensemble& ensemble,
                                     const std::string& run, const CheckOptions& options,
                                     const ProgressCallback& progress, std::stop_token stop) {
  LUCID_TRY(CheckSizes(certificate, ensemble));
  return GuardProofs(certificate, ensemble, run, options, progress, std::move(stop)).Run();
}

}  // namespace lucid
