// The tree of a proof, class by class, without its multipliers: do the leaves cover the domain, and
// is every pair (member, other class) closed on every way down?
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "certificate/proof_reader.h"
#include "certificate/proof_region.h"
#include "lucid/base/result.h"
#include "lucid/data/domain.h"
#include "lucid/nn/architecture.h"

namespace lucid {

// What a proof has to fit.
struct ProofShape {
  ProofShape(const Architecture& architecture, std::int64_t ensemble_members, Domain inputs_domain);

  std::int64_t inputs = 0, classes = 0, members = 0;
  std::vector<std::int64_t> hidden;  // units of each hidden layer
  std::int64_t duals = 0;            // multipliers of a closing
  Domain domain;
};

class ProofTree {
 public:
  // A child that is not in the file, of a node below which something is still to be shown.
  struct Missing {
    std::size_t node = 0;
    int side = 0;
  };

  std::size_t nodes() const { return nodes_.size(); }
  std::size_t closings() const { return pairs_.size(); }
  std::uint64_t IdOf(std::size_t node) const { return nodes_[node].id; }
  // Requires: ProblemOf was asked and found none.
  std::span<const Missing> missing() const { return missing_; }
  // Where the path from the root leads: no larger than the inputs of the domain there. Requires: as
  // above.
  ProofRegion RegionOf(std::size_t node, const Domain& domain) const;
  ProofRegion ChildRegion(std::size_t node, int side, const Domain& domain) const;
  // The node of this id. Requires: it is there.
  std::size_t Find(std::uint64_t id) const;

  // Connects nodes to their parents and follows every pair down. Empty if all is well; else which
  // node is wrong and why: an id there twice or that nothing leads to, a node with two parents (a
  // cycle has one), a pair closed twice on one way, a leaf that leaves a pair open.
  std::string FindProblem(const ProofShape& shape, std::int32_t label);

 private:
  friend Result<std::vector<ProofTree>> ReadProofTrees(const ProofFile&, const ProofShape&,
                                                       const std::stop_token&);
  static constexpr std::size_t kNoNode = static_cast<std::size_t>(-1);
  struct Node {
    std::uint64_t id = 0, first_child = 0;
    double at = 0;
    std::size_t parent = kNoNode;
    std::size_t first_pair = 0, pairs = 0;
    std::int32_t layer = 0, unit = 0;
    ProofNode::Split split = ProofNode::Split::kNone;
    std::int8_t side = -1;  // of its parent; -1: nothing leads here
  };

  std::size_t FindOrNone(std::uint64_t id) const;
  std::string Link();
  std::string FollowPairs(const ProofShape& shape, std::int32_t label);
  ProofRegion PathTo(std::size_t node) const;
  void Narrow(const Node& node, int side, ProofRegion& region) const;
  std::string NameOfPair(std::uint64_t pair, const ProofShape& shape, std::int32_t label) const;

  std::int64_t inputs_ = 0;
  std::vector<Node> nodes_;           // by id, once linked
  std::vector<std::uint64_t> pairs_;  // member * (classes - 1) + other, counted without the label
  std::vector<Missing> missing_;
};

// Reads all records once, and checks each against the shape and against the file's own counts: a
// tree per class. Errors: as ReadBlock; what does not fit; kInterrupted.
Result<std::vector<ProofTree>> ReadProofTrees(const ProofFile& file, const ProofShape& shape,
                                              const std::stop_token& stop);

}  // namespace lucid
