// The values that tasks of a region search consist of, as bytes and back.
#pragma once

#include <memory>
#include <vector>

#include "base/byte_fields.h"
#include "native/proof_log.h"
#include "native/region_parts.h"

namespace lucid {

void Fields(auto& io, Is<Interval> auto& side) { io(side.lower, side.upper); }
void Fields(auto& io, Is<PhaseSplit> auto& phase) {
  io(phase.layer, phase.unit, phase.member, phase.active);
}
void Fields(auto& io, Is<Region> auto& region) {
  List(io, region.box);
  List(io, region.phases);
}
void Fields(auto& io, Is<Multipliers> auto& multipliers) {
  io(multipliers.lambda, multipliers.steepest);
  io.Numbers(multipliers.slopes);
  io.Numbers(multipliers.pushes);
  io(multipliers.below);
  io.Numbers(multipliers.weights);
}
void Fields(auto& io, Is<ProofSplit> auto& split) {
  io(split.node, split.how, split.layer, split.unit, split.at, split.first_child);
}
void Fields(auto& io, Is<ProofBand> auto& band) { io(band.least, band.most); }
void Fields(auto& io, Is<ProofRound> auto& round) {
  io.Numbers(round.halved);
  io(round.aims, round.lambda);
  io.Numbers(round.pushes);
  io.Numbers(round.choose_by);
  io.Numbers(round.tilts);
}
void Fields(auto& io, Is<ProofCase> auto& one) {
  io(one.kind, one.layer, one.unit, one.lambda);
  io.Numbers(one.multipliers);
  List(io, one.rounds);
}
template <class Io>
void Fields(Io& io, Is<ProofClosing> auto& closing) {
  bool banded = closing.band.has_value();
  io(closing.node, closing.member, closing.other, closing.kind, closing.value, closing.below,
     closing.lambda, banded);
  if constexpr (Io::kReads) {
    if (banded) closing.band.emplace();
  }
  if (banded) io(*closing.band);
  io.Numbers(closing.weights);
  io.Numbers(closing.multipliers);
  List(io, closing.cases);
}

}  // namespace lucid

namespace lucid::region_search {

// A pair that is asked about. What proves its bound stays with the one who asks; the other one only
// learns whether there is something.
template <class Io>
void AskedPair(Io& io, Is<RegionPair> auto& pair) {
  bool known = pair.why != nullptr;
  io(pair.member, pair.other, pair.bound, pair.lambda, known);
  if constexpr (Io::kReads) pair.why = known ? std::make_shared<PairProof>() : nullptr;
}

// What became of a pair. `asked`: what proved its bound when it was asked about, which may still be
// what proves it, or what a new claim rests on. A reader keeps the pair's member, class and share.
template <class Io>
void AnsweredPair(Io& io, Is<RegionPair> auto& pair, const std::shared_ptr<PairProof>& asked) {
  enum class Why : std::uint8_t { kNone, kAsAsked, kNew };
  Why why = !pair.why ? Why::kNone : pair.why == asked ? Why::kAsAsked : Why::kNew;
  io(pair.bound, pair.lambda, why);
  if constexpr (Io::kReads) {
    io.Require(why <= Why::kNew && (why != Why::kAsAsked || asked != nullptr));
    pair.why = why == Why::kAsAsked ? asked : nullptr;
    if (why == Why::kNew) pair.why = std::make_shared<PairProof>();
  }
  if (why != Why::kNew || !io.ok()) return;
  PairProof& own = *pair.why;
  bool rests = own.premise != nullptr, unconfirmed = own.unconfirmed != nullptr;
  io(own.closing, rests, unconfirmed);
  if constexpr (Io::kReads) {
    io.Require(!rests || asked != nullptr);
    if (rests) own.premise = asked;
    if (!unconfirmed) return;
    Region region;
    io(region);
    own.unconfirmed = std::make_unique<const Region>(std::move(region));
  } else {
    io.Require(!own.written && (!rests || own.premise == asked));
    if (unconfirmed) io(*own.unconfirmed);
  }
}

void AnsweredOutcome(auto& io, Is<Outcome> auto& outcome, const std::shared_ptr<PairProof>& asked) {
  AnsweredPair(io, outcome.pair, asked);
  io(outcome.alive, outcome.by_intervals, outcome.rounding, outcome.own, outcome.fresh);
}

}  // namespace lucid::region_search
