#include "verify/region_search.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <span>

#include "verify/attack.h"
#include "verify/encoding.h"
#include "verify/engine.h"
#include "verify/region_work.h"

namespace lucid {
namespace {

using namespace region_search;  // NOLINT(google-build-using-namespace): its own parts

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class RegionSearch {
 public:
  RegionSearch(const Network& network, const Members& members, std::int32_t label,
               double member_error, const RegionSearchOptions& options, WitnessKeeper& witnesses)
      : network_(network),
        members_(members),
        label_(label),
        options_(options),
        witnesses_(witnesses),
        work_(network, members, label, member_error, options),
        workers_(MakeWorkers(network, label, options.threads, options.domain)),
        asked_(static_cast<std::size_t>(members.count()), 0),
        closer_after_(work_.UsesBands() && CloserBounder::Fits(network.architecture)
                          ? options.closer_after.value_or(CloserBounder::Cost(network.architecture))
                          : 0),
        boxes_(static_cast<std::size_t>(members.count()), 0),
        in_vain_(static_cast<std::size_t>(members.count() * network.architecture.classes())) {}

  Result<RegionSearchSummary> Run(const std::string& saved) {
    SetTarget();
    if (saved.empty()) {
      LUCID_ASSIGN(const bool screened, Screen());
      if (!screened) return Summary(false, Ceiling());
    } else {
      LUCID_TRY(DecodeRegionState(saved, network_.architecture, members_.count(), state_));
      CountMemory();
    }
    while (!state_.open.empty() && state_.open.front().bound > work_.target && !work_.Expired()) {
      LUCID_ASSIGN(bool done, state_.open.front().closer ? CloserRound() : Round());
      if (done) {
        LUCID_ASSIGN(done, NarrowSums());
      }
      if (done) {
        LUCID_ASSIGN(done, LookCloser());
      }
      if (!done) break;
      SetTarget();
      LUCID_TRY(FreeMemory());
      Report();
      LUCID_TRY(SaveNowAndThen());
    }
    return Finish();
  }

 private:
  // A proof's regions are closed for good, so there the target stays what it was at the start.
  void SetTarget() {
    if (options_.proof != nullptr && work_.target > 0) return;
    const double lower = witnesses_.beta_lower();
    const double relative = lower > 0 ? lower / (1 - options_.gap) : 0;  // no 0 / 0
    work_.target = std::max({relative, lower + options_.absolute_gap, work_.target});
  }

  double Ceiling() const {
    const NetworkFacts facts = FactsOf(network_, UnitBox(network_.architecture.inputs()));
    return std::max(LargestConfidence(facts.point, facts.bounds, label_), 0.0);
  }

  // Runs body(i, worker) for i in [0, count) on all threads. False: out of time, some are not done.
  template <class Body>
  Result<bool> ForEach(std::size_t count, const Body& body) {
    const Status status = ParallelFor(static_cast<std::int64_t>(count), options_.threads,
                                      options_.stop, [&](std::int64_t i, int w) -> Status {
                                        if (Clock::now() >= options_.deadline)
                                          return Interrupted("out of time");
                                        body(static_cast<std::size_t>(i), *workers_[w]);
                                        return Ok();
                                      });
    if (status.ok()) return true;
    if (status.error().kind == ErrorKind::kInterrupted) return false;
    return status.error();
  }

  // Bounds of every pair over the whole domain: intervals for all, linear for those that are left.
  Result<bool> Screen() {
    RegionNode root;
    root.region.box = work_.root();
    for (auto& worker : workers_) worker->bounder.EnterRegion(root.region);
    std::vector<Outcome> pairs;
    for (std::int32_t member = 0; member < members_.count(); ++member) {
      for (std::int32_t other = 0; other < network_.architecture.classes(); ++other) {
        if (other != label_) pairs.push_back({{member, other, kInfinity, 1}, true});
      }
    }
    state_.bounds += static_cast<std::int64_t>(pairs.size());
    if (options_.proof == nullptr) {
      LUCID_ASSIGN(const bool done, InChunks(pairs, [&](Outcome& outcome, Worker& worker) {
                     members_.CopyParameters(outcome.pair.member, worker.parameters);
                     outcome.pair.bound = worker.bounder.IntervalBound(
                         worker.parameters, work_.Question(outcome.pair));
                     outcome.alive = outcome.pair.bound > work_.target;
                   }));
      if (!done) return false;
      state_.pruned_by_screen = KeepAlive(pairs, root);
    }
    LUCID_ASSIGN(const bool done, InChunks(pairs, [&](Outcome& outcome, Worker& worker) {
                   Multipliers multipliers;
                   outcome =
                       work_.BoundPair(outcome.pair, multipliers, work_.Steps(root.region), worker);
                 }));
    if (!done) return false;
    state_.pruned_at_root = KeepAlive(pairs, root);
    for (const Outcome& outcome : pairs) AddAlive(outcome.pair, root);
    state_.regions = 1;
    LUCID_TRY(Push(std::move(root)));
    return true;
  }

  template <class Body>
  Result<bool> InChunks(std::vector<Outcome>& outcomes, const Body& body) {
    const std::size_t chunks = (outcomes.size() + kChunk - 1) / kChunk;
    return ForEach(chunks, [&](std::size_t chunk, Worker& worker) {
      const std::size_t end = std::min((chunk + 1) * kChunk, outcomes.size());
      for (std::size_t i = chunk * kChunk; i < end; ++i) body(outcomes[i], worker);
    });
  }

  // Takes the closed pairs out; returns how many there were.
  std::int64_t KeepAlive(std::vector<Outcome>& outcomes, RegionNode& node) {
    return static_cast<std::int64_t>(std::erase_if(outcomes, [&](Outcome& outcome) {
      if (!outcome.alive) Close(outcome, node);
      return !outcome.alive;
    }));
  }

  // What was not looked at because it is below the target may be as large as that.
  void CountClosed(double bound) {
    state_.closed = std::max({state_.closed, bound, work_.UsesBands() ? work_.target : 0.0});
  }

  void Close(Outcome& outcome, RegionNode& node) {
    CountClosed(outcome.pair.bound);
    if (outcome.closing) node.closings.push_back(std::move(*outcome.closing));
  }
  static void AddAlive(const RegionPair& pair, RegionNode& node) {
    node.alive.push_back(pair);
    node.bound = std::max(node.bound, pair.bound);
  }

  Status Push(RegionNode node) {
    if (node.alive.empty()) return Record(node, {});
    memory_ += node.Bytes();
    state_.open.push_back(std::move(node));
    std::push_heap(state_.open.begin(), state_.open.end());
    return Ok();
  }
  RegionNode Pop() {
    std::pop_heap(state_.open.begin(), state_.open.end());
    RegionNode node = std::move(state_.open.back());
    state_.open.pop_back();
    memory_ -= node.Bytes();
    return node;
  }

  // Writes a node that is done with into the proof.
  Status Record(RegionNode& node, ProofNode how) {
    if (options_.proof == nullptr) return Ok();
    how.id = node.id;
    how.closings = std::move(node.closings);
    return options_.proof->Add(label_, how);
  }

  // The regions of largest bound are cut in two. False: out of time, and they wait again.
  Result<bool> Round() {
    std::vector<RegionNode> nodes;
    std::size_t pairs = 0;
    const std::size_t most = std::clamp<std::size_t>(state_.open.size() / 4, 1, kRound);
    while (nodes.size() < most && pairs < kRoundPairs && !state_.open.empty() &&
           state_.open.front().bound > work_.target && !state_.open.front().closer) {
      nodes.push_back(Pop());
      LUCID_TRY(SetAside(nodes.back()));
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
      LUCID_TRY(done ? Replace(nodes[i], expansions[i]) : Push(std::move(nodes[i])));
    }
    if (done) ImproveWitness(nodes, expansions);
    return done;
  }

  // Of many pairs only those of largest bound are taken further; the others wait in the same
  // region. (A proof has one tree for all pairs.)
  Status SetAside(RegionNode& node) {
    if (node.alive.size() <= kGroup || !work_.UsesBands()) return Ok();
    std::ranges::stable_sort(node.alive, std::greater<>(), &RegionPair::bound);
    RegionNode rest = SameRegion(node);
    for (std::size_t p = kGroup; p < node.alive.size(); ++p) AddAlive(node.alive[p], rest);
    node.alive.resize(kGroup);
    return Push(std::move(rest));
  }

  // For some of the node's pairs.
  RegionNode SameRegion(const RegionNode& node) {
    RegionNode same;
    same.id = state_.next_id++;
    same.region = node.region;
    same.multipliers = node.multipliers;
    return same;
  }

  // Of N, when the search has turned out to be a long one, and of the members that make it long.
  Result<bool> NarrowSums() {
    const auto layers = network_.architecture.layers();
    if (!work_.UsesBands() || layers.size() < 3 || state_.bounds < options_.narrow_after) {
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
    LUCID_ASSIGN(const bool done, ForEach(slow_.size(), [&](std::size_t i, Worker& worker) {
                   const auto [member, effort] = slow_[i];
                   work_.KnowDifferences(
                       member, work_.MemberDifferences(member, nodes(effort * kNodesForDifferences),
                                                       worker));
                 }));
    if (done) slow_.clear();
    return done;
  }
  void CountBound(const RegionPair& pair) {
    const std::int64_t asked = ++asked_[static_cast<std::size_t>(pair.member)];
    for (std::int64_t effort = 1; effort <= kAgain; effort *= kAgain) {
      if (asked == effort * (options_.narrow_after / 4 + 1)) slow_.push_back({pair.member, effort});
    }
    if (asked == closer_after_) hard_.push_back(pair);
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

  // Of the pairs that have turned out to be hard, over the whole domain.
  Result<bool> LookCloser() {
    if (hard_.empty()) return true;
    for (RegionPair& pair : hard_) pair.bound = state_.LargestBound(pair);
    LUCID_ASSIGN(const bool attacked, AttackMembers(hard_));
    if (!attacked) return false;
    while (!hard_.empty()) {
      const std::size_t most = UsesWindows() ? kLooks : kRoundPairs;
      const auto end = hard_.begin() + static_cast<std::ptrdiff_t>(std::min(hard_.size(), most));
      LUCID_ASSIGN(const bool done, LookAt({hard_.begin(), end}));
      if (!done) return false;
      hard_.erase(hard_.begin(), end);
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
    if (!done) {
      for (const CloserBox& look : looks) state_.Limit(look.pair, look.pair.bound);
      return false;
    }
    for (CloserBox& hard : looks) {
      ++state_.bounds;
      CountLevel(hard);
      const bool alone =
          hard.pair.bound <= CloserBounder::Close(network_.architecture) * work_.target;
      state_.Limit(hard.pair, alone ? 0 : hard.pair.bound);
      if (alone) LUCID_TRY(PushCloser(std::move(hard)));
    }
    return true;
  }
  void CountMemory() {
    memory_ = 0;
    for (const RegionNode& node : state_.open) memory_ += node.Bytes();
  }
  Status PushCloser(CloserBox bound) {
    if (!bound.alive) {
      CountClosed(bound.pair.bound);
      return Ok();
    }
    RegionNode node;
    node.id = state_.next_id++;
    node.region.box = std::move(bound.box);
    node.closer = ++boxes_[static_cast<std::size_t>(bound.pair.member)] <=
                  CloserBounder::MostBoxes(network_.architecture);
    if (node.closer) {
      node.closer_multipliers = std::move(bound.multipliers);
      node.cut = bound.cut;
    }
    AddAlive(bound.pair, node);
    return Push(std::move(node));
  }

  // What to ask windows for next, of a pair over the whole domain; 0: cutting it does more.
  double Level(const RegionNode& node) {
    if (node.region.box != work_.root() || !UsesWindows()) return 0;
    const double in_vain = InVain(node.alive.front());
    const double low = std::max(in_vain, work_.target);
    if (node.bound > kNearLevels * low) return 0.5 * (low + node.bound);
    return work_.target > kNearLevels * in_vain ? work_.target : 0;
  }
  void CountLevel(const CloserBox& box) {
    const double asked = std::max(box.level, work_.target);
    if (box.level > 0 && box.pair.bound > asked) InVain(box.pair) = asked;
  }
  bool UsesWindows() const { return WindowBounder::Fits(network_.architecture); }
  double& InVain(const RegionPair& pair) {
    return in_vain_[static_cast<std::size_t>(pair.member) *
                        static_cast<std::size_t>(network_.architecture.classes()) +
                    static_cast<std::size_t>(pair.other)];
  }

  // As Round, for boxes that are looked at closely. Those of a saved search are bounded anew.
  Result<bool> CloserRound() {
    std::vector<RegionNode> nodes;
    while (nodes.size() < kCloserRound && !state_.open.empty() && state_.open.front().closer &&
           state_.open.front().bound > work_.target) {
      nodes.push_back(Pop());
    }
    in_hand_ = nodes.front().bound;
    LUCID_ASSIGN(const bool done, LookInto(nodes));
    in_hand_ = 0;
    if (done) return true;
    for (RegionNode& node : nodes) LUCID_TRY(Push(std::move(node)));
    return false;
  }
  Result<bool> LookInto(const std::vector<RegionNode>& nodes) {
    std::vector<RegionPair> pairs;
    pairs.reserve(nodes.size());
    for (const RegionNode& node : nodes) pairs.push_back(node.alive.front());
    LUCID_ASSIGN(const bool attacked, AttackMembers(pairs));
    if (!attacked) return false;
    std::vector<CloserBox> parts;
    std::int64_t halves = 0;
    for (const RegionNode& node : nodes) {
      CloserBox whole{node.region.box, node.alive.front(), node.closer_multipliers, node.cut};
      whole.level = Level(node);
      if (node.cut < 0 || whole.level > 0) {
        parts.push_back(whole);
        continue;
      }
      const auto at = static_cast<std::size_t>(node.cut);
      for (int side = 0; side < 2; ++side) {
        CloserBox half = whole;
        (side == 0 ? half.box[at].upper : half.box[at].lower) =
            work_.CutOf(node.cut, whole.box[at]);
        if (!work_.Shrink(half.box)) continue;
        parts.push_back(std::move(half));
        ++halves;
      }
    }
    LUCID_ASSIGN(const bool done, BoundCloser(parts));
    if (!done) return false;
    state_.bounds += static_cast<std::int64_t>(parts.size());
    state_.regions += halves;
    for (CloserBox& part : parts) {
      CountLevel(part);
      // Nothing left to cut: its bound counts as it is.
      if (part.cut < 0 && part.level == 0) part.alive = false;
      LUCID_TRY(PushCloser(std::move(part)));
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
      work_.Enter(task.child->region, task.bound, worker);
      for (std::size_t p = task.from; p < task.to; ++p) {
        Multipliers multipliers = task.child->multipliers;
        Outcome& outcome = task.child->others[p];
        outcome =
            work_.BoundPair(outcome.pair, multipliers, work_.Steps(task.child->region), worker);
      }
    });
  }

  // Puts a region's children in its place.
  Status Replace(RegionNode& node, Expansion& expansion) {
    if (expansion.found != Expansion::Found::kInputs && work_.UsesBands()) {
      CountClosed(0);
      if (expansion.found == Expansion::Found::kNone) return Ok();
      return WithoutWorst(node);
    }
    if (!expansion.cut) return GiveUp(node);
    for (const RegionPair& pair : node.alive) CountBound(pair);
    ProofNode how = expansion.cut->how;
    how.first_child = state_.next_id;
    for (Child& child : expansion.cut->children) {
      RegionNode next;
      next.id = state_.next_id++;
      if (!child.inhabited) {
        CountClosed(0);
        continue;
      }
      ++state_.regions;
      state_.bounds += static_cast<std::int64_t>(node.alive.size());
      next.region = std::move(child.region);
      next.multipliers = std::move(child.multipliers);
      child.others.push_back(std::move(child.worst));
      for (Outcome& outcome : child.others) {
        outcome.alive ? AddAlive(outcome.pair, next) : Close(outcome, next);
      }
      LUCID_TRY(Push(std::move(next)));
    }
    return Record(node, how);
  }

  Status WithoutWorst(const RegionNode& node) {
    RegionNode rest = SameRegion(node);
    const std::size_t worst = RegionWork::WorstOf(node);
    for (std::size_t p = 0; p < node.alive.size(); ++p) {
      if (p != worst) AddAlive(node.alive[p], rest);
    }
    return Push(std::move(rest));
  }

  // A region that is not looked at any more: its bound counts as it is.
  Status GiveUp(RegionNode& node) {
    ++state_.dropped;
    if (options_.proof == nullptr) {
      CountClosed(node.bound);
      return Ok();
    }
    Worker& worker = *workers_.front();
    worker.bounder.EnterRegion(node.region);
    for (const RegionPair& pair : node.alive) {
      members_.CopyParameters(pair.member, worker.parameters);
      Multipliers multipliers = node.multipliers;
      multipliers.lambda = pair.lambda;
      Outcome outcome{pair};
      if (worker.bounder.EnterMember(worker.parameters)) {
        PairQuestion question = work_.Question(pair);
        work_.BoundBest(question, multipliers, work_.Steps(node.region), worker);
        outcome.closing = work_.CloseBy(pair, question, multipliers, worker, outcome.pair.bound);
      } else {
        outcome.pair.bound = 0;
        outcome.closing = ProofClosing{pair.member, pair.other, true, 0, {}};
      }
      Close(outcome, node);
    }
    return Record(node, {});
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
  Status FreeMemory() {
    if (memory_ <= options_.memory) return Ok();
    std::sort(state_.open.begin(), state_.open.end());
    std::size_t given_up = 0;
    while (memory_ > options_.memory / 2 && given_up + 1 < state_.open.size()) {
      memory_ -= state_.open[given_up].Bytes();
      LUCID_TRY(GiveUp(state_.open[given_up++]));
    }
    state_.open.erase(state_.open.begin(),
                      state_.open.begin() + static_cast<std::ptrdiff_t>(given_up));
    std::make_heap(state_.open.begin(), state_.open.end());
    return Ok();
  }

  double Upper() const {
    return std::max({state_.closed, in_hand_, state_.open.empty() ? 0 : state_.open.front().bound});
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
    return options_.save(EncodeRegionState(state_));
  }

  Result<RegionSearchSummary> Finish() {
    // What waits at or below the target needs no more; what waits above it is not done.
    const bool finished = state_.open.empty() || state_.open.front().bound <= work_.target;
    if (!finished && options_.save) LUCID_TRY(options_.save(EncodeRegionState(state_)));
    if (options_.proof == nullptr) return Summary(finished, Upper());
    while (!state_.open.empty()) {
      RegionNode node = Pop();
      LUCID_TRY(GiveUp(node));
    }
    return Summary(finished, state_.closed);
  }

  RegionSearchSummary Summary(bool finished, double upper) const {
    RegionSearchSummary summary;
    summary.finished = finished && state_.closed <= work_.target;
    summary.upper = upper;
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
  const RegionSearchOptions& options_;
  WitnessKeeper& witnesses_;
  RegionWork work_;
  const std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::int64_t> asked_;  // how often each member was bounded
  struct Slow {
    std::int32_t member;
    std::int64_t effort;
  };
  std::vector<Slow> slow_;           // members that are to have narrower ranges
  const std::int64_t closer_after_;  // 0: never
  std::vector<std::int32_t> boxes_;  // of every member, of its own
  std::vector<double> in_vain_;      // what windows were asked for, of every pair
  std::vector<RegionPair> hard_;     // pairs that are to be looked at closely
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
