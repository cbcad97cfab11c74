#include "native/spatial_search.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/parallel.h"
#include "base/work_clock.h"
#include "native/engine.h"
#include "native/region_tasks.h"
#include "native/spatial_box.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

using region_search::TaskKind;
using spatial::BoxWork;
using spatial::BoxWorker;
using spatial::Cut;
using spatial::Guide;
using spatial::Half;
using spatial::Leaf;
using spatial::Pair;

// So many boxes are cut at a time. The number is fixed, so that the result does not depend on the
// number of threads.
constexpr std::size_t kRound = 16;

class SpatialSearch {
 public:
  SpatialSearch(const Network& network, const Members& members, const Domain& domain,
                const SpatialQuestion& question, const SpatialSearchOptions& options)
      : network_(network),
        members_(members),
        domain_(domain),
        question_(question),
        options_(options),
        work_(network, members, domain, question) {
    for (int w = 0; w < EffectiveThreads(options.threads); ++w) {
      workers_.push_back(std::make_unique<BoxWorker>(network, &domain));
    }
  }

  Result<BoxProof> Run(std::span<const float> rows) {
    const WorkClock clock(EffectiveThreads(options_.threads));
    leaves_.push_back(Root(rows));
    Keep(leaves_[0]);
    const auto all = static_cast<std::int64_t>(leaves_[0].guides.size());
    while (clock.Seconds() < options_.seconds && !options_.stop.stop_requested()) {
      const std::vector<std::size_t> chosen = Choose();
      if (chosen.empty()) break;
      LUCID_ASSIGN(const bool cut, CutAll(chosen));
      if (!cut) break;
      if (options_.report) options_.report(all, Waiting());
    }
    return Emit();
  }

 private:
  std::int64_t Waiting() const {
    std::int64_t waiting = 0;
    for (const Leaf& leaf : leaves_) waiting += std::ssize(leaf.guides);
    return waiting;
  }

  Leaf Root(std::span<const float> rows) {
    Leaf root;
    root.region.box = UnitBox(network_.architecture.inputs());
    ShrinkBox(domain_, root.region.box);
    root.guides = GuidesOf(rows);
    for (std::int32_t member = 0; member < members_.count(); ++member) {
      for (std::int32_t other = 0; other < network_.architecture.classes(); ++other) {
        if (other == question_.label) continue;
        root.pairs.push_back({member, other, question_.beta_upper, 1, nullptr});
      }
    }
    for (const ProofClosing& claim : question_.claims) {
      const std::int32_t other = claim.other - (claim.other > question_.label ? 1 : 0);
      Pair& pair = root.pairs[claim.member * (network_.architecture.classes() - 1) + other];
      BoxWork::Tighten(claim, pair);
    }
    BoxWork::Settle(root);
    return root;
  }

  // Rows that a scalar guard would noise.
  std::vector<Guide> GuidesOf(std::span<const float> rows) const {
    const Evaluator evaluator(network_);
    const auto inputs = static_cast<std::size_t>(network_.architecture.inputs());
    std::vector<Guide> guides;
    for (std::size_t at = 0; at + inputs <= rows.size(); at += inputs) {
      const auto x = rows.subspan(at, inputs);
      const Decision decision = evaluator.Decide(x);
      const double confidence = NextDown(decision.confidence - evaluator.ConfidenceErrorBound());
      if (decision.label != question_.label || !(confidence <= question_.beta_upper)) continue;
      if (domain_.Contains(x).ok()) guides.push_back({x, confidence});
    }
    return guides;
  }

  // The boxes with most guides waiting, by number.
  std::vector<std::size_t> Choose() const {
    std::vector<std::size_t> chosen;
    if (std::ssize(leaves_) >= options_.leaves) return chosen;
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (!leaves_[i].settled) chosen.push_back(i);
    }
    const auto room = static_cast<std::size_t>(options_.leaves - std::ssize(leaves_));
    const std::size_t count = std::min({chosen.size(), kRound, room});
    std::ranges::partial_sort(chosen, chosen.begin() + static_cast<std::ptrdiff_t>(count),
                              [&](std::size_t a, std::size_t b) {
                                const auto of_a = leaves_[a].guides.size(),
                                           of_b = leaves_[b].guides.size();
                                return of_a != of_b ? of_a > of_b : a < b;
                              });
    chosen.resize(count);
    return chosen;
  }

  // The tasks of a list have one kind.
  TeamTasks TasksOf(TaskKind kind) const {
    region_search::TaskTopic topic;
    topic.kind = kind;
    topic.label = question_.label;
    topic.member_error = question_.member_error;
    topic.flat = question_.flat;
    topic.domain = domain_.kind();
    TeamTasks tasks;
    tasks.topic = topic.Bytes();
    return tasks;
  }

  // Does each task, here or elsewhere. False: stopped.
  template <typename Here>
  Result<bool> Each(TeamTasks tasks, std::size_t count, const Here& here) {
    tasks.count = static_cast<std::int64_t>(count);
    const Status done = DoTasks(
        options_.team, std::move(tasks),
        [&](std::int64_t i, int w) {
          here(static_cast<std::size_t>(i), *workers_[static_cast<std::size_t>(w)]);
          return Ok();
        },
        options_.threads, options_.stop);
    if (done.ok()) return true;
    if (done.error().kind == ErrorKind::kInterrupted) return false;
    return done.error();
  }

  // Where to cut each of the boxes.
  Result<bool> FindCuts(const std::vector<std::size_t>& chosen,
                        std::vector<std::optional<Cut>>& cuts) {
    const auto leaf = [&](std::size_t i) -> const Leaf& { return leaves_[chosen[i]]; };
    if (GuidesFillDomain(domain_)) {
      for (std::size_t i = 0; i < chosen.size(); ++i) cuts[i] = work_.HalfOfWidest(leaf(i));
      return true;
    }
    const auto worst = [&](std::size_t i) {
      return *std::ranges::max_element(leaf(i).pairs, {}, &Pair::bound);
    };
    TeamTasks tasks = TasksOf(TaskKind::kSpatialCut);
    tasks.ask = [&](std::int64_t i, std::string& out) { work_.AskCut(leaf(i), worst(i), out); };
    tasks.take = [&](std::int64_t i, ByteCursor& in) {
      return BoxWork::TakeCut(in, leaf(i), cuts[static_cast<std::size_t>(i)]);
    };
    return Each(std::move(tasks), chosen.size(), [&](std::size_t i, BoxWorker& worker) {
      cuts[i] = work_.CutForWorst(leaf(i), worst(i), worker);
    });
  }

  // Bounds these of the halves.
  Result<bool> BoundHalves(std::vector<Half>& halves, const std::vector<std::size_t>& open) {
    const auto half = [&](std::size_t i) -> Half& { return halves[open[i]]; };
    TeamTasks tasks = TasksOf(TaskKind::kSpatialHalf);
    tasks.ask = [&](std::int64_t i, std::string& out) { work_.AskHalf(half(i), out); };
    tasks.take = [&](std::int64_t i, ByteCursor& in) { return BoxWork::TakeHalf(in, half(i)); };
    return Each(std::move(tasks), open.size(),
                [&](std::size_t i, BoxWorker& worker) { work_.Bound(half(i), worker); });
  }

  // False: stopped; the boxes stay as they are.
  Result<bool> CutAll(const std::vector<std::size_t>& chosen) {
    std::vector<std::optional<Cut>> cuts(chosen.size());
    LUCID_ASSIGN(const bool found, FindCuts(chosen, cuts));
    if (!found) return false;
    std::vector<std::uint64_t> first_child;
    std::uint64_t nodes = 2 * splits_.size() + 1;
    for (const std::optional<Cut>& cut : cuts) {
      first_child.push_back(nodes);
      if (cut) nodes += 2;
    }
    std::vector<Half> halves(2 * chosen.size());
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < halves.size(); ++i) {
      if (!cuts[i / 2]) continue;
      halves[i] =
          work_.HalfOf(leaves_[chosen[i / 2]], *cuts[i / 2], i % 2, first_child[i / 2] + i % 2);
      if (halves[i].inhabited) {
        open.push_back(i);
      } else {
        BoxWork::Close(halves[i]);
      }
    }
    LUCID_ASSIGN(const bool bounded, BoundHalves(halves, open));
    if (!bounded) return false;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      Leaf& leaf = leaves_[chosen[i]];
      leaf.settled = true;
      if (!cuts[i]) continue;
      ProofSplit split;
      split.node = leaf.node;
      split.unit = cuts[i]->feature;
      split.at = cuts[i]->at;
      split.first_child = first_child[i];
      splits_.push_back(split);
      Keep(halves[2 * i].leaf);
      Keep(halves[2 * i + 1].leaf);
      leaf = std::move(halves[2 * i].leaf);
      leaves_.push_back(std::move(halves[2 * i + 1].leaf));
    }
    return true;
  }
  void Keep(Leaf& leaf) {
    std::ranges::move(leaf.dropped, std::back_inserter(claims_));
    leaf.dropped = {};
  }

  // Claims that some box needs, each once.
  BoxProof Emit() {
    for (Leaf& leaf : leaves_) {
      for (Pair& pair : leaf.pairs) claims_.push_back(std::move(pair.why));
    }
    std::ranges::sort(claims_);
    claims_.erase(std::unique(claims_.begin(), claims_.end()), claims_.end());
    BoxProof proof{std::move(splits_), {}};
    for (const auto& claim : claims_) {
      if (claim) proof.claims.push_back(*claim);
    }
    return proof;
  }

  const Network& network_;
  const Members& members_;
  const Domain& domain_;
  const SpatialQuestion& question_;
  const SpatialSearchOptions& options_;
  const BoxWork work_;
  std::vector<std::unique_ptr<BoxWorker>> workers_;
  std::vector<Leaf> leaves_;
  std::vector<ProofSplit> splits_;
  std::vector<std::shared_ptr<const ProofClosing>> claims_;
};

}  // namespace

Result<BoxProof> SearchSpatialBounds(const Network& network, const Members& members,
                                     const Domain& domain, const SpatialQuestion& question,
                                     std::span<const float> guides,
                                     const SpatialSearchOptions& options) {
  return SpatialSearch(network, members, domain, question, options).Run(guides);
}

}  // namespace lucid
