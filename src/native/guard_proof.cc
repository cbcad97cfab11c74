#include "native/guard_proof.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>
#include <utility>

#include "base/parallel.h"
#include "native/region_tasks.h"
#include "native/task_bytes.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

constexpr std::size_t kChunk = 64;  // claims of one task

// The box of every node. Ids are those of the nodes that the splits name.
std::vector<ProofRegion> BoxesOf(const BoxProof& proof, std::int64_t inputs) {
  ProofRegion whole;
  whole.lower.assign(static_cast<std::size_t>(inputs), 0.0);
  whole.upper.assign(static_cast<std::size_t>(inputs), 1.0);
  std::vector<ProofRegion> boxes(2 * proof.splits.size() + 1);
  boxes[0] = std::move(whole);
  for (const ProofSplit& split : proof.splits) {
    ProofRegion &first = boxes[split.first_child], &second = boxes[split.first_child + 1];
    first = second = boxes[split.node];
    first.upper[split.unit] = std::min(first.upper[split.unit], split.at);
    second.lower[split.unit] = std::max(second.lower[split.unit], split.at);
  }
  return boxes;
}

// Empty boxes have ends that cross.
void Shrink(const Domain& domain, ProofRegion& box) {
  if (domain.Shrink(box.lower, box.upper)) return;
  box.lower.front() = 1;
  box.upper.front() = 0;
}

// What the checker's code finds of a claim about the inputs of the domain in the box.
double BoundOf(const Ensemble& ensemble, const Domain& domain, std::int32_t label,
               double member_error, const ProofClosing& claim, ProofRegion box,
               ClaimWorker& worker) {
  Shrink(domain, box);
  worker.checker.Enter(std::move(box));
  if (claim.member != ProofClosing::kEveryPair) {
    ensemble.CopyParameters(claim.member, worker.parameters);
  }
  return worker.checker.Bound(label, claim, member_error, worker.parameters);
}

// Whether the claim is true now.
bool Confirm(double found, ProofClosing& claim) {
  if (claim.kind == ProofClosing::Kind::kNoInput) return found == -kInfinity;
  claim.value = std::isfinite(claim.value) ? std::max(claim.value, found) : std::max(found, 0.0);
  return std::isfinite(claim.value);
}

// The tree of boxes, built from the claims on the way to each of them.
class TreeBuilder {
 public:
  TreeBuilder(const BoxProof& proof, std::int64_t members, std::int64_t classes, std::int32_t label,
              double beta_upper)
      : proof_(proof),
        others_(static_cast<std::size_t>(classes - 1)),
        label_(label),
        shown_(static_cast<std::size_t>(members) * others_, beta_upper),
        splits_(2 * proof.splits.size() + 1, nullptr),
        claims_(splits_.size()) {
    for (const ProofSplit& split : proof.splits) splits_[split.node] = &split;
    for (const ProofClosing& claim : proof.claims) claims_[claim.node].push_back(&claim);
  }

  SpatialBounds::Tree Build() {
    Visit(0);
    return std::move(tree_);
  }

 private:
  void Visit(std::uint64_t node) {
    const std::size_t mark = trail_.size();
    bool empty = false;
    for (const ProofClosing* claim : claims_[node]) {
      if (claim->member == ProofClosing::kEveryPair) {
        empty = true;
        continue;
      }
      const std::int32_t other = claim->other - (claim->other > label_ ? 1 : 0);
      const std::size_t pair =
          static_cast<std::size_t>(claim->member) * others_ + static_cast<std::size_t>(other);
      const double value = claim->kind == ProofClosing::Kind::kNoInput ? 0 : claim->value;
      if (!(value < shown_[pair])) continue;
      trail_.emplace_back(pair, shown_[pair]);
      shown_[pair] = value;
    }
    if (const ProofSplit* split = splits_[node]; split != nullptr) {
      const std::size_t here = tree_.size();
      tree_.push_back({split->unit, 0, split->at});
      Visit(split->first_child);
      tree_[here].second = static_cast<std::int32_t>(tree_.size());
      Visit(split->first_child + 1);
    } else {
      tree_.push_back({-1, 0, empty ? 0.0 : std::max(0.0, std::ranges::max(shown_))});
    }
    for (; trail_.size() > mark; trail_.pop_back())
      shown_[trail_.back().first] = trail_.back().second;
  }

  const BoxProof& proof_;
  const std::size_t others_;
  const std::int32_t label_;
  std::vector<double> shown_;  // of every pair, where Visit is
  std::vector<const ProofSplit*> splits_;
  std::vector<std::vector<const ProofClosing*>> claims_;
  std::vector<std::pair<std::size_t, double>> trail_;
  SpatialBounds::Tree tree_;
};

}  // namespace

ProofClosing ClaimByLines(RegionBounder& bounder, const PairFacts& facts, std::int32_t member,
                          const PairQuestion& asked, const Multipliers& multipliers,
                          std::vector<float> dual, bool flat, ChargedBound& bound) {
  const PairQuestion question = multipliers.Applied(asked);
  using enum ProofClosing::Kind;
  const bool by_rule =
      flat || (multipliers.slopes.empty() &&
               std::ranges::all_of(multipliers.pushes, [](float p) { return p == 0; }));
  ProofClosing claim;
  claim.member = member;
  claim.other = question.other;
  claim.kind = by_rule ? kLines : kMultipliers;
  claim.lambda = multipliers.lambda;
  claim.weights = question.weights;
  claim.below = question.weights.empty() ? question.below : -1;
  if (!by_rule) {
    claim.multipliers = std::move(dual);
    bound = bounder.BoundOfDual(facts, question, claim.lambda, claim.multipliers);
  }
  bound.value = claim.value = bound.ForChecker();
  return claim;
}

bool AnswerClaims(const Ensemble& ensemble, const Domain& domain, std::int32_t label,
                  double member_error, ClaimWorker& worker, ByteCursor& in, std::string& out) {
  BytesIn io(in);
  BytesOut answer(out);
  const Architecture& architecture = ensemble.network().architecture;
  const auto inputs = static_cast<std::size_t>(architecture.inputs());
  for (std::uint64_t count = io.Count(0); count > 0; --count) {
    ProofRegion box;
    ProofClosing claim;
    io.Numbers(box.lower);
    io.Numbers(box.upper);
    io(claim);
    io.Require(box.lower.size() == inputs && box.upper.size() == inputs && claim.member >= -1 &&
               claim.member < ensemble.members() && claim.other >= 0 &&
               claim.other < architecture.classes() &&
               (claim.weights.empty() ||
                ProblemOfWeights(claim.weights, architecture.classes(), label).empty()));
    if (!io.ok()) return false;
    const double found =
        BoundOf(ensemble, domain, label, member_error, claim, std::move(box), worker);
    answer(found);
  }
  return io.ok();
}

Status ConfirmClaims(const Ensemble& ensemble, const Domain& domain, std::int32_t label,
                     double member_error, int threads, const std::stop_token& stop, BoxProof& proof,
                     TaskTeam* team) {
  const auto order = [](const ProofClosing& claim) {
    return std::tuple(claim.node, claim.member, claim.other);
  };
  std::ranges::sort(proof.claims, {}, order);
  const std::vector<ProofRegion> boxes = BoxesOf(proof, ensemble.network().architecture.inputs());
  std::vector<std::unique_ptr<ClaimWorker>> workers;
  workers.reserve(static_cast<std::size_t>(EffectiveThreads(threads)));
  for (int w = 0; w < EffectiveThreads(threads); ++w) {
    workers.push_back(std::make_unique<ClaimWorker>(ensemble.network(), domain));
  }
  std::vector<char> stays(proof.claims.size());
  const auto chunk = [&](std::int64_t task) {
    const std::size_t from = static_cast<std::size_t>(task) * kChunk;
    return std::pair(from, std::min(from + kChunk, proof.claims.size()));
  };
  region_search::TaskTopic topic;
  topic.kind = region_search::TaskKind::kConfirm;
  topic.label = label;
  topic.member_error = member_error;
  topic.domain = domain.kind();
  TeamTasks tasks;
  tasks.topic = topic.Bytes();
  tasks.count = static_cast<std::int64_t>((proof.claims.size() + kChunk - 1) / kChunk);
  tasks.ask = [&](std::int64_t task, std::string& out) {
    const auto [from, to] = chunk(task);
    BytesOut io(out);
    io.Count(to - from);
    for (std::size_t i = from; i < to; ++i) {
      const ProofRegion& box = boxes[proof.claims[i].node];
      io.Numbers(box.lower);
      io.Numbers(box.upper);
      io(proof.claims[i]);
    }
  };
  tasks.take = [&](std::int64_t task, ByteCursor& in) {
    const auto [from, to] = chunk(task);
    for (std::size_t i = from; i < to; ++i) {
      const auto found = in.Take<double>();
      if (std::isnan(found)) return false;
      stays[i] = Confirm(found, proof.claims[i]) ? 1 : 0;
    }
    return in.ok();
  };
  const auto here = [&](std::int64_t task, int w) -> Status {
    const auto [from, to] = chunk(task);
    for (std::size_t i = from; i < to; ++i) {
      ProofClosing& claim = proof.claims[i];
      const double found = BoundOf(ensemble, domain, label, member_error, claim, boxes[claim.node],
                                   *workers[static_cast<std::size_t>(w)]);
      stays[i] = Confirm(found, claim) ? 1 : 0;
    }
    return Ok();
  };
  LUCID_TRY(DoTasks(team, std::move(tasks), here, threads, stop));
  std::size_t kept = 0;
  for (std::size_t i = 0; i < proof.claims.size(); ++i) {
    if (stays[i] == 0) continue;
    if (kept != i) proof.claims[kept] = std::move(proof.claims[i]);
    ++kept;
  }
  proof.claims.resize(kept);
  return Ok();
}

SpatialBounds::Tree TreeOf(const BoxProof& proof, std::int64_t members, std::int64_t classes,
                           std::int32_t label, double beta_upper) {
  return TreeBuilder(proof, members, classes, label, beta_upper).Build();
}

}  // namespace lucid
