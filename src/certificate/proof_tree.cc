#include "certificate/proof_tree.h"

#include <fmt/format.h>

#include <algorithm>

namespace lucid {
namespace {

using enum ProofNode::Split;

// Empty, or why this node cannot be one of a network of this shape.
std::string MisfitOf(const ProofNode& node, const ProofShape& shape) {
  if (node.split == kNone) return "";
  const auto layers = static_cast<std::int64_t>(shape.hidden.size());
  if (node.split != kInput && node.layer >= layers) {
    return fmt::format("it splits layer {}, there are {}", node.layer, layers);
  }
  const std::int64_t units = node.split == kInput ? shape.inputs : shape.hidden[node.layer];
  if (node.unit >= units) {
    return fmt::format("it splits {} {}, there are {}", node.split == kInput ? "input" : "unit",
                       node.unit, units);
  }
  return "";
}

std::string MisfitOf(const ProofClosing& closing, std::int32_t label, const ProofShape& shape) {
  if (closing.member >= shape.members) {
    return fmt::format("it closes member {}, there are {}", closing.member, shape.members);
  }
  if (closing.other >= shape.classes || closing.other == label) {
    return fmt::format("it closes class {} against {}", label, closing.other);
  }
  if (!closing.empty && (closing.below >= shape.classes || closing.below == label)) {
    return fmt::format("it measures class {} against {}", label, closing.below);
  }
  const auto duals = static_cast<std::int64_t>(closing.dual.size());
  if (!closing.empty && duals != shape.duals) {
    return fmt::format("member {} has {} multipliers, a network of this run has {}", closing.member,
                       duals, shape.duals);
  }
  return "";
}

// An empty region's ends cross.
void ShrinkTo(const Domain& domain, ProofRegion& region) {
  if (domain.Shrink(region.lower, region.upper)) return;
  region.lower.front() = 1;
  region.upper.front() = 0;
}

}  // namespace

ProofShape::ProofShape(const Architecture& architecture, std::int64_t ensemble_members,
                       Domain inputs_domain)
    : inputs(architecture.inputs()),
      classes(architecture.classes()),
      members(ensemble_members),
      domain(std::move(inputs_domain)) {
  const auto layers = architecture.layers();
  for (std::size_t m = 0; m + 1 < layers.size(); ++m) {
    hidden.push_back(layers[m].outputs);
    duals += 2 * layers[m].outputs;
  }
}

Result<std::vector<ProofTree>> ReadProofTrees(const ProofFile& file, const ProofShape& shape,
                                              const std::stop_token& stop) {
  std::vector<ProofTree> trees(static_cast<std::size_t>(shape.classes));
  for (ProofTree& tree : trees) tree.inputs_ = shape.inputs;
  std::int32_t label = -1;
  std::uint64_t id = 0, nodes = 0, closings = 0, expected = 0;
  const auto wrong = [&](const ProofPart& part, const std::string& why) {
    return Mismatch(
        fmt::format("{}: class {}, node {}: {}", file.source(), part.label, part.node.id, why));
  };
  for (std::size_t block = 0; block < file.blocks(); ++block) {
    if (stop.stop_requested()) return Interrupted("stopped while the proof was read");
    LUCID_ASSIGN(const std::vector<ProofPart> parts, file.ReadBlock(block));
    for (const ProofPart& part : parts) {
      ProofTree& tree = trees[part.label];
      const ProofNode& node = part.node;
      if (part.begins) {
        if (expected != 0) return wrong(part, "the node before it has fewer closings than it says");
        if (const std::string why = MisfitOf(node, shape); !why.empty()) return wrong(part, why);
        tree.nodes_.push_back({node.id, node.first_child, node.at, ProofTree::kNoNode,
                               tree.pairs_.size(), part.closings, node.layer, node.unit, node.split,
                               -1});
        label = part.label, id = node.id, expected = part.closings;
        ++nodes;
      } else if (part.label != label || node.id != id) {
        return wrong(part, "closings of a node that did not come before them");
      }
      if (node.closings.size() > expected) return wrong(part, "more closings than it says");
      expected -= node.closings.size();
      closings += node.closings.size();
      for (const ProofClosing& closing : node.closings) {
        const std::string why = MisfitOf(closing, part.label, shape);
        if (!why.empty()) return wrong(part, why);
        const std::int64_t other = closing.other - (closing.other > part.label ? 1 : 0);
        tree.pairs_.push_back(
            static_cast<std::uint64_t>(closing.member * (shape.classes - 1) + other));
      }
    }
  }
  if (expected != 0 || nodes != file.nodes() || closings != file.closings()) {
    return Mismatch(fmt::format("{}: {} nodes and {} closings, its end says {} and {}",
                                file.source(), nodes, closings, file.nodes(), file.closings()));
  }
  return trees;
}

std::size_t ProofTree::FindOrNone(std::uint64_t id) const {
  const auto at = std::ranges::lower_bound(nodes_, id, {}, &Node::id);
  return at != nodes_.end() && at->id == id ? static_cast<std::size_t>(at - nodes_.begin())
                                            : kNoNode;
}

std::size_t ProofTree::Find(std::uint64_t id) const { return FindOrNone(id); }

std::string ProofTree::FindProblem(const ProofShape& shape, std::int32_t label) {
  std::string problem = Link();
  return problem.empty() ? FollowPairs(shape, label) : problem;
}

// Every node but the root has one parent, so that what is reached from the root is a tree; what is
// on a cycle is not reached, which FollowPairs finds.
std::string ProofTree::Link() {
  std::ranges::sort(nodes_, {}, &Node::id);
  for (std::size_t n = 1; n < nodes_.size(); ++n) {
    if (nodes_[n].id == nodes_[n - 1].id)
      return fmt::format("node {} is there twice", nodes_[n].id);
  }
  if (nodes_.front().id != 0) return "there is no node 0, the root";
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].split == kNone) continue;
    for (int side = 0; side < 2; ++side) {
      const std::size_t child = FindOrNone(nodes_[n].first_child + static_cast<unsigned>(side));
      if (child == kNoNode) continue;
      if (child == 0) return fmt::format("node {} has the root as its child", nodes_[n].id);
      if (nodes_[child].parent != kNoNode) {
        return fmt::format("node {} is a child of both node {} and node {}", nodes_[child].id,
                           nodes_[nodes_[child].parent].id, nodes_[n].id);
      }
      nodes_[child].parent = n;
      nodes_[child].side = static_cast<std::int8_t>(side);
    }
  }
  return "";
}

std::string ProofTree::NameOfPair(std::uint64_t pair, const ProofShape& shape,
                                  std::int32_t label) const {
  const auto others = static_cast<std::uint64_t>(shape.classes - 1);
  const std::uint64_t other = pair % others;
  return fmt::format("member {} against class {}", pair / others,
                     other + (other >= static_cast<std::uint64_t>(label) ? 1 : 0));
}

// Depth first: on the way down a node's pairs are marked as closed, on the way up no longer.
std::string ProofTree::FollowPairs(const ProofShape& shape, std::int32_t label) {
  const auto all = static_cast<std::uint64_t>(shape.members * (shape.classes - 1));
  std::vector<bool> closed(all, false);
  std::uint64_t open = all;
  std::size_t reached = 0;
  struct Step {
    std::size_t node;
    bool down;
  };
  std::vector<Step> stack = {{0, true}};
  while (!stack.empty()) {
    const auto [n, down] = stack.back();
    stack.pop_back();
    const Node& node = nodes_[n];
    const auto pairs = std::span(pairs_).subspan(node.first_pair, node.pairs);
    if (!down) {
      for (const std::uint64_t pair : pairs) closed[pair] = false;
      open += pairs.size();
      continue;
    }
    ++reached;
    for (const std::uint64_t pair : pairs) {
      if (closed[pair]) {
        return fmt::format("node {} closes {}, which is closed already", node.id,
                           NameOfPair(pair, shape, label));
      }
      closed[pair] = true;
    }
    open -= pairs.size();
    stack.push_back({n, false});
    if (node.split == kNone) {
      if (open == 0) continue;
      const auto pair = std::ranges::find(closed, false) - closed.begin();
      return fmt::format("node {} is a leaf and leaves {} open", node.id,
                         NameOfPair(static_cast<std::uint64_t>(pair), shape, label));
    }
    for (int side = 0; side < 2; ++side) {
      const std::size_t child = FindOrNone(node.first_child + static_cast<unsigned>(side));
      if (child != kNoNode) {
        stack.push_back({child, true});
      } else if (open > 0) {
        missing_.push_back({n, side});
      }
    }
  }
  if (reached == nodes_.size()) return "";
  const auto lost = std::ranges::find_if(
      nodes_, [&](const Node& node) { return node.parent == kNoNode && &node != &nodes_.front(); });
  return lost == nodes_.end() ? "some nodes are each other's descendants: a cycle"
                              : fmt::format("nothing leads to node {}", lost->id);
}

void ProofTree::Narrow(const Node& node, int side, ProofRegion& region) const {
  if (node.split == kInput) {
    double& end = side == 0 ? region.upper[node.unit] : region.lower[node.unit];
    end = side == 0 ? std::min(end, node.at) : std::max(end, node.at);
  } else {
    region.phases.push_back({node.layer, node.unit, node.split == kMemberPhase, side == 1});
  }
}

ProofRegion ProofTree::ChildRegion(std::size_t node, int side, const Domain& domain) const {
  ProofRegion region = PathTo(node);
  Narrow(nodes_[node], side, region);
  ShrinkTo(domain, region);
  return region;
}

ProofRegion ProofTree::RegionOf(std::size_t node, const Domain& domain) const {
  ProofRegion region = PathTo(node);
  ShrinkTo(domain, region);
  return region;
}

ProofRegion ProofTree::PathTo(std::size_t node) const {
  ProofRegion region;
  region.lower.assign(static_cast<std::size_t>(inputs_), 0.0);
  region.upper.assign(static_cast<std::size_t>(inputs_), 1.0);
  std::vector<std::size_t> path;  // upwards
  for (std::size_t n = node; nodes_[n].parent != kNoNode; n = nodes_[n].parent) path.push_back(n);
  std::ranges::reverse(path);
  for (const std::size_t n : path) Narrow(nodes_[nodes_[n].parent], nodes_[n].side, region);
  return region;
}

}  // namespace lucid
