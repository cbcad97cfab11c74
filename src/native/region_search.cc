#include "native/region_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <span>

#include "attack/attack.h"
#include "native/engine.h"
#include "native/region_work.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

using namespace region_search;  // NOLINT(google-build-using-namespace): its own parts

class RegionSearch {
 public:
  RegionSearch(const Network& network, const Members& members, std::int32_t label,
               double member_error, const RegionSearchOptions& options, WitnessKeeper& witnesses)
      : network_(network),
        members_(members),
        label_(label),
        member_error_(member_error),
        options_(options),
        witnesses_(witnesses),
        log_(options.proof, label, [this](PairProof& why) { Confirm(why); }),
        work_(network, members, label, member_error, options),
        workers_(MakeWorkers(network, label, options.threads, options.domain)),
        asked_(static_cast<std::size_t>(members.count()), 0),
        closer_after_(work_.UsesBands() && LooksCloser(network.architecture)
                          ? options.closer_after.value_or(CloserBounder::Cost(network.architecture))
                          : 0),
        boxes_(static_cast<std::size_t>(members.count()), 0),
        unreached_(static_cast<std::size_t>(members.count() * network.architecture.classes())) {}

  Result<RegionSearchSummary> Run(const std::string& saved) {
    SetTarget();
    LUCID_TRY(Begin(saved));
    bool going = true;
    if (!state_.screened) {
      LUCID_ASSIGN(going, Screen());
      if (going) {
        LUCID_ASSIGN(going, AttackTheOpen());
      }
    }
    while (going && !state_.open.empty() && state_.open.front().bound > work_.target &&
           !Refuted() && !work_.Expired()) {
      LUCID_ASSIGN(going, state_.open.front().closer ? CloserRound() : Round());
      if (going) {
        LUCID_ASSIGN(going, NarrowSums());
      }
      if (going) {
        LUCID_ASSIGN(going, LookCloser());
      }
      SetTarget();
      work_.close_by_rounding = state_.regions >= kRegionsBeforeRounding;
      FreeMemory();
      Report();
      LUCID_TRY(log_.status());
      LUCID_TRY(SaveNowAndThen());
    }
    return Finish();
  }

 private:
  // A checker knows windows, and moments of two classes.
  bool LooksCloser(const Architecture& architecture) const {
    return WindowBounder::Fits(architecture) ||
           (MomentBounder::Fits(architecture) && (!log_.on() || architecture.classes() == 2));
  }

  SearchTask Task() const {
    return {label_,        members_.count(),
            member_error_, network_.digest(),
            work_.root(),  options_.domain == nullptr ? DomainKind::kBox : options_.domain->kind()};
  }

  // Where a saved search was, or at the start: every pair is open over the whole domain.
  Status Begin(const std::string& saved) {
    if (saved.empty()) {
      state_ = RegionState(Task(), network_.architecture.classes(), Ceiling());
    } else {
      LUCID_TRY(DecodeRegionState(saved, network_.architecture, Task(), state_));
      if (state_.target > work_.target) {
        return Mismatch("the saved search had a better witness than this one has");
      }
    }
    state_.target = work_.target;
    CountMemory();
    return Ok();
  }

  void SetTarget() {
    if (options_.decide) {
      work_.target = state_.target = options_.decide->target;
      return;
    }
    const double lower = witnesses_.beta_lower();
    const double relative = lower > 0 ? lower / (1 - options_.gap) : 0;  // no 0 / 0
    work_.target = std::max({relative, lower + options_.absolute_gap, work_.target});
    state_.target = work_.target;
  }

  bool Refuted() const {
    return options_.decide && witnesses_.beta_lower() > options_.decide->refuted_above;
  }

  // A decision attacks nobody before the screen, and then only the worst of those that are open.
  Result<bool> AttackTheOpen() {
    if (!options_.decide || state_.open.empty()) return true;
    std::vector<RegionPair> pairs = state_.open.front().alive;
    std::ranges::sort(pairs, std::greater{}, &RegionPair::bound);
    if (pairs.size() > kAttackedFirst) pairs.resize(kAttackedFirst);
    return AttackMembers(pairs);
  }

  double Ceiling() const {
    const NetworkFacts facts = FactsOf(network_, UnitBox(network_.architecture.inputs()));
    const double largest = LargestConfidence(facts.point, facts.bounds, label_);
    return std::isnan(largest) ? kInfinity : std::max(largest, 0.0);
  }

  // Runs body(i, worker) for i in [0, count) on all threads. False: out of time, some are not done.
  template <class Body>
  Result<bool> ForEach(std::size_t count, const Body& body) {
    const Status status = ParallelFor(static_cast<std::int64_t>(count), options_.threads,
                                      options_.stop, [&](std::int64_t i, int w) -> Status {
                                        if (work_.Expired()) return Interrupted("out of time");
                                        body(static_cast<std::size_t>(i), *workers_[w]);
                                        return Ok();
                                      });
    if (status.ok()) return true;
    if (status.error().kind == ErrorKind::kInterrupted) return false;
    return status.error();
  }

  // Bounds of every pair over the whole domain: intervals for all, linear for those that are left.
  // False: out of time, and all pairs wait as before.
  Result<bool> Screen() {
    RegionNode whole = Pop();
    for (auto& worker : workers_) worker->domain = worker->ladder.lines().Enter(whole.region);
    std::vector<Outcome> pairs;
    pairs.reserve(whole.alive.size());
    for (const RegionPair& pair : whole.alive) pairs.push_back({pair, true});
    LUCID_ASSIGN(const bool done, BoundOverDomain(whole.region, pairs));
    for (auto& worker : workers_) worker->domain.reset();
    if (!done) {
      Push(std::move(whole));
      return false;
    }
    RegionNode root;
    root.region = std::move(whole.region);
    state_.bounds += static_cast<std::int64_t>(pairs.size());
    for (Outcome& outcome : pairs) {
      if (outcome.alive) {
        AddAlive(outcome.pair, root);
        continue;
      }
      ++(outcome.by_intervals ? state_.pruned_by_screen : state_.pruned_at_root);
      Close(outcome);
    }
    state_.regions = 1;
    state_.screened = true;
    Push(std::move(root));
    return true;
  }
  Result<bool> BoundOverDomain(const Region& root, std::vector<Outcome>& pairs) {
    LUCID_ASSIGN(const bool done, InChunks(pairs, [&](Outcome& outcome, Worker& worker) {
                   work_.BoundQuickly(outcome, *worker.domain, worker);
                 }));
    if (!done) return false;
    return InChunks(pairs, [&](Outcome& outcome, Worker& worker) {
      if (!outcome.alive) return;
      Multipliers multipliers;
      outcome =
          work_.BoundPair(outcome.pair, multipliers, work_.Steps(root), *worker.domain, worker);
    });
  }

  template <class Body>
  Result<bool> InChunks(std::vector<Outcome>& outcomes, const Body& body) {
    const std::size_t chunks = (outcomes.size() + kChunk - 1) / kChunk;
    return ForEach(chunks, [&](std::size_t chunk, Worker& worker) {
      const std::size_t end = std::min((chunk + 1) * kChunk, outcomes.size());
      for (std::size_t i = chunk * kChunk; i < end; ++i) body(outcomes[i], worker);
    });
  }

  void Close(const Outcome& outcome) {
    ClosePair(outcome.pair,
              outcome.rounding ? Account::Reason::kRounding : Account::Reason::kBound);
  }
  // By its bound. What was not looked at because it is below the target may be as large as that.
  void ClosePair(RegionPair pair, Account::Reason reason = Account::Reason::kBound) {
    if (pair.why) log_.Write(pair);
    state_.account.Close(pair, work_.UsesBands() ? std::max(pair.bound, work_.target) : pair.bound,
                         reason);
  }
  // No input of the region at this place is in question. `band`: of which that is said. False: the
  // checker would not find that, and the pair stays as it is.
  bool CloseEmpty(RegionPair pair, const Region& region, std::uint64_t place,
                  const std::optional<ProofBand>& band) {
    if (log_.on()) {
      pair.why = RegionWork::Claim(pair, ProofClosing::Kind::kNoInput, band);
      pair.why->closing.node = place;
      const double found = work_.CheckersBound(region, pair.why->closing, *workers_.front());
      if (found > ValueOf(pair.why->closing)) return false;
    }
    pair.bound = 0;
    ClosePair(pair);
    return true;
  }
  void CloseEmptyOrGiveUp(const RegionPair& pair, const RegionNode& node) {
    if (CloseEmpty(pair, node.region, node.place, work_.BandOf(node.bound))) return;
    ++state_.dropped;
    ClosePair(pair, Account::Reason::kGivenUp);
  }
  void Confirm(PairProof& why) {
    why.closing.value = std::max(
        why.closing.value, work_.CheckersBound(*why.unconfirmed, why.closing, *workers_.front()));
  }
  // The pair as one of the two parts of its region has it.
  static RegionPair PartOf(RegionPair pair, int side) {
    const auto [first, second] = Account::Cut(pair.share);
    pair.share = side == 0 ? first : second;
    return pair;
  }
  static void AddAlive(const RegionPair& pair, RegionNode& node) {
    node.alive.push_back(pair);
    node.bound = std::max(node.bound, pair.bound);
  }

  void Push(RegionNode node) {
    if (node.alive.empty()) return;
    memory_ += node.Bytes();
    state_.open.push_back(std::move(node));
    std::push_heap(state_.open.begin(), state_.open.end());
  }
  RegionNode Pop() {
    std::pop_heap(state_.open.begin(), state_.open.end());
    RegionNode node = std::move(state_.open.back());
    state_.open.pop_back();
    memory_ -= node.Bytes();
    return node;
  }

  // The regions of largest bound are cut in two. False: out of time, and they wait again.
  Result<bool> Round() {
    std::vector<RegionNode> nodes;
    std::size_t pairs = 0;
    const std::size_t most = std::clamp<std::size_t>(state_.open.size() / 4, 1, kRound);
    while (nodes.size() < most && pairs < kRoundPairs && !state_.open.empty() &&
           state_.open.front().bound > work_.target && !state_.open.front().closer) {
      nodes.push_back(Pop());
      FindReasons(nodes.back());
      SetAside(nodes.back());
      pairs += nodes.back().alive.size();
    }
    std::vector<Expansion> expansions(nodes.size());
    LUCID_ASSIGN(bool done, ForEach(nodes.size(), [&](std::size_t i, Worker& worker) {
                   expansions[i] = work_.Expand(nodes[i], worker);
                 }));
    if (done) {
      LUCID_ASSIGN(done, BoundOthers(nodes, expansions));
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      done ? Replace(nodes[i], expansions[i]) : Push(std::move(nodes[i]));
    }
    if (done) ImproveWitness(nodes, expansions);
    return done;
  }

  // Of many pairs only those of largest bound are taken further; the others wait in the same
  // region.
  void SetAside(RegionNode& node) {
    if (node.alive.size() <= kGroup || !work_.UsesBands()) return;
    std::ranges::stable_sort(node.alive, std::greater<>(), &RegionPair::bound);
    RegionNode rest = SameRegion(node);
    for (std::size_t p = kGroup; p < node.alive.size(); ++p) AddAlive(node.alive[p], rest);
    node.alive.resize(kGroup);
    Push(std::move(rest));
  }

  // For some of the node's pairs.
  RegionNode SameRegion(const RegionNode& node) {
    RegionNode same;
    same.id = state_.next_id++;
    same.place = node.place;
    same.region = node.region;
    same.multipliers = node.multipliers;
    return same;
  }

  // Of N, when the search has turned out to be a long one, and of the members that make it long. (A
  // checker would have to find them, too.)
  Result<bool> NarrowSums() {
    const auto layers = network_.architecture.layers();
    if (!work_.UsesBands() || log_.on() || layers.size() < 3 ||
        state_.bounds < options_.narrow_after) {
      return true;
    }
    const std::int64_t work = layers[0].outputs * layers[1].outputs * layers[0].inputs;
    const auto nodes = [&](std::int64_t of_usual) {
      return std::clamp<std::int64_t>(of_usual * kUsualWork / work, 16, of_usual);
    };
    if (work_.sums().empty()) {
      std::vector<Interval> sums(static_cast<std::size_t>(layers[1].outputs));
      LUCID_ASSIGN(const bool done, ForEach(sums.size(), [&](std::size_t unit, Worker& worker) {
                     sums[unit] = work_.NetworkSum(static_cast<std::int64_t>(unit),
                                                   nodes(kNodesForSums), worker);
                   }));
      if (!done) return false;
      work_.KnowSums(std::move(sums), workers_);
    }
    LUCID_ASSIGN(const bool done, ForEach(to_narrow_.size(), [&](std::size_t i, Worker& worker) {
                   const auto [member, effort] = to_narrow_[i];
                   work_.KnowDifferences(
                       member, work_.MemberDifferences(member, nodes(effort * kNodesForDifferences),
                                                       worker));
                 }));
    if (done) to_narrow_.clear();
    return done;
  }
  void CountBound(const RegionPair& pair) {
    const std::int64_t asked = ++asked_[static_cast<std::size_t>(pair.member)];
    for (std::int64_t effort = 1; effort <= kAgain; effort *= kAgain) {
      if (asked != effort * (options_.narrow_after / 4 + 1)) continue;
      to_narrow_.push_back({pair.member, effort});
    }
    if (asked == closer_after_) to_look_at_.push_back({pair.member, pair.other, 0, pair.lambda});
  }

  Result<bool> BoundCloser(std::vector<CloserBox>& boxes) {
    return ForEach(boxes.size(), [&](std::size_t i, Worker& worker) {
      work_.BoundCloser(boxes[i], worker, [&] {
        if (&worker == workers_.front().get()) Report();  // one look may take a minute
        return work_.Expired();
      });
    });
  }
  // Before closer looks, each member alone, the worst pair's again: a higher target is sooner
  // reached. Requires: pairs.
  Result<bool> AttackMembers(const std::vector<RegionPair>& pairs) {
    if (!options_.improve_witnesses) return true;
    std::set<std::int32_t> members;
    for (const RegionPair& pair : pairs) members.insert(pair.member);
    std::vector<std::int32_t> tasks(members.begin(), members.end());
    const auto worst = std::ranges::max_element(pairs, {}, &RegionPair::bound);
    tasks.insert(tasks.end(), kAttacksOnWorst - 1, worst->member);
    std::vector<AttackResult> found(tasks.size());
    LUCID_ASSIGN(const bool done, ForEach(tasks.size(), [&](std::size_t i, Worker&) {
                   const AttackOptions alone{state_.bounds * kAttacksOnWorst + i, 1, kPoolAlone,
                                             kClimbsAlone, options_.domain};
                   found[i] =
                       AttackMember(network_, members_, label_, tasks[i], alone, options_.stop);
                 }));
    for (const AttackResult& one : found) witnesses_.Offer(one.beta_lower, one.witness);
    SetTarget();
    return done;
  }

  // Bounds the hard pairs over the whole domain, by windows or moments.
  Result<bool> LookCloser() {
    if (to_look_at_.empty()) return true;
    for (RegionNode& node : state_.open) FindReasons(node);
    std::make_heap(state_.open.begin(), state_.open.end());
    for (RegionPair& pair : to_look_at_) pair.bound = state_.LargestBound(pair);
    LUCID_ASSIGN(const bool attacked, AttackMembers(to_look_at_));
    if (!attacked) return false;
    while (!to_look_at_.empty()) {
      const std::size_t most = UsesWindows() ? kLooks : kRoundPairs;
      const auto end =
          to_look_at_.begin() + static_cast<std::ptrdiff_t>(std::min(to_look_at_.size(), most));
      LUCID_ASSIGN(const bool done, LookAt({to_look_at_.begin(), end}));
      if (!done) return false;
      to_look_at_.erase(to_look_at_.begin(), end);
      CountMemory();
      Report();
    }
    return true;
  }
  Result<bool> LookAt(std::span<const RegionPair> pairs) {
    std::vector<CloserBox> looks;
    for (const RegionPair& pair : pairs) {
      looks.push_back({work_.root(), pair});
      if (UsesWindows()) looks.back().level = kFirstLevel * witnesses_.beta_lower();
    }
    LUCID_ASSIGN(const bool done, BoundCloser(looks));
    for (CloserBox& look : looks) Support(look);
    if (!done) {
      for (const CloserBox& look : looks) state_.Limit(look.pair);
      return false;
    }
    for (CloserBox& look : looks) {
      ++state_.bounds;
      CountLevel(look);
      if (look.pair.bound <= CloserBounder::Close(network_.architecture) * work_.target) {
        look.pair.share = state_.Withdraw(look.pair);
        PushCloser(std::move(look));
      } else {
        state_.Limit(look.pair);
      }
    }
    return true;
  }
  // What is known of a pair over the whole domain before a look at it is its bounds in all regions
  // that wait. They are written down, because the pair may leave these regions now.
  void Support(CloserBox& look) {
    if (!log_.on()) return;
    if (!look.fresh) look.pair.why = PairProof::Written();
    for (RegionNode& node : state_.open) {
      for (RegionPair& pair : node.alive) {
        const bool same = pair.member == look.pair.member && pair.other == look.pair.other;
        if (same && pair.why) log_.Write(pair);
      }
    }
  }
  void CountMemory() {
    memory_ = 0;
    for (const RegionNode& node : state_.open) memory_ += node.Bytes();
  }
  void PushCloser(CloserBox bound) {
    if (!bound.alive) {
      ClosePair(bound.pair);
      return;
    }
    RegionNode node;
    node.id = state_.next_id++;
    node.place = bound.place;
    node.region.box = std::move(bound.box);
    node.closer = ++boxes_[static_cast<std::size_t>(bound.pair.member)] <=
                  CloserBounder::MostBoxes(network_.architecture);
    if (node.closer) {
      node.closer_multipliers = std::move(bound.multipliers);
      node.cut = bound.cut;
    }
    AddAlive(bound.pair, node);
    Push(std::move(node));
  }

  // What to ask windows for next, of a pair over the whole domain; 0: cutting it does more.
  double Level(const RegionNode& node) {
    if (node.region.box != work_.root() || !UsesWindows()) return 0;
    const double unreached = Unreached(node.alive.front());
    const double low = std::max(unreached, work_.target);
    if (node.bound > kNearLevels * low) return 0.5 * (low + node.bound);
    return work_.target > kNearLevels * unreached ? work_.target : 0;
  }
  void CountLevel(const CloserBox& box) {
    const double asked = std::max(box.level, work_.target);
    if (box.level > 0 && box.pair.bound > asked) Unreached(box.pair) = asked;
  }
  bool UsesWindows() const { return WindowBounder::Fits(network_.architecture); }
  double& Unreached(const RegionPair& pair) {
    return unreached_[static_cast<std::size_t>(pair.member) *
                          static_cast<std::size_t>(network_.architecture.classes()) +
                      static_cast<std::size_t>(pair.other)];
  }

  // As Round, for boxes that are looked at closely. Those of a saved search are bounded anew.
  Result<bool> CloserRound() {
    std::vector<RegionNode> nodes;
    while (nodes.size() < kCloserRound && !state_.open.empty() && state_.open.front().closer &&
           state_.open.front().bound > work_.target) {
      nodes.push_back(Pop());
      FindReasons(nodes.back());
    }
    in_hand_ = nodes.front().bound;
    LUCID_ASSIGN(const bool done, LookInto(nodes));
    in_hand_ = 0;
    if (done) return true;
    for (RegionNode& node : nodes) Push(std::move(node));
    return false;
  }
  Result<bool> LookInto(const std::vector<RegionNode>& nodes) {
    std::vector<RegionPair> pairs;
    pairs.reserve(nodes.size());
    for (const RegionNode& node : nodes) pairs.push_back(node.alive.front());
    LUCID_ASSIGN(const bool attacked, AttackMembers(pairs));
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
      split.first_child = state_.next_id;
      for (int side = 0; side < 2; ++side) {
        CloserBox half = whole;
        half.place = state_.next_id++;
        half.pair = PartOf(whole.pair, side);
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
    LUCID_ASSIGN(const bool done, BoundCloser(parts));
    if (!done) return false;
    state_.bounds += static_cast<std::int64_t>(parts.size());
    state_.regions += halves;
    for (const ProofSplit& split : splits) log_.Split(split, split.node, split.first_child);
    for (const CloserBox& part : empty) {
      CloseEmpty(part.pair, {part.box, {}}, part.place, std::nullopt);
    }
    for (CloserBox& part : parts) {
      CountLevel(part);
      if (part.fresh && log_.on()) part.pair.why->closing.node = part.place;
      if (part.alive && part.cut < 0 && part.level == 0) {
        // Nothing is left to cut: its bound counts as it is.
        ++state_.dropped;
        ClosePair(part.pair, Account::Reason::kGivenUp);
        continue;
      }
      PushCloser(std::move(part));
    }
    return true;
  }

  // The pairs that are not the worst, in the children of the chosen cuts.
  Result<bool> BoundOthers(const std::vector<RegionNode>& nodes,
                           std::vector<Expansion>& expansions) {
    struct Task {
      Child* child;
      double bound;  // of the parent
      std::size_t from, to;
    };
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!expansions[i].cut) continue;
      for (Child& child : expansions[i].cut->children) {
        if (!child.inhabited) continue;
        const std::size_t worst = RegionWork::WorstOf(nodes[i]);
        for (std::size_t p = 0; p < nodes[i].alive.size(); ++p) {
          if (p != worst) child.others.push_back({nodes[i].alive[p], true});
        }
        for (std::size_t from = 0; from < child.others.size(); from += kChunk) {
          tasks.push_back(
              {&child, nodes[i].bound, from, std::min(from + kChunk, child.others.size())});
        }
      }
    }
    return ForEach(tasks.size(), [&](std::size_t t, Worker& worker) {
      const Task& task = tasks[t];
      const auto region = work_.Enter(task.child->region, task.bound, worker);
      for (std::size_t p = task.from; p < task.to; ++p) {
        Multipliers multipliers = task.child->multipliers;
        Outcome& outcome = task.child->others[p];
        outcome = work_.BoundPair(outcome.pair, multipliers, work_.Steps(task.child->region),
                                  *region, worker);
      }
    });
  }

  // Puts a region's children in its place.
  void Replace(RegionNode& node, Expansion& expansion) {
    if (expansion.found != Expansion::Found::kInputs && work_.UsesBands()) {
      if (expansion.found == Expansion::Found::kNoneOfTheWorst) return WithoutWorst(node);
      for (const RegionPair& pair : node.alive) CloseEmptyOrGiveUp(pair, node);
      return;
    }
    if (!expansion.cut) return GiveUp(node);
    for (const RegionPair& pair : node.alive) CountBound(pair);
    log_.Split(expansion.cut->how, node.place, state_.next_id);
    for (int side = 0; side < 2; ++side) {
      Child& child = expansion.cut->children[side];
      RegionNode next;
      next.id = next.place = state_.next_id++;
      if (!child.inhabited) {
        for (const RegionPair& pair : node.alive) {
          const RegionPair part = PartOf(pair, side);
          if (!CloseEmpty(part, child.region, next.place, work_.BandOf(node.bound))) {
            AddAlive(part, next);
          }
        }
        next.region = std::move(child.region);
        Push(std::move(next));
        continue;
      }
      ++state_.regions;
      state_.bounds += static_cast<std::int64_t>(node.alive.size());
      next.region = std::move(child.region);
      next.multipliers = std::move(child.multipliers);
      child.others.push_back(std::move(child.worst));
      for (Outcome& outcome : child.others) {
        outcome.pair = PartOf(outcome.pair, side);
        if (outcome.fresh) outcome.pair.why->closing.node = next.place;
        outcome.alive ? AddAlive(outcome.pair, next) : Close(outcome);
      }
      Push(std::move(next));
    }
  }

  void WithoutWorst(const RegionNode& node) {
    RegionNode rest = SameRegion(node);
    const std::size_t worst = RegionWork::WorstOf(node);
    for (std::size_t p = 0; p < node.alive.size(); ++p) {
      if (p != worst) AddAlive(node.alive[p], rest);
    }
    CloseEmptyOrGiveUp(node.alive[worst], node);
    Push(std::move(rest));
  }

  // A region that is not looked at any more: its bound counts as it is.
  void GiveUp(RegionNode& node) {
    ++state_.dropped;
    FindReasons(node);
    for (const RegionPair& pair : node.alive) ClosePair(pair, Account::Reason::kGivenUp);
  }

  // A pair whose bound nothing in the proof shows (of a saved search, or one that ended before the
  // first bounds) is bounded again; what is found counts.
  void FindReasons(RegionNode& node) {
    if (!log_.on() ||
        std::ranges::all_of(node.alive, [](const auto& p) { return p.why != nullptr; }))
      return;
    Worker& worker = *workers_.front();
    const auto region = worker.ladder.lines().Enter(node.region);
    node.bound = 0;
    for (RegionPair& pair : node.alive) {
      if (!pair.why && region) {
        Multipliers multipliers = node.multipliers;
        const Outcome found =
            work_.BoundPair(pair, multipliers, work_.Steps(node.region), *region, worker);
        pair = found.pair;
        if (found.fresh) pair.why->closing.node = node.place;
        if (!pair.why) pair.bound = kInfinity;
      } else if (!pair.why) {
        auto why = RegionWork::Claim(pair, ProofClosing::Kind::kNoInput, std::nullopt);
        why->closing.node = node.place;
        const bool agreed = work_.CheckersBound(node.region, why->closing, worker) == -kInfinity;
        if (agreed) pair.why = std::move(why);
        pair.bound = agreed ? 0 : kInfinity;
      }
      node.bound = std::max(node.bound, pair.bound);
    }
  }

  // Everything that waits has its bound in the proof, too. So a saved search does not have to keep
  // claims, and one that goes on has the bounds that it had.
  void ProveWaiting() {
    if (!log_.on()) return;
    for (RegionNode& node : state_.open) {
      FindReasons(node);
      for (RegionPair& pair : node.alive) {
        if (pair.why) log_.Write(pair);
        node.bound = std::max(node.bound, pair.bound);
      }
    }
    std::make_heap(state_.open.begin(), state_.open.end());
  }

  // The best of the round's inputs, made certain.
  void ImproveWitness(const std::vector<RegionNode>& nodes,
                      const std::vector<Expansion>& expansions) {
    std::size_t best = 0;
    for (std::size_t i = 0; i < expansions.size(); ++i) {
      if (expansions[i].confidence > expansions[best].confidence) best = i;
    }
    const double lower = witnesses_.beta_lower();
    if (!(expansions[best].confidence > lower * (1 + 1e-6))) return;
    const AttackResult result = CertifyPair(
        network_, members_, label_, nodes[best].alive[RegionWork::WorstOf(nodes[best])].member,
        expansions[best].point, expansions[best].confidence, options_.domain);
    witnesses_.Offer(result.beta_lower, result.witness);
  }

  // Gives up the regions of smallest bound, down to half of what is allowed.
  void FreeMemory() {
    if (memory_ <= options_.memory) return;
    std::sort(state_.open.begin(), state_.open.end());
    std::size_t given_up = 0;
    while (memory_ > options_.memory / 2 && given_up + 1 < state_.open.size()) {
      memory_ -= state_.open[given_up].Bytes();
      GiveUp(state_.open[given_up++]);
    }
    state_.open.erase(state_.open.begin(),
                      state_.open.begin() + static_cast<std::ptrdiff_t>(given_up));
    std::make_heap(state_.open.begin(), state_.open.end());
  }

  double Upper() const {
    return std::max(
        {state_.account.largest(), in_hand_, state_.open.empty() ? 0 : state_.open.front().bound});
  }

  void Report() {
    if (!options_.report) return;
    const Clock::time_point now = Clock::now();
    if (now - reported_ < std::chrono::duration<double>(kReportEvery)) return;
    reported_ = now;
    const auto members =
        static_cast<std::int64_t>(state_.open.empty() ? 0 : state_.open.front().alive.size());
    options_.report(witnesses_.beta_lower(), Upper(), state_.regions, members);
  }

  Status SaveNowAndThen() {
    if (!options_.save) return Ok();
    const Clock::time_point now = Clock::now();
    if (now - saved_ < std::chrono::duration<double>(options_.save_every)) return Ok();
    saved_ = now;
    ProveWaiting();
    LUCID_TRY(log_.status());
    return options_.save(Encoded());
  }
  std::string Encoded() const { return EncodeRegionState(state_, Task()); }

  Result<RegionSearchSummary> Finish() {
    ProveWaiting();
    LUCID_TRY(log_.status());
    RegionSearchSummary summary;
    LUCID_ASSIGN(summary.verdict, state_.account.Settle(state_.Waiting(), work_.target));
    // Also where nothing waits but regions were given up: begun anew, the search would write a
    // second tree into the same proof.
    if (!summary.verdict.finished()) summary.left = Encoded();
    summary.regions = state_.regions;
    summary.bounds = state_.bounds;
    summary.pairs = members_.count() * (network_.architecture.classes() - 1);
    summary.pruned_by_screen = state_.pruned_by_screen;
    summary.pruned_at_root = state_.pruned_at_root;
    summary.dropped = state_.dropped;
    return summary;
  }

  const Network& network_;
  const Members& members_;
  const std::int32_t label_;
  const double member_error_;
  const RegionSearchOptions& options_;
  WitnessKeeper& witnesses_;
  ProofLog log_;
  RegionWork work_;
  const std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::int64_t> asked_;  // how often each member was bounded
  struct ToNarrow {
    std::int32_t member;
    std::int64_t effort;
  };
  std::vector<ToNarrow> to_narrow_;     // members that are to have narrower ranges
  const std::int64_t closer_after_;     // 0: never
  std::vector<std::int32_t> boxes_;     // of every member, of its own
  std::vector<double> unreached_;       // the largest level of every pair that windows missed
  std::vector<RegionPair> to_look_at_;  // pairs that are to be looked at closely
  RegionState state_;
  double in_hand_ = 0;       // the largest bound of boxes that are out of state_.open for a while
  std::int64_t memory_ = 0;  // of state_.open
  Clock::time_point reported_, saved_ = Clock::now();
};

}  // namespace

Result<RegionSearchSummary> SearchRegions(const Network& network, const Members& members,
                                          std::int32_t label, double member_error,
                                          const RegionSearchOptions& options,
                                          WitnessKeeper& witnesses, const std::string& state) {
  return RegionSearch(network, members, label, member_error, options, witnesses).Run(state);
}

}  // namespace lucid
