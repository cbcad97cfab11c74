#include "native/region_book.h"

#include <algorithm>

#include "base/parallel.h"

namespace lucid::region_search {
namespace {

bool HasReason(const RegionPair& pair) { return pair.why != nullptr; }

}  // namespace

RegionBook::RegionBook(const RegionSearchOptions& options, std::int32_t label,
                       const RegionWork& work, const std::vector<std::unique_ptr<Worker>>& workers)
    : log(options.proof, label, [this](PairProof& why) { Confirm(why); }),
      options_(options),
      work_(work),
      workers_(workers),
      worker_(*workers.front()) {}

Status RegionBook::Begin(const std::string& saved, const Architecture& architecture,
                         const SearchTask& task, double ceiling) {
  if (saved.empty()) {
    state = RegionState(task, architecture.classes(), ceiling);
  } else {
    LUCID_TRY(DecodeRegionState(saved, architecture, task, state));
    if (state.target > work_.target) {
      return Mismatch("the saved search had a better witness than this one has");
    }
  }
  state.target = work_.target;
  CountMemory();
  return Ok();
}

void RegionBook::Push(RegionNode node) {
  if (node.alive.empty()) return;
  memory_ += node.Bytes();
  state.open.push_back(std::move(node));
  std::push_heap(state.open.begin(), state.open.end());
}

RegionNode RegionBook::Pop() {
  std::pop_heap(state.open.begin(), state.open.end());
  RegionNode node = std::move(state.open.back());
  state.open.pop_back();
  memory_ -= node.Bytes();
  return node;
}

void RegionBook::Close(const Outcome& outcome) {
  ClosePair(outcome.pair, outcome.rounding ? Account::Reason::kRounding : Account::Reason::kBound);
}

void RegionBook::ClosePair(RegionPair pair, Account::Reason reason) {
  if (pair.why) log.Write(pair);
  state.account.Close(pair, work_.UsesBands() ? std::max(pair.bound, work_.target) : pair.bound,
                      reason);
}

bool RegionBook::CloseEmpty(RegionPair pair, const Region& region, std::uint64_t place,
                            const std::optional<ProofBand>& band) {
  if (log.on()) {
    pair.why = RegionWork::Claim(pair, ProofClosing::Kind::kNoInput, band);
    pair.why->closing.node = place;
    const double found = work_.CheckersBound(region, pair.why->closing, worker_);
    if (found > ValueOf(pair.why->closing)) return false;
  }
  pair.bound = 0;
  ClosePair(pair);
  return true;
}

void RegionBook::CloseEmptyOrGiveUp(const RegionPair& pair, const RegionNode& node) {
  if (CloseEmpty(pair, node.region, node.place, work_.BandOf(node.bound))) return;
  GiveUp(pair);
}

void RegionBook::GiveUp(RegionNode& node) {
  ++state.dropped;
  FindReasons(node);
  for (const RegionPair& pair : node.alive) ClosePair(pair, Account::Reason::kGivenUp);
}

void RegionBook::GiveUp(const RegionPair& pair) {
  ++state.dropped;
  ClosePair(pair, Account::Reason::kGivenUp);
}

void RegionBook::FreeMemory() {
  if (memory_ <= options_.memory) return;
  std::sort(state.open.begin(), state.open.end());
  std::size_t given_up = 0;
  while (memory_ > options_.memory / 2 && given_up + 1 < state.open.size()) {
    memory_ -= state.open[given_up].Bytes();
    GiveUp(state.open[given_up++]);
  }
  state.open.erase(state.open.begin(), state.open.begin() + static_cast<std::ptrdiff_t>(given_up));
  std::make_heap(state.open.begin(), state.open.end());
}

void RegionBook::CountMemory() {
  memory_ = 0;
  for (const RegionNode& node : state.open) memory_ += node.Bytes();
}

void RegionBook::FindReasons(RegionNode& node) {
  if (!log.on() || std::ranges::all_of(node.alive, HasReason)) return;
  FindReasons(node, node.alive, worker_);
  node.CountBound();
}

void RegionBook::FindReasons(const RegionNode& node, std::span<RegionPair> pairs,
                             Worker& worker) const {
  if (std::ranges::all_of(pairs, HasReason)) return;
  const auto region = worker.ladder.lines().Enter(node.region);
  for (RegionPair& pair : pairs) {
    if (pair.why) continue;
    if (region) {
      Multipliers multipliers = node.multipliers;
      const Outcome found =
          work_.BoundPair(pair, multipliers, work_.Steps(node.region), *region, worker);
      pair = found.pair;
      if (found.fresh) pair.why->closing.node = node.place;
      if (!pair.why) pair.bound = kInfinity;
      continue;
    }
    auto why = RegionWork::Claim(pair, ProofClosing::Kind::kNoInput, std::nullopt);
    why->closing.node = node.place;
    const bool agreed = work_.CheckersBound(node.region, why->closing, worker) == -kInfinity;
    if (agreed) pair.why = std::move(why);
    pair.bound = agreed ? 0 : kInfinity;
  }
}

void RegionBook::FindReasonsOfAll() {
  if (!log.on()) return;
  // One region may hold nearly all pairs.
  struct Part {
    const RegionNode& node;
    std::span<RegionPair> pairs;
  };
  std::vector<Part> parts;
  std::vector<RegionNode*> changed;
  for (RegionNode& node : state.open) {
    if (std::ranges::all_of(node.alive, HasReason)) continue;
    changed.push_back(&node);
    for (std::size_t first = 0; first < node.alive.size(); first += kChunk) {
      const std::size_t count = std::min(kChunk, node.alive.size() - first);
      parts.push_back({node, std::span(node.alive).subspan(first, count)});
    }
  }
  const auto find = [&](std::int64_t i, int w) -> Status {
    const Part& part = parts[static_cast<std::size_t>(i)];
    FindReasons(part.node, part.pairs, *workers_[static_cast<std::size_t>(w)]);
    return Ok();
  };
  [[maybe_unused]] const Status always_ok =
      ParallelFor(std::ssize(parts), static_cast<int>(workers_.size()), {}, find);
  for (RegionNode* node : changed) node->CountBound();
  std::make_heap(state.open.begin(), state.open.end());
}

void RegionBook::ProveWaiting() {
  if (!log.on()) return;
  FindReasonsOfAll();
  for (RegionNode& node : state.open) {
    for (RegionPair& pair : node.alive) {
      if (pair.why) log.Write(pair);
      node.bound = std::max(node.bound, pair.bound);
    }
  }
  std::make_heap(state.open.begin(), state.open.end());
}

RegionNode RegionBook::SameRegion(const RegionNode& node) {
  RegionNode same;
  same.id = state.next_id++;
  same.place = node.place;
  same.region = node.region;
  same.multipliers = node.multipliers;
  return same;
}

RegionPair RegionBook::PartOf(RegionPair pair, int side) {
  const auto [first, second] = Account::Cut(pair.share);
  pair.share = side == 0 ? first : second;
  return pair;
}

void RegionBook::AddAlive(const RegionPair& pair, RegionNode& node) {
  node.alive.push_back(pair);
  node.bound = std::max(node.bound, pair.bound);
}

void RegionBook::Confirm(PairProof& why) const {
  why.closing.value =
      std::max(why.closing.value, work_.CheckersBound(*why.unconfirmed, why.closing, worker_));
}

}  // namespace lucid::region_search
