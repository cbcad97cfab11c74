#include "native/spatial_box.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "check/claim_checker.h"
#include "native/engine.h"
#include "native/guard_proof.h"
#include "native/region_search.h"
#include "native/task_bytes.h"
#include "numeric/rounding.h"

namespace lucid::spatial {
namespace {

constexpr double kNarrowest = 1e-7;  // an interval of an input this narrow is not cut any more
constexpr int kSteps = 5;            // of descent, with many inputs
// Pairs of a box are bounded until all but this share of its guides are above their bounds. The
// rest, the hardest to help, waits for smaller boxes.
constexpr double kHardest = 0.3;

}  // namespace

BoxWork::BoxWork(const Network& network, const Members& members, const Domain& domain,
                 const SpatialQuestion& question)
    : network_(network),
      members_(members),
      domain_(domain),
      question_(question),
      steps_(network.architecture.inputs() > kFewInputs ? kSteps : 0),
      inputs_(static_cast<std::size_t>(network.architecture.inputs())) {}

std::optional<Cut> BoxWork::HalfOfWidest(const Leaf& leaf) const {
  const auto widest = std::ranges::max_element(
      leaf.region.box, {}, [](const Interval& side) { return side.upper - side.lower; });
  if (widest->upper - widest->lower <= kNarrowest) return std::nullopt;
  const auto input = static_cast<std::int32_t>(widest - leaf.region.box.begin());
  return Cut{input, domain_.CutOf(input, widest->lower, widest->upper)};
}

std::optional<Cut> BoxWork::CutForWorst(const Leaf& leaf, const Pair& worst,
                                        BoxWorker& worker) const {
  const std::int32_t input = InputToCut(leaf, worst, worker);
  if (input < 0) return std::nullopt;
  const Interval side = leaf.region.box[input];
  if (side.upper - side.lower <= kNarrowest) return std::nullopt;
  std::vector<Cut> cuts{{input, domain_.CutOf(input, side.lower, side.upper)}};
  if (const auto beside = BesideGuides(leaf, input)) cuts.push_back(*beside);
  std::optional<Cut> best;
  double least = kInfinity;
  for (const Cut& cut : cuts) {
    const double left = LeftAbove(leaf, cut, worst, worker);
    if (left < least) least = left, best = cut;
  }
  return best;
}

Half BoxWork::HalfOf(const Leaf& leaf, const Cut& cut, std::size_t side, std::uint64_t node) const {
  Half half;
  Leaf& child = half.leaf;
  child.node = node;
  child.region = leaf.region;
  child.rest = leaf.rest;
  half.inhabited = Halve(child.region.box, cut, side);
  if (!half.inhabited) return half;
  child.pairs = leaf.pairs;
  for (const Guide& guide : leaf.guides) {
    if (IsFirst(guide, cut) == (side == 0)) child.guides.push_back(guide);
  }
  half.stand_ins = child.guides.empty() && !GuidesFillDomain(domain_);
  if (half.stand_ins) child.guides = leaf.guides;
  return half;
}

void BoxWork::Bound(Half& half, BoxWorker& worker) const {
  Leaf& leaf = half.leaf;
  const auto facts = half.inhabited ? worker.bounder.Enter(leaf.region) : Recycled<RegionFacts>();
  if (!facts) return Close(half);
  if (!leaf.guides.empty()) BoundPairsFor(leaf, leaf.guides, *facts, worker);
  if (half.stand_ins) leaf.guides.clear();
  Settle(leaf);
}

void BoxWork::Close(Half& half) {
  Leaf closed;
  closed.node = half.leaf.node;
  closed.region = std::move(half.leaf.region);
  closed.settled = true;
  ProofClosing none;
  none.node = closed.node;
  none.member = ProofClosing::kEveryPair;
  closed.dropped.push_back(std::make_shared<const ProofClosing>(none));
  half = {std::move(closed), /*inhabited=*/false, /*stand_ins=*/false};
}

void BoxWork::Settle(Leaf& leaf) {
  const double bound = leaf.Bound();
  std::erase_if(leaf.guides, [&](const Guide& guide) { return guide.confidence > bound; });
  leaf.settled = leaf.guides.empty() || leaf.pairs.empty();
  if (leaf.settled) {
    leaf.rest = bound;
    for (Pair& pair : leaf.pairs) leaf.dropped.push_back(std::move(pair.why));
    leaf.pairs = {};
    return;
  }
  const double least = std::ranges::min_element(leaf.guides, {}, &Guide::confidence)->confidence;
  std::erase_if(leaf.pairs, [&](Pair& pair) {
    if (pair.bound >= least) return false;
    leaf.rest = std::max(leaf.rest, pair.bound);
    leaf.dropped.push_back(std::move(pair.why));
    return true;
  });
}

void BoxWork::Tighten(ProofClosing claim, Pair& pair) {
  const double value = std::max(ValueOf(claim), 0.0);
  if (!(value < pair.bound)) return;
  pair.bound = value;
  pair.why = std::make_shared<const ProofClosing>(std::move(claim));
}

ProofClosing BoxWork::ClaimOf(const RegionFacts& region, Pair& pair, double enough,
                              BoxWorker& worker) const {
  ProofClosing none;  // says that there is no input
  none.member = pair.member;
  none.other = pair.other;
  members_.CopyParameters(pair.member, worker.parameters);
  const auto facts = worker.bounder.Enter(region, worker.parameters);
  if (!facts) return none;
  Multipliers multipliers;
  multipliers.lambda = pair.lambda;
  std::vector<float> dual;
  ChargedBound bound =
      worker.bounder.Bound(*facts, QuestionOf(pair), multipliers, steps_, enough, &dual);
  pair.lambda = multipliers.lambda;
  return ClaimByLines(worker.bounder, *facts, pair.member, QuestionOf(pair), multipliers,
                      std::move(dual), question_.flat, bound);
}

PairQuestion BoxWork::QuestionOf(const Pair& pair) const {
  return {question_.label,        pair.other, pair.other,
          question_.member_error, {},         network_.architecture.classes() > 2};
}

std::int32_t BoxWork::InputToCut(const Leaf& leaf, const Pair& worst, BoxWorker& worker) const {
  members_.CopyParameters(worst.member, worker.parameters);
  const auto facts = worker.bounder.EnterPair(leaf.region, worker.parameters);
  if (!facts) return -1;
  Multipliers multipliers;
  multipliers.lambda = worst.lambda;
  worker.bounder.Bound(*facts, QuestionOf(worst), multipliers, 0, 0);
  return worker.bounder.Advise(*facts, QuestionOf(worst), multipliers).input;
}

std::optional<Cut> BoxWork::BesideGuides(const Leaf& leaf, std::int32_t feature) const {
  double low = kInfinity, high = -kInfinity;
  for (const Guide& guide : leaf.guides) {
    low = std::min<double>(low, guide.x[feature]);
    high = std::max<double>(high, guide.x[feature]);
  }
  const Interval side = leaf.region.box[feature];
  const double at = low - side.lower > side.upper - high ? domain_.CutOf(feature, side.lower, low)
                                                         : domain_.CutOf(feature, high, side.upper);
  if (!(at > side.lower && at < side.upper)) return std::nullopt;
  return Cut{feature, at};
}

bool BoxWork::IsFirst(const Guide& guide, const Cut& cut) { return guide.x[cut.feature] <= cut.at; }

double BoxWork::LeftAbove(const Leaf& leaf, const Cut& cut, const Pair& pair,
                          BoxWorker& worker) const {
  double left = 0;
  for (const std::size_t side : {0U, 1U}) {
    Region region = leaf.region;
    if (!Halve(region.box, cut, side)) continue;
    const auto facts = worker.bounder.Enter(region);
    if (!facts) continue;
    Pair trial = pair;
    const double bound =
        std::min(std::max(ValueOf(ClaimOf(*facts, trial, 0, worker)), 0.0), pair.bound);
    for (const Guide& guide : leaf.guides) {
      if (IsFirst(guide, cut) == (side == 0)) left += std::max(bound - guide.confidence, 0.0);
    }
  }
  return left;
}

bool BoxWork::Halve(Box& box, const Cut& cut, std::size_t side) const {
  (side == 0 ? box[cut.feature].upper : box[cut.feature].lower) = cut.at;
  return ShrinkBox(domain_, box);
}

void BoxWork::BoundPairsFor(Leaf& leaf, std::vector<Guide>& guides, const RegionFacts& facts,
                            BoxWorker& worker) const {
  std::vector<Pair>& pairs = leaf.pairs;
  const double enough = Enough(guides);
  const double most = std::ranges::max_element(guides, {}, &Guide::confidence)->confidence;
  std::ranges::stable_sort(pairs, std::ranges::greater(), &Pair::bound);
  for (Pair& pair : pairs) {
    if (pair.bound <= enough) break;
    ProofClosing claim = ClaimOf(facts, pair, enough, worker);
    claim.node = leaf.node;
    Tighten(std::move(claim), pair);
    if (pair.bound >= most) return DropLeaking({&pair, 1}, guides, worker);
  }
  DropLeaking(pairs, guides, worker);
  for (Guide& guide : guides) guide.agreed = true;
}

void BoxWork::DropLeaking(std::span<const Pair> pairs, std::vector<Guide>& guides,
                          BoxWorker& worker) const {
  for (const Pair& pair : pairs) {
    bool assigned = false;
    std::erase_if(guides, [&](const Guide& guide) {
      if (guide.agreed || guide.confidence > pair.bound) return false;
      if (!std::exchange(assigned, true)) {
        members_.CopyParameters(pair.member, worker.parameters);
        worker.member.Assign(network_.architecture, worker.parameters, question_.label);
      }
      worker.point.assign(guide.x.begin(), guide.x.end());
      return worker.member.Evaluate(worker.point) <= question_.member_error;
    });
  }
}

double BoxWork::Enough(const std::vector<Guide>& guides) {
  std::vector<double> confidences;
  confidences.reserve(guides.size());
  for (const Guide& guide : guides) confidences.push_back(guide.confidence);
  const auto at = confidences.begin() +
                  static_cast<std::ptrdiff_t>(kHardest * static_cast<double>(confidences.size()));
  std::ranges::nth_element(confidences, at);
  return *at;
}

// ---- messages
// --------------------------------------------------------------------------------------- A
// question holds a box with its pairs and guides. What proves a pair's bound stays with the one who
// asks; the other one learns only whether there is something. An answer names pairs and guides by
// their numbers in the question, and holds the claims that are new.

void Fields(auto& io, Is<Cut> auto& cut) { io(cut.feature, cut.at); }

namespace {

// A pair that is asked about.
template <class Io>
void AskedPair(Io& io, Is<Pair> auto& pair) {
  bool known = pair.why != nullptr;
  io(pair.member, pair.other, pair.bound, pair.lambda, known);
  if constexpr (Io::kReads) pair.why = known ? std::make_shared<const ProofClosing>() : nullptr;
}

template <class Io>
void AskedPairs(Io& io, Is<std::vector<Pair>> auto& pairs) {
  const std::uint64_t count = io.Count(pairs.size());
  if constexpr (Io::kReads) pairs.resize(static_cast<std::size_t>(count));
  for (auto& pair : pairs) AskedPair(io, pair);
}

void AskGuides(BytesOut& io, const Leaf& leaf, std::size_t inputs) {
  io.Count(leaf.guides.size());
  for (const Guide& guide : leaf.guides) {
    for (std::size_t j = 0; j < inputs; ++j) io(guide.x[j]);
    io(guide.confidence, guide.agreed);
  }
}
// `rows`: where the guides' inputs are kept.
void ReadGuides(BytesIn& io, Leaf& leaf, std::size_t inputs, std::vector<float>& rows) {
  leaf.guides.resize(static_cast<std::size_t>(io.Count(0, inputs * sizeof(float))));
  rows.resize(leaf.guides.size() * inputs);
  for (std::size_t i = 0; i < leaf.guides.size(); ++i) {
    const std::span<float> x = std::span(rows).subspan(i * inputs, inputs);
    for (float& value : x) io(value);
    leaf.guides[i].x = x;
    io(leaf.guides[i].confidence, leaf.guides[i].agreed);
  }
}

// Whether a reader may work on the box: it has these sides, and pairs that there are.
bool IsBoxOf(const Leaf& leaf, const Members& members) {
  const Architecture& architecture = members.architecture();
  return std::ssize(leaf.region.box) == architecture.inputs() && leaf.region.phases.empty() &&
         std::ranges::all_of(leaf.pairs, [&](const Pair& pair) {
           return pair.member >= 0 && pair.member < members.count() && pair.other >= 0 &&
                  pair.other < architecture.classes();
         });
}

// What proves a pair's bound, or was left when a pair was dropped.
enum class Why : std::uint8_t { kNone, kAsAsked, kNew };

// Tells what became of a half.
class HalfWriter {
 public:
  // `asked`: the pairs and guides of the question, whose numbers the answer uses.
  HalfWriter(const std::vector<Pair>& asked, std::span<const float> rows, std::size_t inputs)
      : rows_(rows), inputs_(inputs) {
    for (std::size_t i = 0; i < asked.size(); ++i) {
      number_[{asked[i].member, asked[i].other}] = i;
      if (asked[i].why) known_[asked[i].why.get()] = i;
    }
  }

  void Write(const Half& half, BytesOut& io) const {
    io(half.inhabited);
    if (!half.inhabited) return;
    const Leaf& leaf = half.leaf;
    io(leaf.rest, leaf.settled);
    io.Count(leaf.pairs.size());
    for (const Pair& pair : leaf.pairs) {
      io(number_.at({pair.member, pair.other}), pair.bound, pair.lambda);
      WriteWhy(pair.why, io);
    }
    io.Count(leaf.dropped.size());
    for (const auto& why : leaf.dropped) WriteWhy(why, io);
    io.Count(leaf.guides.size());
    for (const Guide& guide : leaf.guides) {
      const auto number = static_cast<std::uint64_t>(guide.x.data() - rows_.data()) / inputs_;
      io(number, guide.agreed);
    }
  }

 private:
  void WriteWhy(const std::shared_ptr<const ProofClosing>& why, BytesOut& io) const {
    const auto asked = why ? known_.find(why.get()) : known_.end();
    const Why kind = !why ? Why::kNone : asked != known_.end() ? Why::kAsAsked : Why::kNew;
    io(kind);
    if (kind == Why::kAsAsked) io(asked->second);
    if (kind == Why::kNew) io(*why);
  }

  const std::span<const float> rows_;
  const std::size_t inputs_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::uint64_t> number_;
  std::unordered_map<const ProofClosing*, std::uint64_t> known_;
};

// Makes the half that was asked about what an answer says of it.
class HalfReader {
 public:
  HalfReader(BytesIn& io, Half& half) : io_(io), half_(half), asked_(std::move(half.leaf)) {}

  bool Read() {
    Leaf& leaf = half_.leaf = Leaf();
    leaf.node = asked_.node;
    leaf.region = asked_.region;
    io_(half_.inhabited);
    if (!half_.inhabited) {
      BoxWork::Close(half_);
      return io_.ok();
    }
    io_(leaf.rest, leaf.settled);
    left_.assign(asked_.pairs.size(), 1);
    for (std::uint64_t count = io_.Count(0); count > 0; --count) {
      const std::uint64_t number = Number(asked_.pairs.size());
      io_.Require(io_.ok() && std::exchange(left_[number], 0) != 0);  // each once
      if (!io_.ok()) return false;
      Pair pair = asked_.pairs[number];
      io_(pair.bound, pair.lambda);
      pair.why = ReadWhy();
      leaf.pairs.push_back(std::move(pair));
    }
    for (std::uint64_t count = io_.Count(0); count > 0; --count) leaf.dropped.push_back(ReadWhy());
    std::uint64_t least = 0;
    for (std::uint64_t count = io_.Count(0); count > 0; --count) {
      const std::uint64_t number = Number(asked_.guides.size());
      io_.Require(number >= least);  // each once
      if (!io_.ok()) return false;
      least = number + 1;
      leaf.guides.push_back(asked_.guides[number]);
      io_(leaf.guides.back().agreed);
    }
    // What is left to bound, or was put aside, is all that was asked about.
    io_.Require(leaf.pairs.size() + leaf.dropped.size() == asked_.pairs.size());
    return io_.ok();
  }

 private:
  std::uint64_t Number(std::size_t count) {
    std::uint64_t number = 0;
    io_(number);
    io_.Require(number < count);
    return number;
  }
  std::shared_ptr<const ProofClosing> ReadWhy() {
    Why kind = Why::kNone;
    io_(kind);
    io_.Require(kind <= Why::kNew);
    if (!io_.ok() || kind == Why::kNone) return nullptr;
    if (kind == Why::kAsAsked) {
      const std::uint64_t number = Number(asked_.pairs.size());
      return io_.ok() ? asked_.pairs[number].why : nullptr;
    }
    ProofClosing claim;
    io_(claim);
    io_.Require(claim.node == asked_.node);
    return std::make_shared<const ProofClosing>(std::move(claim));
  }

  BytesIn& io_;
  Half& half_;
  const Leaf asked_;
  std::vector<char> left_;
};

}  // namespace

void BoxWork::AskCut(const Leaf& leaf, const Pair& worst, std::string& out) const {
  BytesOut io(out);
  io(leaf.region);
  AskedPair(io, worst);
  AskGuides(io, leaf, inputs_);
}

bool BoxWork::TakeCut(ByteCursor& in, const Leaf& leaf, std::optional<Cut>& found) {
  BytesIn io(in);
  bool any = false;
  io(any);
  if (!any) return io.ok();
  Cut cut;
  io(cut);
  io.Require(cut.feature >= 0 && cut.feature < std::ssize(leaf.region.box));
  if (!io.ok()) return false;
  const Interval& side = leaf.region.box[cut.feature];
  io.Require(side.lower <= cut.at && cut.at <= side.upper);
  found = cut;
  return io.ok();
}

void BoxWork::AskHalf(const Half& half, std::string& out) const {
  BytesOut io(out);
  const Leaf& leaf = half.leaf;
  io(leaf.node, leaf.region, leaf.rest, half.stand_ins);
  AskedPairs(io, leaf.pairs);
  AskGuides(io, leaf, inputs_);
}

bool BoxWork::TakeHalf(ByteCursor& in, Half& half) {
  BytesIn io(in);
  return HalfReader(io, half).Read();
}

bool BoxWork::AnswerCut(ByteCursor& in, BoxWorker& worker, std::string& out) const {
  BytesIn io(in);
  Leaf leaf;
  std::vector<float> rows;
  io(leaf.region);
  AskedPair(io, leaf.pairs.emplace_back());
  ReadGuides(io, leaf, inputs_, rows);
  io.Require(IsBoxOf(leaf, members_));
  if (!io.ok()) return false;
  const auto cut = CutForWorst(leaf, leaf.pairs.front(), worker);
  BytesOut answer(out);
  const bool any = cut.has_value();
  answer(any);
  if (any) answer(*cut);
  return true;
}

bool BoxWork::AnswerHalf(ByteCursor& in, BoxWorker& worker, std::string& out) const {
  BytesIn io(in);
  Half half;
  Leaf& leaf = half.leaf;
  std::vector<float> rows;
  io(leaf.node, leaf.region, leaf.rest, half.stand_ins);
  AskedPairs(io, leaf.pairs);
  ReadGuides(io, leaf, inputs_, rows);
  io.Require(IsBoxOf(leaf, members_));
  if (!io.ok()) return false;
  const std::vector<Pair> asked = leaf.pairs;
  Bound(half, worker);
  BytesOut answer(out);
  HalfWriter(asked, rows, inputs_).Write(half, answer);
  return answer.ok();
}

}  // namespace lucid::spatial
