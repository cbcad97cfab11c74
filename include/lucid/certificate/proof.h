// The proof of a certificate's bounds: the tree of regions the native engine cut the domain into,
// and for every member and region the multipliers that close it. docs/proof.md has every byte and
// the arithmetic.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"

namespace lucid {

// Why a pair (member, other class) need not be looked at below this node: either no input of the
// region has the member's phases, or the dual bound of these multipliers is at or below beta_upper.
struct ProofClosing {
  std::int32_t member = 0;
  std::int32_t other = 0;  // the class the member would have to give at least as much
  bool empty = false;
  double lambda = 0;
  std::vector<float> dual;  // per hidden layer: A of every unit, then D of every unit
  std::int32_t below = -1;  // c': the class that N's confidence is measured against
};

struct ProofNode {
  enum class Split : std::uint8_t { kNone, kInput, kNetworkPhase, kMemberPhase };
  std::uint64_t id = 0;  // the root of a class is 0
  Split split = Split::kNone;
  std::int32_t layer = 0, unit = 0;  // of a phase; unit is the input of an input split
  double at = 0;                     // of an input split: children have x <= at and x >= at
  // Children: first_child (x <= at, or the sum <= 0) and first_child + 1. A child that is not in
  // the file is claimed to hold no input.
  std::uint64_t first_child = 0;
  std::vector<ProofClosing> closings;
};

struct ProofHeader {
  Digest network_digest, ensemble_digest;
  double member_error = 0;
  std::int32_t classes = 0;
};

// Writes a proof beside its final name, node after node in any order, and renames it at the end.
// Memory does not grow with the proof. Not thread-safe.
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
  Status Add(std::int32_t label, const ProofNode& node);
  // Seals (SHA-256 of everything before) and renames. Without it, nothing is left at `path`.
  Status Finish();

 private:
  struct Impl;
  explicit ProofWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lucid
