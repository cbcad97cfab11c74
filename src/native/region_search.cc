#include "native/region_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <span>

#include "attack/attack.h"
#include "native/closer_search.h"
#include "native/engine.h"
#include "native/region_book.h"
#include "native/region_cutter.h"
#include "native/region_work.h"
#include "native/worker_team.h"
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
        work_(network, members, label, member_error, options),
        cutter_(work_, network, label, options),
        team_(network, members, label, member_error, options, work_, cutter_),
        book_(options, label, work_, team_.workers()),
        state_(book_.state),
        closer_(network, members.count(), options, work_, team_, book_,
                {[this](const std::vector<RegionPair>& pairs) { return AttackMembers(pairs); },
                 [this] { return witnesses_.beta_lower(); }, [this] { Report(); }}) {
    team_.SetMeanwhile([this] { Report(); });
  }

  Result<RegionSearchSummary> Run(const std::string& saved) {
    SetTarget();
    LUCID_TRY(book_.Begin(saved, network_.architecture, Task(), saved.empty() ? Ceiling() : 0));
    bool going = true;
    if (!state_.screened) {
      LUCID_ASSIGN(going, Screen());
      if (going) {
        LUCID_ASSIGN(going, AttackTheOpen());
      }
    }
    while (going && !state_.open.empty() && state_.open.front().bound > work_.target &&
           !Refuted() && !work_.Expired()) {
      LUCID_ASSIGN(going, state_.open.front().closer ? closer_.Round() : Round());
      if (going) {
        LUCID_ASSIGN(going, closer_.LookAtHardPairs());
      }
      SetTarget();
      work_.close_by_rounding = state_.regions >= kRegionsBeforeRounding;
      book_.FreeMemory();
      Report();
      LUCID_TRY(book_.log.status());
      LUCID_TRY(SaveNowAndThen());
    }
    return Finish();
  }

 private:
  SearchTask Task() const {
    return {label_,        members_.count(),
            member_error_, network_.digest(),
            work_.root(),  options_.domain == nullptr ? DomainKind::kBox : options_.domain->kind()};
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

  // Bounds of every pair over the whole domain: intervals for all, linear for those that are left.
  // False: out of time, and all pairs wait as before.
  Result<bool> Screen() {
    RegionNode whole = book_.Pop();
    std::vector<Outcome> pairs;
    pairs.reserve(whole.alive.size());
    for (const RegionPair& pair : whole.alive) pairs.push_back({pair, true});
    LUCID_ASSIGN(const bool done, BoundOverDomain(pairs));
    if (!done) {
      book_.Push(std::move(whole));
      return false;
    }
    RegionNode root;
    root.region = std::move(whole.region);
    state_.bounds += static_cast<std::int64_t>(pairs.size());
    for (Outcome& outcome : pairs) {
      if (outcome.alive) {
        RegionBook::AddAlive(outcome.pair, root);
        continue;
      }
      ++(outcome.by_intervals ? state_.pruned_by_screen : state_.pruned_at_root);
      book_.Close(outcome);
    }
    state_.regions = 1;
    state_.screened = true;
    book_.Push(std::move(root));
    return true;
  }
  // Intervals for all, then lines for those that are left. Requires: the search begins.
  Result<bool> BoundOverDomain(std::vector<Outcome>& pairs) {
    LUCID_ASSIGN(const bool done, BoundOverDomain(pairs, PairsTask::How::kIntervals));
    if (!done) return false;
    return BoundOverDomain(pairs, PairsTask::How::kLinesOverDomain);
  }
  Result<bool> BoundOverDomain(std::vector<Outcome>& pairs, PairsTask::How how) {
    std::vector<PairsTask> tasks;
    for (Outcome& outcome : pairs) {
      if (!outcome.alive) continue;
      if (tasks.empty() || tasks.back().outcomes.size() == kChunk) tasks.push_back({how, {}});
      tasks.back().outcomes.push_back(&outcome);
    }
    return team_.Do(tasks);
  }

  // The regions of largest bound are cut in two. False: out of time, and they wait again.
  Result<bool> Round() {
    std::vector<RegionNode> nodes;
    std::size_t pairs = 0;
    const std::size_t most =
        std::clamp<std::size_t>(state_.open.size() / 4, 1, kRound * options_.width);
    while (nodes.size() < most && pairs < kRoundPairs * options_.width && !state_.open.empty() &&
           state_.open.front().bound > work_.target && !state_.open.front().closer) {
      nodes.push_back(book_.Pop());
      book_.FindReasons(nodes.back());
      SetAside(nodes.back());
      pairs += nodes.back().alive.size();
    }
    std::vector<Expansion> expansions(nodes.size());
    std::vector<ExpandTask> tasks;
    for (std::size_t i = 0; i < nodes.size(); ++i) tasks.push_back({&nodes[i], &expansions[i]});
    LUCID_ASSIGN(bool done, team_.Do(tasks));
    if (done) {
      LUCID_ASSIGN(done, BoundOthers(nodes, expansions));
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      done ? Replace(nodes[i], expansions[i]) : book_.Push(std::move(nodes[i]));
    }
    if (done) ImproveWitness(nodes, expansions);
    return done;
  }

  // If a region has many pairs, only those with the largest bounds are taken further; the others
  // wait in the same region.
  void SetAside(RegionNode& node) {
    if (node.alive.size() <= kGroup || !work_.UsesBands()) return;
    std::ranges::stable_sort(node.alive, std::greater<>(), &RegionPair::bound);
    RegionNode rest = book_.SameRegion(node);
    for (std::size_t p = kGroup; p < node.alive.size(); ++p)
      RegionBook::AddAlive(node.alive[p], rest);
    node.alive.resize(kGroup);
    book_.Push(std::move(rest));
  }

  // Before closer looks each of their members is attacked alone, the one of the worst pair several
  // times: a higher target is reached sooner. Requires: pairs.
  Result<bool> AttackMembers(const std::vector<RegionPair>& pairs) {
    if (!options_.improve_witnesses || options_.most_climbs == 0) return true;
    std::set<std::int32_t> members;
    for (const RegionPair& pair : pairs) members.insert(pair.member);
    std::vector<std::int32_t> attacked(members.begin(), members.end());
    const auto worst = std::ranges::max_element(pairs, {}, &RegionPair::bound);
    attacked.insert(attacked.end(), kAttacksOnWorst - 1, worst->member);
    std::vector<AttackResult> found(attacked.size());
    std::vector<AttackTask> tasks;
    const std::int64_t climbs = std::min(kClimbsAlone, options_.most_climbs);
    for (std::size_t i = 0; i < attacked.size(); ++i) {
      tasks.push_back({attacked[i], state_.bounds * kAttacksOnWorst + i,
                       std::min(kPoolAlone, climbs), climbs, &found[i]});
    }
    LUCID_ASSIGN(const bool done, team_.Do(tasks));
    for (const AttackResult& one : found) witnesses_.Offer(one.beta_lower, one.witness);
    SetTarget();
    return done;
  }

  // The pairs that are not the worst, in the children of the chosen cuts.
  Result<bool> BoundOthers(const std::vector<RegionNode>& nodes,
                           std::vector<Expansion>& expansions) {
    std::vector<PairsTask> tasks;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!expansions[i].cut) continue;
      for (Child& child : expansions[i].cut->children) {
        if (!child.inhabited) continue;
        const std::size_t worst = RegionCutter::WorstOf(nodes[i]);
        for (std::size_t p = 0; p < nodes[i].alive.size(); ++p) {
          if (p != worst) child.others.push_back({nodes[i].alive[p], true});
        }
        for (std::size_t p = 0; p < child.others.size(); ++p) {
          if (p % kChunk == 0) {
            tasks.push_back({PairsTask::How::kLinesInRegion,
                             {},
                             &child.region,
                             nodes[i].bound,
                             &child.multipliers});
          }
          tasks.back().outcomes.push_back(&child.others[p]);
        }
      }
    }
    return team_.Do(tasks);
  }

  // Puts a region's children in its place.
  void Replace(RegionNode& node, Expansion& expansion) {
    if (expansion.found != Expansion::Found::kInputs && work_.UsesBands()) {
      if (expansion.found == Expansion::Found::kNoneOfTheWorst) return WithoutWorst(node);
      for (const RegionPair& pair : node.alive) book_.CloseEmptyOrGiveUp(pair, node);
      return;
    }
    if (!expansion.cut) return book_.GiveUp(node);
    for (const RegionPair& pair : node.alive) closer_.Count(pair);
    book_.log.Split(expansion.cut->how, node.place, state_.next_id);
    for (int side = 0; side < 2; ++side) {
      Child& child = expansion.cut->children[side];
      RegionNode next;
      next.id = next.place = state_.next_id++;
      if (!child.inhabited) {
        for (const RegionPair& pair : node.alive) {
          const RegionPair part = RegionBook::PartOf(pair, side);
          if (!book_.CloseEmpty(part, child.region, next.place, work_.BandOf(node.bound))) {
            RegionBook::AddAlive(part, next);
          }
        }
        next.region = std::move(child.region);
        book_.Push(std::move(next));
        continue;
      }
      ++state_.regions;
      state_.bounds += static_cast<std::int64_t>(node.alive.size());
      next.region = std::move(child.region);
      next.multipliers = std::move(child.multipliers);
      child.others.push_back(std::move(child.worst));
      for (Outcome& outcome : child.others) {
        outcome.pair = RegionBook::PartOf(outcome.pair, side);
        if (outcome.fresh) outcome.pair.why->closing.node = next.place;
        outcome.alive ? RegionBook::AddAlive(outcome.pair, next) : book_.Close(outcome);
      }
      book_.Push(std::move(next));
    }
  }

  void WithoutWorst(const RegionNode& node) {
    RegionNode rest = book_.SameRegion(node);
    const std::size_t worst = RegionCutter::WorstOf(node);
    for (std::size_t p = 0; p < node.alive.size(); ++p) {
      if (p != worst) RegionBook::AddAlive(node.alive[p], rest);
    }
    book_.CloseEmptyOrGiveUp(node.alive[worst], node);
    book_.Push(std::move(rest));
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
        network_, members_, label_, nodes[best].alive[RegionCutter::WorstOf(nodes[best])].member,
        expansions[best].point, expansions[best].confidence, options_.domain);
    witnesses_.Offer(result.beta_lower, result.witness);
  }

  double Upper() const {
    return std::max({state_.account.largest(), closer_.in_hand(),
                     state_.open.empty() ? 0 : state_.open.front().bound});
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
    book_.ProveWaiting();
    LUCID_TRY(book_.log.status());
    return options_.save(Encoded());
  }
  std::string Encoded() const { return EncodeRegionState(state_, Task()); }

  Result<RegionSearchSummary> Finish() {
    book_.ProveWaiting();
    LUCID_TRY(book_.log.status());
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
  RegionWork work_;
  RegionCutter cutter_;
  WorkerTeam team_;
  RegionBook book_;
  RegionState& state_;  // the book's
  CloserSearch closer_;
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
