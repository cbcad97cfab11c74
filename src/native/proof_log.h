// What a region search writes into its proof (docs/proof.md). A bound that a waiting pair has comes
// with the claim that proves it, which is written when it is needed: when the pair is closed or
// given up, or when another claim rests on it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "lucid/base/result.h"
#include "lucid/certificate/proof.h"
#include "native/account.h"
#include "numeric/rounding.h"
#include "pair/region_bounder.h"

namespace lucid {

// Why a pair's bound holds in a region.
//
// Before a claim is written, the checker's own code has to find it true (ClaimChecker), so that no
// proof is refused because the two programs round or break ties in different ways. Claims that
// close a pair, and all claims of searches with bands, are confirmed when they are made. Others are
// only needed if their region is left as it is: they keep their region until then.
struct PairProof {
  // The proof of a bound that the claims which are written already show.
  static std::shared_ptr<PairProof> Written() {
    auto why = std::make_shared<PairProof>();
    why->written = true;
    return why;
  }

  ProofClosing closing;  // of the region, or of one around it
  // If the closing speaks of a band, this shows that no leak is above the band; it is not needed
  // once it is written.
  std::shared_ptr<PairProof> premise;
  bool written = false;
  std::unique_ptr<const Region> unconfirmed;  // the region of the claim; null: it is confirmed

  std::size_t Bytes() const {
    std::size_t floats = closing.multipliers.capacity();
    for (const ProofCase& one : closing.cases) {
      floats += one.multipliers.capacity();
      for (const ProofRound& round : one.rounds) {
        floats += round.choose_by.capacity() + round.tilts.capacity();
      }
    }
    std::size_t bytes = sizeof(PairProof) + floats * sizeof(float) + closing.weights.capacity();
    if (unconfirmed) {
      bytes += sizeof(Region) + unconfirmed->box.capacity() * sizeof(Interval) +
               unconfirmed->phases.capacity() * sizeof(PhaseSplit);
    }
    return bytes;
  }
};

// It serves one class. The first error of the writer is kept, and nothing is written after it.
class ProofLog {
 public:
  // Makes an unconfirmed claim true by raising its value, perhaps to +inf.
  using Confirm = std::function<void(PairProof&)>;
  // A null `writer`: no proof is written, and nothing is done.
  ProofLog(ProofWriter* writer, std::int32_t label, Confirm confirm)
      : writer_(writer), label_(label), confirm_(std::move(confirm)) {}

  bool on() const { return writer_ != nullptr; }
  const Status& status() const { return status_; }

  // Writes the pair's claim and what it rests on, each once. The pair's bound may become larger: it
  // is what the checker finds. Requires, if on(): `pair` has a claim.
  void Write(RegionPair& pair) {
    if (!on()) return;
    PairProof& own = *pair.why;
    if (own.unconfirmed) {
      confirm_(own);
      own.unconfirmed.reset();
    }
    pair.bound = std::max(pair.bound, own.closing.value);
    if (own.closing.value == kInfinity) return;  // it shows nothing
    for (std::shared_ptr<PairProof> proof = pair.why; proof && !proof->written;) {
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
  const Confirm confirm_;
  Status status_ = Ok();
};

}  // namespace lucid
