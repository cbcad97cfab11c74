#include "native/closer_search.h"

#include <algorithm>
#include <utility>

namespace lucid::region_search {

namespace {

// A pair is hard after so many bounds by lines. With more classes, looks start where another pair's
// was half-way, and a member has more pairs that lines would have to bound.
std::int64_t HardAfter(const RegionSearchOptions& options, const Architecture& architecture) {
  const std::int64_t cost = options.closer_after.value_or(CloserBounder::Cost(architecture));
  return architecture.classes() == 2 ? cost : (cost + kSooner - 1) / kSooner;
}

}  // namespace

CloserSearch::CloserSearch(const Network& network, std::int64_t members,
                           const RegionSearchOptions& options, const RegionWork& work,
                           const WorkerTeam& team, RegionBook& book, Calls calls)
    : network_(network),
      width_(options.width),
      work_(work),
      team_(team),
      book_(book),
      calls_(std::move(calls)),
      after_(work.CutsPhases() && work.UsesBands() && CloserBounder::Fits(network.architecture)
                 ? HardAfter(options, network.architecture)
                 : 0),
      asked_(static_cast<std::size_t>(members * network.architecture.classes()), 0),
      boxes_(static_cast<std::size_t>(members), 0),
      unreached_(static_cast<std::size_t>(members * network.architecture.classes())) {}

void CloserSearch::Count(const RegionPair& pair) {
  if (++asked_[NumberOf(pair)] == after_)
    to_look_at_.push_back({pair.member, pair.other, 0, pair.lambda});
}

Result<bool> CloserSearch::Bound(std::vector<CloserBox>& boxes) const {
  std::vector<CloserTask> tasks;
  tasks.reserve(boxes.size());
  for (CloserBox& box : boxes) tasks.push_back({&box});
  return team_.Do(tasks);
}

Result<bool> CloserSearch::LookAtHardPairs() {
  if (to_look_at_.empty()) return true;
  book_.FindReasonsOfAll();
  for (RegionPair& pair : to_look_at_) pair.bound = book_.state.LargestBound(pair);
  std::vector<RegionPair> to_attack;
  for (const RegionPair& pair : to_look_at_) {
    if (!attacked_.contains(pair.member)) to_attack.push_back(pair);
  }
  if (!to_attack.empty()) {
    LUCID_ASSIGN(const bool attacked, calls_.attack(to_attack));
    if (!attacked) return false;
    for (const RegionPair& pair : to_attack) attacked_.insert(pair.member);
  }
  while (!to_look_at_.empty()) {
    const std::size_t most = UsesWindows() || ManyClasses() ? kLooks : kRoundPairs;
    const auto end =
        to_look_at_.begin() + static_cast<std::ptrdiff_t>(std::min(to_look_at_.size(), most));
    LUCID_ASSIGN(const bool done, LookAt({to_look_at_.begin(), end}));
    if (!done) return false;
    to_look_at_.erase(to_look_at_.begin(), end);
    book_.CountMemory();
    calls_.report();
  }
  return true;
}

Result<bool> CloserSearch::LookAt(std::span<const RegionPair> pairs) {
  std::vector<CloserBox> looks;
  for (const RegionPair& pair : pairs) {
    looks.push_back({work_.root(), pair});
    if (UsesWindows()) looks.back().level = kFirstLevel * calls_.beta_lower();
    looks.back().half_way = half_way_;
  }
  LUCID_ASSIGN(const bool done, Bound(looks));
  for (CloserBox& look : looks) Support(look);
  if (!done) {
    for (const CloserBox& look : looks) book_.state.Limit(look.pair);
    return false;
  }
  for (CloserBox& look : looks) {
    ++book_.state.bounds;
    CountLevel(look);
    if (ManyClasses() && !look.half_way.empty()) half_way_ = std::move(look.half_way);
    if (look.pair.bound <= CloserBounder::Close(network_.architecture) * work_.target) {
      look.pair.share = book_.state.Withdraw(look.pair);
      Push(std::move(look));
    } else {
      book_.state.Limit(look.pair);
    }
  }
  return true;
}

void CloserSearch::Support(CloserBox& look) {
  if (!book_.log.on()) return;
  if (!look.fresh) look.pair.why = PairProof::Written();
  for (RegionNode& node : book_.state.open) {
    for (RegionPair& pair : node.alive) {
      const bool same = pair.member == look.pair.member && pair.other == look.pair.other;
      if (same && pair.why) book_.log.Write(pair);
    }
  }
}

void CloserSearch::Push(CloserBox bound) {
  if (!bound.alive) {
    book_.ClosePair(bound.pair);
    return;
  }
  RegionNode node;
  node.id = book_.state.next_id++;
  node.place = bound.place;
  node.region.box = std::move(bound.box);
  node.closer = ++boxes_[static_cast<std::size_t>(bound.pair.member)] <=
                CloserBounder::MostBoxes(network_.architecture);
  if (node.closer) {
    node.closer_multipliers = std::move(bound.multipliers);
    node.cut = bound.cut;
  }
  RegionBook::AddAlive(bound.pair, node);
  book_.Push(std::move(node));
}

double CloserSearch::Level(const RegionNode& node) {
  if (node.region.box != work_.root() || !UsesWindows()) return 0;
  const double unreached = Unreached(node.alive.front());
  const double low = std::max(unreached, work_.target);
  if (node.bound > kNearLevels * low) return 0.5 * (low + node.bound);
  return work_.target > kNearLevels * unreached ? work_.target : 0;
}

void CloserSearch::CountLevel(const CloserBox& box) {
  const double asked = std::max(box.level, work_.target);
  if (box.level > 0 && box.pair.bound > asked) Unreached(box.pair) = asked;
}

double& CloserSearch::Unreached(const RegionPair& pair) { return unreached_[NumberOf(pair)]; }

std::size_t CloserSearch::NumberOf(const RegionPair& pair) const {
  return static_cast<std::size_t>(pair.member) *
             static_cast<std::size_t>(network_.architecture.classes()) +
         static_cast<std::size_t>(pair.other);
}

Result<bool> CloserSearch::Round() {
  std::vector<RegionNode> nodes;
  const std::vector<RegionNode>& open = book_.state.open;
  while (nodes.size() < kCloserRound * width_ && !open.empty() && open.front().closer &&
         open.front().bound > work_.target) {
    nodes.push_back(book_.Pop());
    book_.FindReasons(nodes.back());
  }
  in_hand_ = nodes.front().bound;
  LUCID_ASSIGN(const bool done, LookInto(nodes));
  in_hand_ = 0;
  if (done) return true;
  for (RegionNode& node : nodes) book_.Push(std::move(node));
  return false;
}

Result<bool> CloserSearch::LookInto(const std::vector<RegionNode>& nodes) {
  std::vector<RegionPair> pairs;
  pairs.reserve(nodes.size());
  for (const RegionNode& node : nodes) pairs.push_back(node.alive.front());
  LUCID_ASSIGN(const bool attacked, calls_.attack(pairs));
  if (!attacked) return false;
  std::vector<CloserBox> parts, empty;
  std::vector<ProofSplit> splits;
  std::int64_t halves = 0;
  for (const RegionNode& node : nodes) {
    CloserBox whole{node.region.box, node.alive.front(), node.closer_multipliers, node.cut,
                    node.place};
    whole.level = Level(node);
    if (node.cut < 0 || whole.level > 0) {
      parts.push_back(whole);
      continue;
    }
    const auto at = static_cast<std::size_t>(node.cut);
    ProofSplit& split = splits.emplace_back();
    split.unit = node.cut;
    split.at = work_.CutOf(node.cut, whole.box[at]);
    split.node = node.place;
    split.first_child = book_.state.next_id;
    for (int side = 0; side < 2; ++side) {
      CloserBox half = whole;
      half.place = book_.state.next_id++;
      half.pair = RegionBook::PartOf(whole.pair, side);
      (side == 0 ? half.box[at].upper : half.box[at].lower) = split.at;
      if (!work_.Shrink(half.box)) {
        half.box[at] = {1, 0};  // for the checker, too, it is empty
        empty.push_back(std::move(half));
        continue;
      }
      parts.push_back(std::move(half));
      ++halves;
    }
  }
  LUCID_ASSIGN(const bool done, Bound(parts));
  if (!done) return false;
  book_.state.bounds += static_cast<std::int64_t>(parts.size());
  book_.state.regions += halves;
  for (const ProofSplit& split : splits) book_.log.Split(split, split.node, split.first_child);
  for (const CloserBox& part : empty) {
    book_.CloseEmpty(part.pair, {part.box, {}}, part.place, std::nullopt);
  }
  for (CloserBox& part : parts) {
    CountLevel(part);
    if (part.fresh && book_.log.on()) part.pair.why->closing.node = part.place;
    if (part.alive && part.cut < 0 && part.level == 0) {
      // Nothing is left to cut: its bound counts as it is.
      book_.GiveUp(part.pair);
      continue;
    }
    Push(std::move(part));
  }
  return true;
}

}  // namespace lucid::region_search
