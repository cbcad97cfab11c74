#include "verify/region_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "verify/attack.h"
#include "verify/encoding.h"
#include "verify/engine.h"
#include "verify/region_parts.h"

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
        member_error_(member_error),
        options_(options),
        witnesses_(witnesses),
        cut_phases_(network.architecture.inputs() > kFewInputs),
        root_(UnitBox(network.architecture.inputs())),
        workers_(MakeWorkers(network, label, options.threads, options.domain)),
        asked_(static_cast<std::size_t>(members.count()), 0),
        differences_(static_cast<std::size_t>(members.count())),
        closer_after_(UsesBands() && CloserBounder::Fits(network.architecture)
                          ? options.closer_after.value_or(CloserBounder::Cost(network.architecture))
                          : 0),
        boxes_(static_cast<std::size_t>(members.count()), 0) {
    Shrink(root_);
  }

  Result<RegionSearchSummary> Run(const std::string& saved) {
    SetTarget();
    if (saved.empty()) {
      LUCID_ASSIGN(const bool screened, Screen());
      if (!screened) return Summary(false, Ceiling());
    } else {
      LUCID_TRY(DecodeRegionState(saved, network_.architecture, members_.count(), state_));
      CountMemory();
    }
    while (!state_.open.empty() && state_.open.front().bound > target_ && !Expired()) {
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
  bool Expired() const {
    return options_.stop.stop_requested() || Clock::now() >= options_.deadline;
  }

  // A proof's regions are closed for good, so there the target stays what it was at the start.
  void SetTarget() {
    if (options_.proof != nullptr && target_ > 0) return;
    const double lower = witnesses_.beta_lower();
    const double relative = lower > 0 ? lower / (1 - options_.gap) : 0;  // no 0 / 0
    target_ = std::max({relative, lower + options_.absolute_gap, target_});
  }

  double Ceiling() const {
    const NetworkFacts facts = FactsOf(network_, UnitBox(network_.architecture.inputs()));
    return std::max(LargestConfidence(facts.point, facts.bounds, label_), 0.0);
  }

  PairQuestion Question(const RegionPair& pair) const {
    return {label_, pair.other, pair.other, member_error_};
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

  // Bounds one pair in the region the worker is in.
  Outcome BoundPair(RegionPair pair, Multipliers& multipliers, int steps, Worker& worker) const {
    Outcome outcome{pair};
    const bool proof = options_.proof != nullptr;
    if (!EnterMember(pair.member, worker)) {
      outcome.pair.bound = 0;
      if (proof) outcome.closing = ProofClosing{pair.member, pair.other, true, 0, {}};
      return outcome;
    }
    multipliers.lambda = pair.lambda;
    PairQuestion question = Question(pair);
    const double own = BoundBest(question, multipliers, steps, worker);
    // A parent's bound holds here, too; a proof has to close a region by itself.
    double bound = proof ? own : std::min(own, pair.bound);
    if (proof && bound <= target_)
      outcome.closing = CloseBy(pair, question, multipliers, worker, bound);
    outcome.alive = bound > target_;  // a proof's multipliers are rounded, and may not do
    if (outcome.alive) outcome.closing.reset();
    outcome.own = std::isfinite(own) ? own : bound;
    outcome.pair.bound = std::max(bound, 0.0);
    outcome.pair.lambda = static_cast<float>(multipliers.lambda);
    return outcome;
  }

  // The smallest bound over the classes that N's confidence can be measured against: f is at most
  // N_c - N_c' for every c'. Leaves the bounder, multipliers and question at the best.
  double BoundBest(PairQuestion& question, Multipliers& multipliers, int steps,
                   Worker& worker) const {
    if (network_.architecture.classes() == 2) {
      return worker.bounder.Bound(question, multipliers, steps, target_);
    }
    const Multipliers start = multipliers;
    double best = worker.bounder.Bound(question, multipliers, steps, target_);
    const std::int32_t first = question.below;
    bool last_is_best = true;
    for (std::int32_t below = 0; below < network_.architecture.classes(); ++below) {
      if (below == first || below == label_ || best <= target_) continue;
      PairQuestion next = question;
      next.below = below;
      Multipliers trial = start;
      const double bound = worker.bounder.Bound(next, trial, steps, target_);
      last_is_best = bound < best;
      if (!last_is_best) continue;
      best = bound;
      question = next;
      multipliers = std::move(trial);
    }
    if (!last_is_best) worker.bounder.Bound(question, multipliers, 0, target_);
    return best;
  }

  // After Bound: its multipliers as a proof stores them, and the bound that those give.
  static ProofClosing CloseBy(const RegionPair& pair, const PairQuestion& question,
                              const Multipliers& multipliers, Worker& worker, double& bound) {
    ProofClosing closing{pair.member,           pair.other,    false, multipliers.lambda,
                         worker.bounder.Dual(), question.below};
    bound = worker.bounder.BoundOfDual(question, closing.lambda, closing.dual);
    return closing;
  }

  // Bounds of every pair over the whole domain: intervals for all, linear for those that are left.
  Result<bool> Screen() {
    RegionNode root;
    root.region.box = root_;
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
                     outcome.pair.bound =
                         worker.bounder.IntervalBound(worker.parameters, Question(outcome.pair));
                     outcome.alive = outcome.pair.bound > target_;
                   }));
      if (!done) return false;
      state_.pruned_by_screen = KeepAlive(pairs, root);
    }
    LUCID_ASSIGN(const bool done, InChunks(pairs, [&](Outcome& outcome, Worker& worker) {
                   Multipliers multipliers;
                   outcome = BoundPair(outcome.pair, multipliers, Steps(root.region), worker);
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
    state_.closed = std::max({state_.closed, bound, UsesBands() ? target_ : 0.0});
  }
  bool UsesBands() const { return cut_phases_ && options_.proof == nullptr; }

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
           state_.open.front().bound > target_ && !state_.open.front().closer) {
      nodes.push_back(Pop());
      LUCID_TRY(SetAside(nodes.back()));
      pairs += nodes.back().alive.size();
    }
    std::vector<Expansion> expansions(nodes.size());
    LUCID_ASSIGN(bool done, ForEach(nodes.size(), [&](std::size_t i, Worker& worker) {
                   expansions[i] = Expand(nodes[i], worker);
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
    if (node.alive.size() <= kGroup || !cut_phases_ || options_.proof != nullptr) return Ok();
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

  static std::size_t WorstOf(const RegionNode& node) {
    const auto worst = std::ranges::max_element(node.alive, {}, &RegionPair::bound);
    return static_cast<std::size_t>(worst - node.alive.begin());
  }

  // Chooses how to cut by what it does to the worst pair.
  Expansion Expand(const RegionNode& node, Worker& worker) const {
    const RegionPair& worst = node.alive[WorstOf(node)];
    Expansion expansion;
    Multipliers multipliers = node.multipliers;
    multipliers.lambda = worst.lambda;
    if (!Enter(node.region, node.bound, worker)) {
      expansion.found = Expansion::Found::kNone;
      return expansion;
    }
    if (!EnterMember(worst.member, worker)) {
      expansion.found = Expansion::Found::kNoneOfTheWorst;
      return expansion;
    }
    PairQuestion question = Question(worst);
    BoundBest(question, multipliers, 0, worker);
    const SplitAdvice advice =
        worker.bounder.Advise(question, multipliers, cut_phases_ ? target_ : kInfinity);
    TryPoint(worker, expansion);
    double rest = kInfinity;
    const auto consider = [&](const ProofNode& how) {
      if (rest <= 0) return;
      Cut cut = TryCut(node, worst, multipliers, how, worker);
      if (cut.Rest(target_) >= rest) return;
      rest = cut.Rest(target_);
      expansion.cut = std::move(cut);
    };
    // With all phases known the bound of two classes is exact; of more, only a small box's is. A
    // schema's boxes end in points by themselves.
    const bool free = options_.domain == nullptr || options_.domain->groups().empty();
    const bool settle = network_.architecture.classes() == 2 && free && advice.open <= kFewOpen;
    for (const auto& phase : {advice.phase, advice.other_phase}) {
      if (!phase || !(cut_phases_ || settle)) continue;
      ProofNode how;
      how.split = phase->member ? ProofNode::Split::kMemberPhase : ProofNode::Split::kNetworkPhase;
      how.layer = phase->layer;
      how.unit = phase->unit;
      consider(how);
    }
    const bool narrow =
        advice.input < 0 ||
        node.region.box[advice.input].upper - node.region.box[advice.input].lower <= kNarrowest;
    if (!narrow) {
      const Interval side = node.region.box[advice.input];
      ProofNode how;
      how.split = ProofNode::Split::kInput;
      how.unit = advice.input;
      how.at = CutOf(how.unit, side);
      consider(how);
    }
    return expansion;
  }

  Cut TryCut(const RegionNode& node, const RegionPair& worst, const Multipliers& multipliers,
             const ProofNode& how, Worker& worker) const {
    Cut cut{how, {}};
    for (int side = 0; side < 2; ++side) {
      Child& child = cut.children[side];
      child.region = node.region;
      if (how.split == ProofNode::Split::kInput) {
        Interval& interval = child.region.box[how.unit];
        (side == 0 ? interval.upper : interval.lower) = how.at;
        if (!Shrink(child.region.box)) continue;
      } else {
        child.region.phases.push_back(
            {how.layer, how.unit, how.split == ProofNode::Split::kMemberPhase, side == 1});
      }
      child.inhabited = Enter(child.region, node.bound, worker);
      if (!child.inhabited) continue;
      child.multipliers = multipliers;
      child.worst = BoundPair(worst, child.multipliers, Steps(child.region), worker);
    }
    return cut;
  }

  // To the inputs of the domain. False: there are none.
  bool Shrink(Box& box) const {
    return options_.domain == nullptr || ShrinkBox(*options_.domain, box);
  }

  // Phases need multipliers of their own, which only descent finds.
  int Steps(const Region& region) const {
    return cut_phases_ || !region.phases.empty() ? kSteps : 0;
  }

  // Climbs from where the bound of the entered member is largest: a new witness raises the target.
  void TryPoint(Worker& worker, Expansion& expansion) const {
    if (options_.proof != nullptr || !options_.improve_witnesses) return;
    expansion.point.assign(worker.bounder.point().begin(), worker.bounder.point().end());
    if (options_.domain != nullptr) options_.domain->Project(std::span(expansion.point));
    worker.member_gradient.Assign(network_.architecture, worker.parameters, label_);
    expansion.confidence =
        worker.ascent.Climb(worker.gradient, worker.member_gradient, kFromRegion, expansion.point)
            .value_or(0);
  }

  // Only inputs above the target matter, and none above the region's bound leaks. A proof's checker
  // knows no band.
  bool Enter(const Region& region, double bound, Worker& worker) const {
    const Band band{label_, target_, bound};
    return worker.bounder.EnterRegion(region, UsesBands() ? &band : nullptr);
  }

  bool EnterMember(std::int32_t member, Worker& worker) const {
    members_.CopyParameters(member, worker.parameters);
    const auto& known = differences_[static_cast<std::size_t>(member)];
    return worker.bounder.EnterMember(worker.parameters, known.empty() ? nullptr : &known);
  }

  // Of N, when the search has turned out to be a long one, and of the members that make it long.
  Result<bool> NarrowSums() {
    const auto layers = network_.architecture.layers();
    if (!UsesBands() || layers.size() < 3 || state_.bounds < options_.narrow_after) {
      return true;
    }
    const std::int64_t work = layers[0].outputs * layers[1].outputs * layers[0].inputs;
    const auto nodes = [&](std::int64_t of_usual) {
      return std::clamp<std::int64_t>(of_usual * kUsualWork / work, 16, of_usual);
    };
    if (sums_.empty()) {
      std::vector<Interval> sums(static_cast<std::size_t>(layers[1].outputs));
      LUCID_ASSIGN(const bool done, ForEach(sums.size(), [&](std::size_t unit, Worker& worker) {
                     sums[unit] = Ranger(worker).NetworkSum(static_cast<std::int64_t>(unit),
                                                            nodes(kNodesForSums));
                   }));
      if (!done) return false;
      sums_ = std::move(sums);
      for (const auto& worker : workers_) worker->bounder.KnowSums(&sums_);
    }
    LUCID_ASSIGN(const bool done, ForEach(slow_.size(), [&](std::size_t i, Worker& worker) {
                   const auto [member, effort] = slow_[i];
                   members_.CopyParameters(member, worker.parameters);
                   SumRanger& ranger = Ranger(worker);
                   ranger.Enter(worker.parameters);
                   std::vector<Interval> differences;
                   for (std::int64_t unit = 0; unit < ranger.units(); ++unit) {
                     differences.push_back(
                         ranger.MemberDifference(unit, nodes(effort * kNodesForDifferences)));
                   }
                   differences_[static_cast<std::size_t>(member)] = std::move(differences);
                 }));
    if (done) slow_.clear();
    return done;
  }
  void CountBound(const RegionPair& pair) {
    const std::int64_t asked = ++asked_[static_cast<std::size_t>(pair.member)];
    for (std::int64_t effort = 1; effort <= kAgain; effort *= kAgain) {
      if (asked == effort * (options_.narrow_after / 4 + 1)) slow_.push_back({pair.member, effort});
    }
    if (asked == closer_after_) hard_.push_back({root_, pair});
  }

  // A box of one pair.
  struct CloserBox {
    Box box;
    RegionPair pair;
    std::vector<float> multipliers;
    std::int32_t cut = -1;
    bool alive = true;
  };
  void BoundCloser(CloserBox& bound, Worker& worker) const {
    const Region region{bound.box, {}};
    RegionPair& pair = bound.pair;
    bound.alive = Enter(region, pair.bound, worker) && EnterMember(pair.member, worker);
    if (!bound.alive) {
      pair.bound = std::min(pair.bound, target_);
      return;
    }
    Band band{label_, target_, pair.bound};
    if (network_.architecture.classes() > 2) {
      // N_c - N_c'' may be more than f, which is what the pair's bound is about.
      Multipliers multipliers;
      band.most = worker.bounder.Bound(Question(pair), multipliers, 0, target_);
    }
    if (band.most > target_) {
      if (!worker.closer) worker.closer = std::make_unique<CloserBounder>(network_);
      pair.bound =
          std::min(pair.bound, worker.closer->Bound(worker.bounder, region, band, worker.parameters,
                                                    Question(pair), bound.box != root_, target_,
                                                    bound.multipliers, [&] { return Expired(); }));
      bound.cut = worker.closer->WidestInput();
    } else {
      pair.bound = band.most;
    }
    bound.alive = pair.bound > target_;
  }

  // Of the pairs that have turned out to be hard, over the whole domain.
  Result<bool> LookCloser() {
    if (hard_.empty()) return true;
    for (CloserBox& hard : hard_) hard.pair.bound = state_.LargestBound(hard.pair);
    const std::vector<CloserBox> before = hard_;
    LUCID_ASSIGN(const bool done, ForEach(hard_.size(), [&](std::size_t i, Worker& worker) {
                   BoundCloser(hard_[i], worker);
                 }));
    if (!done) {
      hard_ = before;
      return false;
    }
    for (CloserBox& hard : hard_) {
      ++state_.bounds;
      const bool alone = hard.pair.bound <= CloserBounder::Close(network_.architecture) * target_;
      state_.Limit(hard.pair, alone ? 0 : hard.pair.bound);
      if (alone) LUCID_TRY(PushCloser(std::move(hard)));
    }
    hard_.clear();
    CountMemory();
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

  // As Round, for boxes that are looked at closely. Those of a saved search are bounded anew.
  Result<bool> CloserRound() {
    std::vector<RegionNode> nodes;
    while (nodes.size() < kCloserRound && !state_.open.empty() && state_.open.front().closer &&
           state_.open.front().bound > target_) {
      nodes.push_back(Pop());
    }
    std::vector<CloserBox> parts;
    std::int64_t halves = 0;
    for (const RegionNode& node : nodes) {
      const CloserBox whole{node.region.box, node.alive.front(), node.closer_multipliers};
      if (node.cut < 0) {
        parts.push_back(whole);
        continue;
      }
      const auto at = static_cast<std::size_t>(node.cut);
      for (int side = 0; side < 2; ++side) {
        CloserBox half = whole;
        (side == 0 ? half.box[at].upper : half.box[at].lower) = CutOf(node.cut, whole.box[at]);
        if (!Shrink(half.box)) continue;
        parts.push_back(std::move(half));
        ++halves;
      }
    }
    LUCID_ASSIGN(const bool done, ForEach(parts.size(), [&](std::size_t i, Worker& worker) {
                   BoundCloser(parts[i], worker);
                 }));
    if (!done) {
      for (RegionNode& node : nodes) LUCID_TRY(Push(std::move(node)));
      return false;
    }
    state_.bounds += static_cast<std::int64_t>(parts.size());
    state_.regions += halves;
    for (CloserBox& part : parts) {
      // Nothing left to cut: its bound counts as it is.
      if (part.cut < 0) part.alive = false;
      LUCID_TRY(PushCloser(std::move(part)));
    }
    return true;
  }
  double CutOf(std::int32_t input, const Interval& side) const {
    return options_.domain == nullptr ? 0.5 * (side.lower + side.upper)
                                      : options_.domain->CutOf(input, side.lower, side.upper);
  }
  SumRanger& Ranger(Worker& worker) const {
    if (!worker.ranger) worker.ranger = std::make_unique<SumRanger>(network_, root_);
    return *worker.ranger;
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
        const std::size_t worst = WorstOf(nodes[i]);
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
      Enter(task.child->region, task.bound, worker);
      for (std::size_t p = task.from; p < task.to; ++p) {
        Multipliers multipliers = task.child->multipliers;
        Outcome& outcome = task.child->others[p];
        outcome = BoundPair(outcome.pair, multipliers, Steps(task.child->region), worker);
      }
    });
  }

  // Puts a region's children in its place.
  Status Replace(RegionNode& node, Expansion& expansion) {
    if (expansion.found != Expansion::Found::kInputs && UsesBands()) {
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
    const std::size_t worst = WorstOf(node);
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
        PairQuestion question = Question(pair);
        BoundBest(question, multipliers, Steps(node.region), worker);
        outcome.closing = CloseBy(pair, question, multipliers, worker, outcome.pair.bound);
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
    const AttackResult result =
        CertifyPair(network_, members_, label_, nodes[best].alive[WorstOf(nodes[best])].member,
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
    return std::max(state_.closed, state_.open.empty() ? 0.0 : state_.open.front().bound);
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
    const bool finished = state_.open.empty() || state_.open.front().bound <= target_;
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
    summary.finished = finished && state_.closed <= target_;
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
  const double member_error_;
  const RegionSearchOptions& options_;
  WitnessKeeper& witnesses_;
  const bool cut_phases_;
  Box root_;  // holds the domain
  const std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Interval> sums_;       // of N's second hidden layer, all over root_; empty: not yet
  std::vector<std::int64_t> asked_;  // how often each member was bounded
  struct Slow {
    std::int32_t member;
    std::int64_t effort;
  };
  std::vector<Slow> slow_;                          // members that are to have narrower ranges
  std::vector<std::vector<Interval>> differences_;  // of the second hidden layer, by member
  const std::int64_t closer_after_;                 // 0: never
  std::vector<std::int32_t> boxes_;                 // of every member, of its own
  std::vector<CloserBox> hard_;                     // pairs that are to be looked at closely
  RegionState state_;
  double target_ = 0;        // bounds at or below it are good enough
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
