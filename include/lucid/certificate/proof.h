// The proof of a certificate's bounds: how the native engine cut the domain into regions, and for
// every member and region what shows that nothing leaks there. docs/proof.md has every byte and
// the arithmetic.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"

namespace lucid {

// Cuts a region in two. A region is a node of a class's tree: the root, node 0, is the whole
// domain. A node may be cut in several ways; a pair has to be shown in both halves of one of them.
struct ProofSplit {
  enum class How : std::uint8_t { kInput = 1, kNetworkPhase, kMemberPhase };
  std::uint64_t node = 0;
  How how = How::kInput;
  std::int32_t layer = 0, unit = 0;  // of a phase; unit is the input of an input split
  double at = 0;                     // of an input split: children have x <= at and x >= at
  // The children: first_child has x <= at, or the sum <= 0; first_child + 1 has the rest.
  std::uint64_t first_child = 0;
};

// Only inputs with least <= f <= most are spoken of.
struct ProofBand {
  double least = 0;
  double most = 0;  // may be +inf
  bool operator==(const ProofBand&) const = default;
};

// One round of a bound by windows (docs/proof.md): pieces of inputs are cut, lines are laid over
// cells, and windows are tilted. Its numbers decide how tight a bound is, never whether it holds.
struct ProofRound {
  std::vector<std::uint16_t>
      halved;  // inputs whose pieces are cut in the middle, one after another
  // What is left to the windows is asked anew, with these; else it is as in the round before.
  // Always of the first round.
  bool aims = false;
  double lambda = 0;
  std::vector<float> pushes;     // of the region's first phases: what their sums are pulled by
  std::vector<float> choose_by;  // tilts by which lines are chosen; else those of the round before
  std::vector<float> tilts;      // of every window's inputs
  bool operator==(const ProofRound&) const = default;
};

// A part of a claim by windows. Parts stand in the order in which a tree of cuts is walked: after a
// cut come the parts of its first side (sum <= 0), then those of the second.
struct ProofCase {
  enum class Kind : std::uint8_t {
    kNetworkPhase = 1,  // a cut: the sign of a weighted sum of N
    kMemberPhase,       // or of the member
    kNoInput,           // all others end a side, as closings of the same name do
    kLines,
    kMultipliers,
    kWindows,
  };
  static constexpr int kDeepest = 64;  // so many cuts may lead to a side

  Kind kind = Kind::kNoInput;
  std::int32_t layer = 0, unit = 0;  // of a cut
  double lambda = 0;                 // of kLines and kMultipliers
  std::vector<float> multipliers;    // of kMultipliers
  std::vector<ProofRound> rounds;    // of kWindows, at least one
  bool Cuts() const { return kind <= Kind::kMemberPhase; }
  bool operator==(const ProofCase&) const = default;
};

// Weights of classes are whole multiples of 1 / kWholeWeight.
inline constexpr int kWholeWeight = 256;

// A claim about one pair (member, other class) in a node: no input of the region that leaks has
// value < f <= most, with the band's `most` (without a band, +inf) and the larger one of `value`
// and the band's `least`. The kind says how a checker sees that.
struct ProofClosing {
  enum class Kind : std::uint8_t {
    kNoInput,      // the intervals of N or of the member cross: no such input
    kIntervals,    // interval arithmetic
    kLines,        // the lines that a rule chooses, with this lambda
    kMultipliers,  // these multipliers of every neuron
    kMoments,      // these multipliers of products of quantities
    kWindows,      // what single windows of the input can give, case by case
  };
  static constexpr std::int32_t kEveryPair = -1;

  std::uint64_t node = 0;
  std::int32_t member = 0;  // or kEveryPair (kNoInput only, and no `most`)
  std::int32_t other = 0;   // the class the member would have to give at least as much
  Kind kind = Kind::kNoInput;
  std::optional<ProofBand> band;
  double value = 0;  // not of kNoInput
  // What N's confidence is measured against, of kLines and kMultipliers: one class c', or a mixture
  // of at least two, with a weight for every class (0 for the claim's own) and kWholeWeight in all.
  std::int32_t below = -1;            // c'; -1 of a mixture
  std::vector<std::uint8_t> weights;  // of a mixture, else empty
  double lambda = 0;                  // of kLines and kMultipliers
  // kMultipliers: per hidden layer A of every unit, then D of every unit. kMoments: of every
  // constraint, in the order of docs/proof.md.
  std::vector<float> multipliers;
  std::vector<ProofCase> cases;  // of kWindows
};

// Empty, or what is wrong with the weights of a mixture that class `label` is measured against.
std::string ProblemOfWeights(std::span<const std::uint8_t> weights, std::int64_t classes,
                             std::int32_t label);

// Whether a writer takes a closing as large as this one.
bool FitsIntoProof(const ProofClosing& closing);

struct ProofHeader {
  Digest network_digest, ensemble_digest;
  double member_error = 0;
  std::int32_t classes = 0;
  bool operator==(const ProofHeader&) const = default;
};

// Writes a proof beside its final name, record after record in any order, and renames it at the
// end. Memory does not grow with the proof. Not thread-safe.
class ProofWriter {
 public:
  // Errors: kIo; kInvalidInput for a members' error that is not finite.
  static Result<ProofWriter> Create(const std::string& path, const ProofHeader& header);
  ~ProofWriter();
  ProofWriter(ProofWriter&&) noexcept;
  ProofWriter& operator=(ProofWriter&&) noexcept;

  // Whether nodes form a tree is not looked at here. Errors: kIo; kInvalidInput for what no reader
  // takes (a class that does not exist, numbers that are not finite, a negative lambda). After any
  // error the proof cannot be finished.
  Status Add(std::int32_t label, const ProofSplit& split);
  Status Add(std::int32_t label, const ProofClosing& closing);
  // Everything that stands in another proof with the same header. Errors: as Add; kMismatch for a
  // proof of something else; a file that is damaged.
  Status AddAll(const std::string& part);
  // Seals (SHA-256 of everything before) and renames. Without it, nothing is left at `path`.
  // Returns the seal.
  Result<Digest> Finish();

 private:
  struct Impl;
  explicit ProofWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One proof of several whose headers are equal, of classes or parts of one search. Errors: as
// ProofWriter. Requires: at least one part.
Status MergeProofs(std::span<const std::string> parts, const std::string& path);

// The proof of a run, beside its certificate.
inline constexpr const char* kProofFile = "proof";

}  // namespace lucid
