#include "check/proof_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "check/claim_checker.h"
#include "check/proof_windows.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

using enum ProofSplit::How;
using Kind = ProofClosing::Kind;

// Empty, or why this split cannot be one of a network of this shape.
std::string MisfitOf(const ProofSplit& split, const ProofShape& shape) {
  const auto layers = static_cast<std::int64_t>(shape.hidden.size());
  if (split.how != kInput && split.layer >= layers) {
    return fmt::format("it splits layer {}, there are {}", split.layer, layers);
  }
  const std::int64_t units = split.how == kInput ? shape.inputs : shape.hidden[split.layer];
  if (split.unit >= units) {
    return fmt::format("it splits {} {}, there are {}", split.how == kInput ? "input" : "unit",
                       split.unit, units);
  }
  return "";
}

// What is wrong with a case of windows.
std::string MisfitOf(const ProofCase& one, const ProofShape& shape) {
  if (one.Cuts()) {
    ProofSplit cut;
    cut.how = kNetworkPhase;
    cut.layer = one.layer;
    cut.unit = one.unit;
    return MisfitOf(cut, shape);
  }
  const auto wrong = [](const std::vector<float>& values, std::int64_t count) {
    return static_cast<std::int64_t>(values.size()) != count;
  };
  if (one.kind == ProofCase::Kind::kMultipliers && wrong(one.multipliers, shape.lines)) {
    return fmt::format("a case has {} multipliers, a network of this run has {}",
                       one.multipliers.size(), shape.lines);
  }
  for (const ProofRound& round : one.rounds) {
    if (wrong(round.tilts, shape.tilts) || (round.aims && wrong(round.choose_by, shape.tilts))) {
      return fmt::format("a round has {} tilts, a network of this run has {}", round.tilts.size(),
                         shape.tilts);
    }
    for (const std::uint16_t input : round.halved) {
      if (input >= shape.inputs) {
        return fmt::format("a round cuts input {}, there are {}", input, shape.inputs);
      }
    }
  }
  return "";
}

std::string MisfitOf(const ProofClosing& closing, std::int32_t label, const ProofShape& shape) {
  if (closing.member == ProofClosing::kEveryPair) return "";
  if (closing.member >= shape.members) {
    return fmt::format("it closes member {}, there are {}", closing.member, shape.members);
  }
  if (closing.other >= shape.classes || closing.other == label) {
    return fmt::format("it closes class {} against {}", label, closing.other);
  }
  const bool lines = closing.kind == Kind::kLines || closing.kind == Kind::kMultipliers;
  if (lines && !closing.weights.empty()) {
    const std::string problem = ProblemOfWeights(closing.weights, shape.classes, label);
    if (!problem.empty()) return fmt::format("it measures class {} with {}", label, problem);
  } else if (lines &&
             (closing.below < 0 || closing.below >= shape.classes || closing.below == label)) {
    return fmt::format("it measures class {} against {}", label, closing.below);
  }
  const auto count = static_cast<std::int64_t>(closing.multipliers.size());
  const std::int64_t expected = closing.kind == Kind::kMultipliers ? shape.lines
                                : closing.kind == Kind::kMoments   ? shape.moments
                                                                   : 0;
  if (count != expected) {
    return fmt::format("member {} has {} multipliers, a network of this run has {}", closing.member,
                       count, expected);
  }
  if (closing.kind == Kind::kWindows && shape.tilts == 0) {
    return "it speaks of windows, which a network of this run does not have";
  }
  for (const ProofCase& one : closing.cases) {
    if (std::string misfit = MisfitOf(one, shape); !misfit.empty()) return misfit;
  }
  return "";
}

}  // namespace

ProofShape::ProofShape(const Architecture& architecture, std::int64_t ensemble_members,
                       Domain inputs_domain)
    : inputs(architecture.inputs()),
      classes(architecture.classes()),
      members(ensemble_members),
      moments(inputs + 1),
      domain(std::move(inputs_domain)) {
  const auto layers = architecture.layers();
  for (std::size_t m = 0; m + 1 < layers.size(); ++m) {
    hidden.push_back(layers[m].outputs);
    lines += 2 * layers[m].outputs;
    moments += 9 * layers[m].outputs;
  }
  const WindowLayout windows(architecture);
  if (windows.Fits()) tilts = static_cast<std::int64_t>(windows.count * windows.width);
}

Result<std::vector<ProofTree>> ReadProofTrees(std::span<const ProofFile> files,
                                              const ProofShape& shape,
                                              const std::stop_token& stop) {
  std::vector<ProofTree> trees(static_cast<std::size_t>(shape.classes));
  for (ProofTree& tree : trees) tree.inputs_ = shape.inputs;
  for (const ProofFile& file : files) {
    std::uint64_t splits = 0, closings = 0;
    for (std::size_t block = 0; block < file.blocks(); ++block) {
      if (stop.stop_requested()) return Interrupted("stopped while the proof was read");
      LUCID_ASSIGN(const std::vector<ProofRecord> records, file.ReadBlock(block));
      for (const ProofRecord& record : records) {
        ProofTree& tree = trees[record.label];
        const auto wrong = [&](std::uint64_t node, const std::string& why) {
          return Mismatch(
              fmt::format("{}: class {}, node {}: {}", file.source(), record.label, node, why));
        };
        if (const auto* split = std::get_if<ProofSplit>(&record.what)) {
          const std::string why = MisfitOf(*split, shape);
          if (!why.empty()) return wrong(split->node, why);
          tree.splits_.push_back({split->node, split->first_child, split->at, split->layer,
                                  split->unit, split->how, ProofTree::kNone});
          ++splits;
          continue;
        }
        const auto& closing = std::get<ProofClosing>(record.what);
        const std::string why = MisfitOf(closing, record.label, shape);
        if (!why.empty()) return wrong(closing.node, why);
        const std::int64_t other = closing.other - (closing.other > record.label ? 1 : 0);
        tree.claims_.push_back(
            {closing.node,
             closing.member == ProofClosing::kEveryPair
                 ? ProofTree::kEveryPair
                 : static_cast<std::uint64_t>(closing.member * (shape.classes - 1) + other),
             ValueOf(closing), closing.band ? closing.band->most : kInfinity});
        ++closings;
      }
    }
    if (splits != file.splits() || closings != file.closings()) {
      return Mismatch(fmt::format("{}: {} splits and {} closings, its end says {} and {}",
                                  file.source(), splits, closings, file.splits(), file.closings()));
    }
  }
  return trees;
}

std::size_t ProofTree::Find(std::uint64_t id) const {
  const auto at = std::ranges::lower_bound(nodes_, id, {}, &Node::id);
  return at != nodes_.end() && at->id == id ? static_cast<std::size_t>(at - nodes_.begin()) : kNone;
}

// The root and every child of a split are the nodes; each but the root is the child of one split.
// So what is reached from the root is a tree, and what is not reached is no part of the proof.
std::string ProofTree::FindProblem() {
  std::ranges::stable_sort(splits_, {}, &Split::node);
  std::ranges::stable_sort(claims_, {}, &Claim::node);
  nodes_ = {Node{}};
  for (std::size_t s = 0; s < splits_.size(); ++s) {
    for (std::int8_t side = 0; side < 2; ++side) {
      Node& child = nodes_.emplace_back();
      child.id = splits_[s].first_child + static_cast<unsigned>(side);
      child.split = s;
      child.side = side;
      if (child.id == 0) return fmt::format("node {} has the root as its child", splits_[s].node);
    }
  }
  std::ranges::sort(nodes_, {}, &Node::id);
  for (std::size_t n = 1; n < nodes_.size(); ++n) {
    if (nodes_[n].id != nodes_[n - 1].id) continue;
    return fmt::format("node {} is a child of both node {} and node {}", nodes_[n].id,
                       splits_[nodes_[n - 1].split].node, splits_[nodes_[n].split].node);
  }
  for (std::size_t s = 0; s < splits_.size(); ++s) {
    const std::size_t parent = Find(splits_[s].node);
    if (parent == kNone) return fmt::format("nothing leads to node {}", splits_[s].node);
    splits_[s].parent = parent;
    if (nodes_[parent].splits++ == 0) nodes_[parent].first_split = s;
  }
  for (std::size_t c = 0; c < claims_.size(); ++c) {
    const std::size_t node = Find(claims_[c].node);
    if (node == kNone) return fmt::format("nothing leads to node {}", claims_[c].node);
    if (nodes_[node].claims++ == 0) nodes_[node].first_claim = c;
  }
  std::vector<std::pair<std::size_t, std::size_t>> stack = {{0, 0}};  // nodes, and their depths
  std::size_t reached = 0;
  while (!stack.empty()) {
    const auto [n, depth] = stack.back();
    stack.pop_back();
    ++reached;
    if (depth > kLongestWay) return fmt::format("node {} is too far from the root", nodes_[n].id);
    for (std::size_t s = 0; s < nodes_[n].splits; ++s) {
      const std::uint64_t child = splits_[nodes_[n].first_split + s].first_child;
      stack.emplace_back(Find(child), depth + 1);
      stack.emplace_back(Find(child + 1), depth + 1);
    }
  }
  if (reached == nodes_.size()) return "";
  return "some nodes are each other's descendants: a cycle";
}

void ProofTree::Narrow(const Split& split, int side, ProofRegion& region) {
  if (split.how == kInput) {
    double& end = side == 0 ? region.upper[split.unit] : region.lower[split.unit];
    end = side == 0 ? std::min(end, split.at) : std::max(end, split.at);
  } else {
    region.phases.push_back({split.layer, split.unit, split.how == kMemberPhase, side == 1});
  }
}

ProofRegion ProofTree::RegionOf(std::uint64_t id, const Domain& domain) const {
  ProofRegion region;
  region.lower.assign(static_cast<std::size_t>(inputs_), 0.0);
  region.upper.assign(static_cast<std::size_t>(inputs_), 1.0);
  std::vector<const Node*> path;  // upwards
  for (const Node* node = &nodes_[Find(id)]; node->split != kNone;
       node = &nodes_[splits_[node->split].parent]) {
    path.push_back(node);
  }
  std::ranges::reverse(path);
  for (const Node* node : path) Narrow(splits_[node->split], node->side, region);
  if (!domain.Shrink(region.lower, region.upper)) {  // an empty region's ends cross
    region.lower.front() = 1;
    region.upper.front() = 0;
  }
  return region;
}

// ---- what the claims show together -------------------------------------------------------------

// The reach of a pair in a node is the largest number r for which it is known that no leak of the
// pair in the region has beta_upper < f <= r. It is at least beta_upper, and the pair is shown if
// it is +inf. A claim says that no leak has value < f <= most: if value <= reach, the reach is at
// least `most`. Claims of the nodes above hold here, too. An input of a region is in one of the two
// halves of a split, so the reach is at least the smaller one of the halves' reaches.
class ProofAccount {
 public:
  ProofAccount(const ProofTree& tree, std::uint64_t pairs, double beta_upper)
      : tree_(tree), beta_(beta_upper), reach_(pairs, beta_upper), claims_(pairs) {}

  // The first pair that is not shown; none: all are.
  std::optional<std::uint64_t> FindOpen() {
    const Gains root = Visit(0);
    if (root.all) return std::nullopt;
    std::uint64_t next = 0;
    for (const auto& [pair, reach] : root.pairs) {
      if (pair != next || reach != kInfinity) return next;
      ++next;
    }
    return next < reach_.size() ? std::optional(next) : std::nullopt;
  }

  // A node without splits where the pair has no claim that would do, for people; none: there may be
  // claims whose `most` is too small.
  std::optional<std::uint64_t> FindLeaf(std::uint64_t pair) const {
    std::vector<std::size_t> stack = {0};
    while (!stack.empty()) {
      const ProofTree::Node& node = tree_.nodes_[stack.back()];
      stack.pop_back();
      const auto closes = [&](const ProofTree::Claim& claim) {
        return (claim.pair == pair || claim.pair == ProofTree::kEveryPair) && claim.value <= beta_;
      };
      if (std::ranges::any_of(ClaimsOf(node), closes)) continue;
      if (node.splits == 0) return node.id;
      const std::uint64_t child = tree_.splits_[node.first_split].first_child;
      stack.push_back(tree_.Find(child));
      stack.push_back(tree_.Find(child + 1));
    }
    return std::nullopt;
  }

 private:
  // What a node's own subtree adds: every pair is shown, or these have a larger reach, by pair.
  struct Gains {
    bool all = false;
    std::vector<std::pair<std::uint64_t, double>> pairs;
    bool none() const { return !all && pairs.empty(); }
  };

  std::span<const ProofTree::Claim> ClaimsOf(const ProofTree::Node& node) const {
    return std::span(tree_.claims_).subspan(node.first_claim, node.claims);
  }

  void Lift(std::uint64_t pair, double reach) {
    if (!(reach > reach_[pair])) return;
    trail_.emplace_back(pair, reach_[pair]);
    reach_[pair] = reach;
    // Claims that did not help before may help now.
    for (bool lifted = true; lifted;) {
      lifted = false;
      for (const ProofTree::Claim* claim : claims_[pair]) {
        if (claim->value > reach_[pair] || claim->most <= reach_[pair]) continue;
        reach_[pair] = claim->most;
        lifted = true;
      }
    }
  }

  // The recursion is as deep as the tree, whose longest path FindProblem limits.
  Gains Visit(std::size_t n) {
    const ProofTree::Node& node = tree_.nodes_[n];
    const std::size_t mark = trail_.size();
    const std::span<const ProofTree::Claim> claims = ClaimsOf(node);
    for (const ProofTree::Claim& claim : claims) {
      if (claim.pair == ProofTree::kEveryPair) {
        if (claim.value <= beta_) return {true, {}};
        continue;
      }
    }
    for (const ProofTree::Claim& claim : claims) {
      if (claim.pair == ProofTree::kEveryPair) continue;
      claims_[claim.pair].push_back(&claim);
      if (claim.value <= reach_[claim.pair]) Lift(claim.pair, claim.most);
    }
    // An earlier claim may rest on what a later split shows.
    bool all = false;
    for (std::size_t s = node.splits; s-- > 0 && !all;) {
      const std::uint64_t child = tree_.splits_[node.first_split + s].first_child;
      const Gains one = Visit(tree_.Find(child));
      if (one.none()) continue;
      const Gains two = Visit(tree_.Find(child + 1));
      all = one.all && two.all;
      if (!all) LiftBoth(one, two);
    }
    Gains gains{all, {}};
    for (std::size_t t = mark; t < trail_.size(); ++t) {
      gains.pairs.emplace_back(trail_[t].first, reach_[trail_[t].first]);
    }
    std::ranges::sort(gains.pairs);
    gains.pairs.erase(std::unique(gains.pairs.begin(), gains.pairs.end()), gains.pairs.end());
    while (trail_.size() > mark) {
      reach_[trail_.back().first] = trail_.back().second;
      trail_.pop_back();
    }
    for (const ProofTree::Claim& claim : claims) {
      if (claim.pair != ProofTree::kEveryPair) claims_[claim.pair].pop_back();
    }
    return gains;
  }

  void LiftBoth(const Gains& one, const Gains& two) {
    if (one.all || two.all) {
      for (const auto& [pair, reach] : (one.all ? two : one).pairs) Lift(pair, reach);
      return;
    }
    auto a = one.pairs.begin();
    auto b = two.pairs.begin();
    while (a != one.pairs.end() && b != two.pairs.end()) {
      if (a->first == b->first) {
        Lift(a->first, std::min(a->second, b->second));
        ++a, ++b;
      } else {
        ++(a->first < b->first ? a : b);
      }
    }
  }

  const ProofTree& tree_;
  const double beta_;
  std::vector<double> reach_;                                 // of every pair, where Visit is
  std::vector<std::vector<const ProofTree::Claim*>> claims_;  // of every pair, on the way there
  std::vector<std::pair<std::uint64_t, double>> trail_;       // pairs, and their reach before
};

std::string ProofTree::FindOpenPair(const ProofShape& shape, std::int32_t label,
                                    double beta_upper) const {
  const auto others = static_cast<std::uint64_t>(shape.classes - 1);
  ProofAccount account(*this, static_cast<std::uint64_t>(shape.members) * others, beta_upper);
  const std::optional<std::uint64_t> pair = account.FindOpen();
  if (!pair) return "";
  const std::uint64_t other = *pair % others;
  std::string what = fmt::format("member {} against class {} is left open", *pair / others,
                                 other + (other >= static_cast<std::uint64_t>(label) ? 1 : 0));
  if (const auto leaf = account.FindLeaf(*pair)) what += fmt::format(" in node {}", *leaf);
  return what;
}

}  // namespace lucid
