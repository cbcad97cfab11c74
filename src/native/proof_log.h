// What a region search writes into its proof (docs/proof.md). A bound that a waiting pair has comes
// with the claim that proves it, which is written when it is needed: when the pair is closed or
// given up, or when another claim rests on it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "lucid/base/result.h"
#include "lucid/certificate/proof.h"

namespace lucid {

// Why a pair's bound holds in a region.
struct PairProof {
  ProofClosing closing;  // of the region, or of one around it
  // Where the closing speaks of a band: what shows that no leak is above it; not needed if written.
  std::shared_ptr<PairProof> premise;
  bool written = false;

  std::size_t Bytes() const {
    std::size_t floats = closing.multipliers.capacity();
    for (const ProofCase& one : closing.cases) {
      floats += one.multipliers.capacity();
      for (const ProofRound& round : one.rounds) {
        floats += round.choose_by.capacity() + round.tilts.capacity();
      }
    }
    return sizeof(PairProof) + floats * sizeof(float);
  }
};

// Of one class. The first error of the writer is kept, and nothing is written after it.
class ProofLog {
 public:
  // null: no proof is written, and nothing is done.
  ProofLog(ProofWriter* writer, std::int32_t label) : writer_(writer), label_(label) {}

  bool on() const { return writer_ != nullptr; }
  const Status& status() const { return status_; }

  // The claim and what it rests on, each once. Requires: `why` is not null, if on().
  void Write(const std::shared_ptr<PairProof>& why) {
    if (!on()) return;
    for (std::shared_ptr<PairProof> proof = why; proof && !proof->written;) {
      Keep(writer_->Add(label_, proof->closing));
      proof->written = true;
      proof->closing.multipliers = {};  // nobody asks for them again
      proof->closing.cases = {};
      proof = std::exchange(proof->premise, nullptr);
    }
  }
  void Split(ProofSplit how, std::uint64_t node, std::uint64_t first_child) {
    if (!on()) return;
    how.node = node;
    how.first_child = first_child;
    Keep(writer_->Add(label_, how));
  }

 private:
  void Keep(Status added) {
    if (status_.ok() && !added.ok()) status_ = std::move(added);
  }

  ProofWriter* const writer_;
  const std::int32_t label_;
  Status status_ = Ok();
};

}  // namespace lucid
