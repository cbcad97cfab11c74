// The values that tasks of a region search consist of, as bytes and back. One list of fields for
// each serves both directions, so that a writer and its reader cannot differ.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "native/proof_log.h"
#include "native/region_parts.h"

namespace lucid {

// A parameter that a writer has as a constant and a reader has not.
template <typename T, typename Of>
concept Is = std::same_as<std::remove_const_t<T>, Of>;

}  // namespace lucid

namespace lucid::region_search {

// What both have in common: io(a, b, ...) writes these values or reads them. A class is exchanged
// by a function Fields(io, value) beside it or below.
template <class Io>
class ByteFields {
 public:
  template <typename... Values>
  void operator()(Values&... values) {
    (One(values), ...);
  }

 private:
  template <typename T>
  void One(T& value) {
    using Plain = std::remove_const_t<T>;
    Io& io = static_cast<Io&>(*this);
    if constexpr (std::is_arithmetic_v<Plain>) {
      io.Number(value);
    } else if constexpr (std::is_enum_v<Plain>) {
      auto number = static_cast<std::underlying_type_t<Plain>>(value);
      io.Number(number);
      if constexpr (Io::kReads) value = static_cast<Plain>(number);
    } else {
      Fields(io, value);
    }
  }
};

class BytesOut : public ByteFields<BytesOut> {
 public:
  static constexpr bool kReads = false;
  explicit BytesOut(std::string& out) : out_(out) {}
  template <typename T>
  void Number(const T& value) {
    PutBytes(out_, value);
  }
  template <typename T>
  void Numbers(const std::vector<T>& values) {
    PutBytes(out_, static_cast<std::uint64_t>(values.size()));
    out_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  std::uint64_t Count(std::uint64_t count) {
    PutBytes(out_, count);
    return count;
  }
  void Require(bool holds) { ok_ = ok_ && holds; }
  bool ok() const { return ok_; }

 private:
  std::string& out_;
  bool ok_ = true;
};

class BytesIn : public ByteFields<BytesIn> {
 public:
  static constexpr bool kReads = true;
  explicit BytesIn(ByteCursor& in) : in_(in) {}
  template <typename T>
  void Number(T& value) {
    value = in_.Take<T>();
  }
  template <typename T>
  void Numbers(std::vector<T>& values) {
    values.resize(static_cast<std::size_t>(Count(0, sizeof(T))));
    for (T& value : values) value = in_.Take<T>();
  }
  // How many values follow, of at least `size` bytes each.
  std::uint64_t Count(std::uint64_t, std::size_t size = 1) {
    const auto count = in_.Take<std::uint64_t>();
    in_.Require(count <= in_.left() / size);
    return in_.ok() ? count : 0;
  }
  void Require(bool holds) { in_.Require(holds); }
  bool ok() const { return in_.ok(); }

 private:
  ByteCursor& in_;
};

template <class Io, typename T>
void List(Io& io, T& values) {
  const std::uint64_t count = io.Count(values.size());
  if constexpr (Io::kReads) values.resize(static_cast<std::size_t>(count));
  for (auto& value : values) io(value);
}

}  // namespace lucid::region_search

namespace lucid {

void Fields(auto& io, Is<Interval> auto& side) { io(side.lower, side.upper); }
void Fields(auto& io, Is<PhaseSplit> auto& phase) {
  io(phase.layer, phase.unit, phase.member, phase.active);
}
void Fields(auto& io, Is<Region> auto& region) {
  region_search::List(io, region.box);
  region_search::List(io, region.phases);
}
void Fields(auto& io, Is<Multipliers> auto& multipliers) {
  io(multipliers.lambda, multipliers.steepest);
  io.Numbers(multipliers.slopes);
  io.Numbers(multipliers.pushes);
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
  region_search::List(io, one.rounds);
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
  io.Numbers(closing.multipliers);
  region_search::List(io, closing.cases);
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
