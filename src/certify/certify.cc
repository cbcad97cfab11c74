#include "lucid/certify/certify.h"

#include <cmath>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include "base/files.h"
#include "base/task_team.h"
#include "certify/earlier_bounds.h"
#include "lucid/certificate/proof.h"
#include "lucid/certify/bound_steps.h"
#include "lucid/data/dataset.h"
#include "lucid/guard/member_index.h"
#include "lucid/promise/promise.h"
#include "native/bound_team.h"
#include "numeric/floating_point.h"
#include "paper/milp_bound.h"

namespace lucid {
namespace {

// How the bounds change while an engine runs. The engine may call it from any thread.
class Recorder {
 public:
  // Also calls what `options` told before. Keeps a reference to this.
  void Listen(BoundOptions& options) {
    options.trace = [this, told = options.trace](std::int32_t label, double seconds, double lower,
                                                 double upper) {
      if (told) told(label, seconds, lower, upper);
      const std::scoped_lock lock(mutex_);
      steps_.push_back({label, seconds, lower, upper});
    };
  }

  // The last step of every class is what the certificate says.
  Status Save(const std::string& path, const Certificate& certificate) {
    const std::scoped_lock lock(mutex_);
    for (const ClassBound& bound : certificate.classes) {
      if (std::isinf(bound.beta_upper)) continue;
      steps_.push_back({bound.label, bound.seconds, bound.beta_lower, bound.beta_upper});
    }
    return WriteFileAtomically(path, EncodeBoundSteps(steps_));
  }

 private:
  std::mutex mutex_;
  std::vector<BoundStep> steps_;
};

Result<Certificate> Compute(const Ensemble& ensemble, const CertifyOptions& options,
                            const ProgressCallback& progress, const std::stop_token& stop) {
  if (const auto* milp = std::get_if<MilpBoundOptions>(&options.engine)) {
    return ComputeBoundsByMilp(ensemble, *milp, progress, stop);
  }
  return ComputeBounds(ensemble, std::get<NativeBoundOptions>(options.engine), progress, stop);
}

// The file of the proof if nobody named one; empty: no proof is written.
std::string ProofPath(const std::string& run, const CertifyOptions& options) {
  const auto* native = std::get_if<NativeBoundOptions>(&options.engine);
  if (native == nullptr) return "";
  if (!native->proof.empty()) return native->proof;
  if (!options.proof) return "";
  return options.certificate.empty() ? PathIn(run, kProofFile)
                                     : options.certificate + "." + kProofFile;
}

// The training rows, where bounds should be tight; none if the run's data is not there any more.
std::optional<std::vector<float>> GuidesOf(const Manifest& manifest) {
  Result<Dataset> dataset = LoadRunData(manifest);
  if (!dataset.ok() || dataset->train_digest != manifest.train_digest) return std::nullopt;
  return std::move(dataset->train.x);
}

// Writes the proof of a guard's file where the certificate's own bounds have one, too.
Result<std::optional<Digest>> Prove(const std::string& path, const Certificate& certificate,
                                    const std::vector<BoxProof>& proofs) {
  if (!certificate.proof) {
    std::error_code ignored;  // of an earlier file
    std::filesystem::remove(path, ignored);
    return std::optional<Digest>();
  }
  LUCID_ASSIGN(const Digest digest, WriteGuardProof(path, certificate, proofs));
  return std::optional(digest);
}

// Writes the files that guards beyond the scalar one read, and names them in the certificate.
Status AddGuardFiles(const Ensemble& ensemble, const std::string& run,
                     const CertifyOptions& options, const ProgressCallback& progress,
                     const std::stop_token& stop, CertifySummary& summary) {
  if (!options.index && !options.spatial) return Ok();
  Certificate& certificate = summary.certificate;
  const int threads = options.bound().threads;
  LUCID_ASSIGN(const MemberBounds members, BoundMembers(ensemble, certificate.member_error, threads,
                                                        progress, stop, options.bound().team));
  if (options.index) {
    LUCID_ASSIGN(const MemberIndex index,
                 MemberIndex::Build(ensemble, members.upper, certificate.member_error, threads));
    LUCID_TRY(index.Save(PathIn(run, kIndexFile)));
    certificate.index_digest = index.digest();
    LUCID_ASSIGN(certificate.index_proof_digest,
                 Prove(PathIn(run, kIndexProofFile), certificate, members.proofs));
  }
  if (options.spatial) {
    SpatialOptions spatial = options.spatial_options;
    spatial.threads = threads;
    spatial.team = options.bound().team;
    const auto guides = GuidesOf(ensemble.manifest());
    summary.guided = guides.has_value();
    LUCID_ASSIGN(const SpatialFile file, ComputeSpatialBounds(ensemble, certificate, members,
                                                              guides.value_or(std::vector<float>()),
                                                              spatial, progress, stop));
    const std::string path = PathIn(run, kSpatialFile), proof = PathIn(run, kSpatialProofFile);
    summary.boxes_help = !file.bytes.empty();
    if (!summary.boxes_help) {
      std::error_code ignored;  // earlier files may be there; no certificate names them any more
      std::filesystem::remove(path, ignored);
      std::filesystem::remove(proof, ignored);
      return Ok();
    }
    LUCID_TRY(WriteFileAtomically(path, file.bytes));
    certificate.spatial_digest = Sha256Of(file.bytes);
    LUCID_ASSIGN(certificate.spatial_proof_digest, Prove(proof, certificate, file.proofs));
  }
  return Ok();
}

}  // namespace

BoundOptions& CertifyOptions::bound() {
  return std::visit([](auto& options) -> BoundOptions& { return options.common; }, engine);
}
const BoundOptions& CertifyOptions::bound() const {
  return std::visit([](const auto& options) -> const BoundOptions& { return options.common; },
                    engine);
}

DeclaredDecision OwnDecision(const Manifest& manifest) {
  const DeclaredBounds& declared = *manifest.declared;
  const auto classes = static_cast<std::size_t>(manifest.schema.classes());
  return {declared.r, std::vector<double>(classes, declared.bound()), /*after_looking=*/false};
}

DomainKind DomainOfEarlier(const Ensemble& ensemble, const std::string& certificate) {
  const Result<Certificate> found = LoadCertificate(certificate);
  const bool same = found.ok() && found->run_key == ensemble.manifest().run_key;
  return same ? found->domain : DefaultDomain(ensemble.manifest().schema);
}

std::string JournalPath(const std::string& certificate) { return certificate + ".journal"; }

Result<CertifySummary> Certify(const Ensemble& ensemble, const std::string& run,
                               const CertifyOptions& options, const ProgressCallback& progress,
                               std::stop_token stop) {
  Recorder recorder;
  CertifyOptions recorded = options;
  recorder.Listen(recorded.bound());
  CertifySummary summary;
  if (auto* native = std::get_if<NativeBoundOptions>(&recorded.engine)) {
    native->proof = ProofPath(run, options);
    if (options.declared) native->decide = options.declared->bounds.front();
  }
  const bool own = options.certificate.empty();
  summary.path = own ? PathIn(run, kCertificateFile) : options.certificate;
  const auto* native = std::get_if<NativeBoundOptions>(&recorded.engine);
  LUCID_ASSIGN(EarlierBounds earlier,
               EarlierBounds::Find(summary.path, native != nullptr ? native->proof : "", ensemble,
                                   native != nullptr ? native->domain : DomainKind::kBox));
  LUCID_ASSIGN(summary.certificate, Compute(ensemble, recorded, progress, stop));
  summary.certificate.declared = options.declared;
  LUCID_ASSIGN(summary.kept, earlier.Improve(summary.certificate, options.bound().gap));
  // Files that an unchanged certificate names are there already.
  const bool proved = summary.certificate.proof.has_value();
  const Certificate& made = summary.certificate;
  const bool had_index = made.index_digest && (made.index_proof_digest || !proved);
  const bool had_spatial = made.spatial_digest && (made.spatial_proof_digest || !proved);
  summary.promise =
      PromiseOf(ensemble.manifest(), &summary.certificate, {.domain = summary.certificate.domain});
  summary.certificate.promise = summary.promise.name();
  LUCID_TRY(SaveCertificate(summary.certificate, summary.path));  // whatever happens to the rest
  if (own) LUCID_TRY(recorder.Save(PathIn(run, kBoundsFile), summary.certificate));
  CertifyOptions wanted = options;
  wanted.index = options.index && !had_index;
  wanted.spatial = options.spatial && !had_spatial;
  const Status files = AddGuardFiles(ensemble, run, wanted, progress, stop, summary);
  if (!files.ok() && files.error().kind != ErrorKind::kInterrupted) return files.error();
  if (summary.certificate.index_digest || summary.certificate.spatial_digest) {
    LUCID_TRY(SaveCertificate(summary.certificate, summary.path));
  }
  summary.finished = options.declared ? summary.certificate.Outcome() != DeclaredOutcome::kOpen
                                      : options.bound().Finished(summary.certificate);
  return summary;
}

Status HelpCertify(const Ensemble& ensemble, Team& team, int threads, std::stop_token stop) {
  LUCID_TRY(CheckFloatingPoint());
  NativeHelper native(ensemble, threads);
  MilpHelper milp(ensemble);
  bool by_milp = false;
  TeamService service;
  service.begin = [&](std::string_view topic, std::stop_token nobody_waits) {
    by_milp = MilpHelper::Serves(topic);
    return by_milp ? milp.Begin(topic, std::move(nobody_waits))
                   : native.Begin(topic, std::move(nobody_waits));
  };
  service.answer = [&](ByteCursor& in, int worker, std::string& out) {
    return by_milp ? milp.Answer(in, worker, out) : native.Answer(in, worker, out);
  };
  return HelpTaskTeam(team, SubjectOf(ensemble), threads, service, std::move(stop));
}

}  // namespace lucid
