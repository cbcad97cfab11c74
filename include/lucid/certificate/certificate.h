// What was proved about a run: for every class, an upper bound of the largest confidence at which
// some input is given that class by N and another by a leave-one-out network.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/data/domain.h"
#include "lucid/nn/network.h"

namespace lucid {

class Ensemble;

// An input that N gives class c with confidence f(x), and member `member` does not.
struct Witness {
  std::vector<float> x;     // in the domain
  std::int64_t member = 0;  // of the ensemble
  std::int64_t row = 0;     // the training row it was trained without
};

enum class BoundStatus {
  kExact,     // beta_upper equals beta_lower up to the solver's safe rounding, or is 0
  kGap,       // ended by itself: within the requested gap, or what the engine's relaxations leave
  kDeadline,  // stopped early: valid, not as tight as asked
};
std::string_view NameOf(BoundStatus status);  // "exact", "gap", "deadline"

struct ClassBound {
  std::int32_t label = 0;
  // Proved: no x of the domain with N's label c and f(x) > beta_upper has a member i with g_i(x) <=
  // member_error. +inf: nothing is known (then the guard noises every input of this class). >= 0.
  double beta_upper = 0;
  // f(witness) rounded down, or 0 without a witness.
  double beta_lower = 0;
  std::optional<Witness> witness;
  BoundStatus status = BoundStatus::kDeadline;
  double seconds = 0;
  // Counters of the engine, for people: "subsets", "milps", "timeouts", "regions", ...
  std::vector<std::pair<std::string, std::int64_t>> counters;

  // (beta_upper - beta_lower) / beta_upper; 0 if both are 0; 1 if beta_upper is infinite.
  double Gap() const;
};

// The file that proves the bounds (docs/proof.md).
struct ProofNote {
  std::string file;  // its name, in the folder of the certificate
  std::int64_t bytes = 0;
  Digest digest;
};

// What became of bounds that were declared.
enum class DeclaredOutcome {
  kProved,   // every class's beta_upper is at most its declared bound
  kRefuted,  // a class has a witness above its declared bound
  kOpen,     // neither is known
};
std::string_view NameOf(DeclaredOutcome outcome);  // "proved", "refuted", "open"

// The bounds that a search was asked to decide about. The outcome is never stored: it follows from
// the bounds of the classes.
struct DeclaredDecision {
  double r = 0;                // the share of N's median confidence that was declared
  std::vector<double> bounds;  // one per class, in order
  bool after_looking = false;  // not the ones of the manifest: chosen when more was known

  bool operator==(const DeclaredDecision&) const = default;
};

// What computed the bounds: the native engine, or the paper's.
enum class Engine { kNative, kMilp };
std::string_view NameOf(Engine engine);  // "native", "milp"
Result<Engine> EngineNamed(std::string_view name);

struct Certificate {
  std::string version;               // of LUCID
  std::vector<std::string> command;  // for people
  Engine engine = Engine::kNative;
  std::string options;  // everything that determined the search, one fixed spelling
  DomainKind domain = DomainKind::kBox;  // what may be asked
  std::int64_t rows = 0, members = 0;
  bool partial = false;  // members < rows: nothing is claimed about the other rows
  // Bounds of |computed - exact| confidence: of N (the guard subtracts it), and the largest of any
  // member (in the constraint the bounds were proved for).
  double network_error = 0, member_error = 0;
  std::vector<ClassBound> classes;  // one per class, in order
  double seconds = 0;
  // What it was proved for. architecture: of its canonical text. network: Network::digest(), of
  // what N is, so that it can be checked with a network in memory. ensemble: of the file
  // ensemble.safetensors; it and the other three are those of the run's manifest.
  Digest run_key, schema_digest, train_digest, architecture_digest, network_digest, ensemble_digest;
  // The digests of the files kSpatialFile and kIndexFile, if these were made together with the
  // certificate. Whoever trusts the certificate may then trust these files, too.
  std::optional<Digest> spatial_digest, index_digest;
  // Of the files that prove the bounds in these (docs/proof.md), kSpatialProofFile and
  // kIndexProofFile. None: nobody but the engine says that they hold.
  std::optional<Digest> spatial_proof_digest, index_proof_digest;
  std::optional<ProofNote> proof;  // none: nobody but the engine says that the bounds hold
  // The name of the promise that the run keeps with this certificate (lucid/promise/promise.h);
  // "none" until somebody who knows the run's manifest says more. For readers of the file: whoever
  // acts on a promise computes it.
  std::string promise = "none";
  std::optional<DeclaredDecision> declared;

  // Every bound that a guard may use has a proof: those of the classes, and those in the files.
  bool FullyProved() const;

  // Requires: declared, with a bound for every class.
  DeclaredOutcome Outcome() const;
};

// A certificate that claims nothing yet: everything that follows from the run, every bound and the
// members' error +inf. Where an engine starts.
Certificate UnprovedCertificate(const Ensemble& ensemble);

// JSON. Numbers that carry a guarantee are also written as exact hex floats, and only those are
// read back. The last field, "seal", is the SHA-256 of the
// document without it, so that a changed byte anywhere is noticed. docs/certificate.md has every
// byte. -0 is written as 0; a counter that is there twice counts once.
std::string EncodeCertificate(const Certificate& certificate);
// Errors name the source and the field or line. Accepts exactly what EncodeCertificate writes:
// unknown, missing or repeated fields, NaN, negative bounds, lower above upper, or a wrong seal are
// refused.
Result<Certificate> ParseCertificate(std::string_view text, const std::string& source);

// Replaces the file atomically. Errors: as Parse (what could not be read back is not written), kIo.
Status SaveCertificate(const Certificate& certificate, const std::string& path);
Result<Certificate> LoadCertificate(const std::string& path);

// A certificate that was checked against the network it belongs to. Whoever holds one may trust
// its bounds for this network: there is no other way to make one, and guards take nothing else.
class VerifiedCertificate {
 public:
  // Checks digests of architecture and network, the number of classes, and that network_error is
  // this network's forward error. kMismatch names the first difference.
  static Result<VerifiedCertificate> Verify(Certificate certificate, const Network& network);

  const Certificate& certificate() const { return certificate_; }
  double beta(std::int32_t label) const { return certificate_.classes[label].beta_upper; }

 private:
  explicit VerifiedCertificate(Certificate certificate) : certificate_(std::move(certificate)) {}
  Certificate certificate_;
};

// Files of a run directory, beside those of the ensemble.
inline constexpr const char* kCertificateFile = "certificate.json";
inline constexpr const char* kSpatialFile = "spatial.lucid";
inline constexpr const char* kIndexFile = "index.safetensors";
inline constexpr const char* kSpatialProofFile = "spatial.proof";
inline constexpr const char* kIndexProofFile = "index.proof";

}  // namespace lucid
