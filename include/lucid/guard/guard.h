// LUCID-Inference: the only way to ask a network for labels that keeps a promise to the units it
// was trained on (lucid/promise/promise.h says which).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/certificate/certificate.h"
#include "lucid/data/schema.h"
#include "lucid/guard/mechanism.h"
#include "lucid/nn/network.h"

namespace lucid {

class MemberIndex;
class SpatialBounds;
struct RunNetwork;

// When an input is answered as it is. f~ is N's computed confidence, e its error bound; each one's
// noised set is contained in that of the one before.
enum class GuardKind {
  kScalar,   // the paper's: f~ - e > beta_c
  kSpatial,  // f~ - e > the bound of the part of the domain that x lies in
  kExact,    // no member of the ensemble gives another label
};
std::string_view NameOf(GuardKind kind);  // "scalar", "spatial", "exact"
Result<GuardKind> GuardNamed(std::string_view name);

// The secret of the stateless memo: 32 bytes from the system's entropy, never from a seed.
// Replicas that share it give the same answers.
class GuardKey {
 public:
  // Reads the file, or creates it with mode 0600. Errors: a file that others may read, or that is
  // not what Create writes; kIo.
  static Result<GuardKey> LoadOrCreate(const std::string& path);
  // Reads the file. Errors: also one that is not there.
  static Result<GuardKey> Load(const std::string& path);
  static GuardKey Random();  // of this process only

  std::span<const std::uint8_t, 32> bytes() const { return bytes_; }
  // Says which key it is, and nothing about it: a keyed hash. A ledger notes it.
  std::array<std::uint8_t, 16> Name() const;
  ~GuardKey();  // wipes it
  GuardKey(const GuardKey&) = default;
  GuardKey& operator=(const GuardKey&) = default;

 private:
  GuardKey() = default;
  std::array<std::uint8_t, 32> bytes_{};
};
// Where programs keep the key of a run, in its folder.
inline constexpr const char* kGuardKeyFile = "guard.key";

struct GuardOptions {
  GuardKind guard = GuardKind::kScalar;
  MechanismKind mechanism = MechanismKind::kPaper;
  double epsilon = 0;  // per query; 0: noised answers are uniform, and composition is free
  int grid_bits = 0;   // 1..23: inputs are rounded to multiples of 2^-grid_bits first; 0: not
  // What may be asked. None: that of the certificate, and if bounds are declared the default of the
  // run's schema. A guard with a certificate takes no other than the certificate's.
  std::optional<DomainKind> domain;

  Status Validate() const;
};

// What happened to one query. `noised` is for operators and evaluation: it must never reach a
// client, a log or a public metric.
struct GuardedAnswer {
  std::int32_t label = 0;
  bool noised = false;
};

// Whether the client's privacy budget can pay for an answer. When it is used up, noised answers
// become uniform. They never become an error, which would tell noised inputs from others.
enum class Budget { kLeft, kSpent };

// Immutable, thread-safe; holds copies of all it needs. Single and batched calls agree to the bit,
// on every machine.
class Guard {
 public:
  // What the guards beyond kScalar need; the others ignore it. Both must belong to the certificate
  // (its digests name them).
  struct Parts {
    std::shared_ptr<const SpatialBounds> spatial;
    std::shared_ptr<const MemberIndex> index;
  };
  // There is no way to give a bound by hand. `schema`: how raw columns are encoded, and, if the
  // certificate is for DomainKind::kSchema, what may be asked; checked against the certificate.
  // Errors: options out of range; a part that is missing, or of another certificate (kMismatch).
  static Result<Guard> Create(const Network& network, const VerifiedCertificate& certificate,
                              const Schema& schema, const GuardOptions& options,
                              const GuardKey& key, const Parts& parts = {});
  // A guard with the bounds that a private run declared: made from N, these bounds and the schema,
  // and from nothing else of the run. Its answers are the same whatever was certified.
  // Errors: options out of range, or another guard than kScalar; a run that declared no bounds or
  // is not private (kMismatch).
  static Result<Guard> CreateDeclared(const RunNetwork& run, const GuardOptions& options,
                                      const GuardKey& key);
  // The same from a run folder. A private run with declared bounds opens for kScalar by
  // CreateDeclared, and its certificate is not looked at. Otherwise: manifest, network, certificate
  // (empty: RUN/certificate.json), and the parts that options.guard needs, each checked against the
  // digests of the certificate. Only kExact opens the ensemble. Errors name the file and the
  // command that makes it.
  static Result<Guard> Open(const std::string& run, const std::string& certificate,
                            const GuardOptions& options, const GuardKey& key);
  static Result<Guard> Open(const std::string& run, const GuardOptions& options,
                            const GuardKey& key) {
    return Open(run, "", options, key);
  }

  ~Guard();
  Guard(Guard&&) noexcept;
  Guard& operator=(Guard&&) noexcept;

  std::int64_t features() const;
  std::int64_t classes() const;
  const Schema& schema() const;
  const Certificate* certificate() const;  // null: the bounds are declared
  std::span<const double> bounds() const;  // of the confidence, by class
  DomainKind domain() const;
  const GuardOptions& options() const;
  const Mechanism& mechanism() const;
  // What is worth knowing about the bounds, for operators: a line each, often none.
  std::vector<std::string> Warnings() const;

  // Makes x the one spelling of itself that network and hash get: NaN, infinities and values
  // outside of the certificate's domain are refused (the error names the feature, its value and the
  // rule); within kEncodingSlack of [0,1] they become 0 or 1; then the grid, -0 to +0 and
  // subnormals to 0. Requires: x.size() == features() (else an error). Idempotent.
  Status Canonicalize(std::span<float> x) const;

  // The same answer to the same x, today, after a restart and on every replica with this key.
  // Requires: x.size() == features(), and x is canonical. An x outside of the certificate's domain
  // is noised, whatever the guard.
  GuardedAnswer Ask(std::span<const float> x, Budget budget = Budget::kLeft) const;
  std::int32_t Label(std::span<const float> x) const { return Ask(x).label; }
  // The label of a record as the data set has it: the raw cells of the feature columns, in the
  // order of the schema. Errors: as Encoder::EncodeRow and Canonicalize.
  Result<std::int32_t> LabelRecord(std::span<const std::string_view> cells) const;
  Result<std::int32_t> LabelRecord(std::initializer_list<std::string_view> cells) const {
    return LabelRecord(std::span(cells.begin(), cells.size()));
  }
  // Rows one after another; answers.size() * features() == rows.size(). Equal to Ask on each.
  // Single-threaded: callers split. Requires: every row is canonical.
  void AskBatch(std::span<const float> rows, std::span<GuardedAnswer> answers,
                Budget budget = Budget::kLeft) const;

  // The same with a budget per row, and draws from elsewhere (a dictionary's) instead of the keyed
  // hash; `draws` is empty or has one per row. Requires: a draw is uniform, secret, and serves one
  // input, one guard and one budget only.
  GuardedAnswer Ask(std::span<const float> x, Budget budget, const Draw& draw) const;
  void AskBatch(std::span<const float> rows, std::span<GuardedAnswer> answers,
                std::span<const Budget> budgets, std::span<const Draw> draws = {}) const;

  // What identifies a canonical x under this guard to a ledger or dictionary: 16 bytes of the keyed
  // hash. It tells nothing about x to anybody who does not hold the key.
  std::array<std::uint8_t, 16> Fingerprint(std::span<const float> x) const;

 private:
  struct Impl;
  explicit Guard(std::unique_ptr<const Impl> impl);
  static Result<Guard> Make(const Network& network, const Schema& schema, DomainKind domain,
                            double network_error, std::vector<double> bounds,
                            std::optional<Certificate> certificate, Parts parts,
                            const GuardOptions& options, const GuardKey& key);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace lucid
