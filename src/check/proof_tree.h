// The tree of a proof, class by class, without its multipliers: which regions there are, and do the
// claims about them, if each is true, show the class's bound for every pair (member, other class)?
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "certificate/proof_reader.h"
#include "check/proof_region.h"
#include "lucid/base/result.h"
#include "lucid/data/domain.h"
#include "lucid/nn/architecture.h"

namespace lucid {

// What a proof has to fit.
struct ProofShape {
  ProofShape(const Architecture& architecture, std::int64_t ensemble_members, Domain inputs_domain);

  std::int64_t inputs = 0, classes = 0, members = 0;
  std::vector<std::int64_t> hidden;     // units of each hidden layer
  std::int64_t lines = 0, moments = 0;  // multipliers of a closing of these kinds
  std::int64_t tilts = 0;               // of a round of windows; 0: there are no windows
  Domain domain;
};

class ProofTree {
 public:
  std::size_t splits() const { return splits_.size(); }
  std::size_t closings() const { return claims_.size(); }
  bool empty() const { return splits_.empty() && claims_.empty(); }

  // Connects nodes to their parents. Empty if all is well; else which node is wrong and why: one
  // with two parents (a cycle has one), one that nothing leads to, a way that is too long.
  std::string FindProblem();
  // Do the claims show that nothing leaks above beta_upper? Empty if they do; else a pair that they
  // leave open. Requires: FindProblem found none. docs/proof.md has the rule.
  std::string FindOpenPair(const ProofShape& shape, std::int32_t label, double beta_upper) const;

  // The region that the path from the root leads to, no larger than the inputs of the domain there.
  // Requires: FindProblem found none; the node of this id is there.
  ProofRegion RegionOf(std::uint64_t id, const Domain& domain) const;

 private:
  friend Result<std::vector<ProofTree>> ReadProofTrees(std::span<const ProofFile>,
                                                       const ProofShape&, const std::stop_token&);
  friend class ProofAccount;
  friend class ClaimsOnTheWay;
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  static constexpr std::size_t kLongestWay = 4000;  // no search goes as deep
  static constexpr std::uint64_t kEveryPair = static_cast<std::uint64_t>(-1);

  struct Node {
    std::uint64_t id = 0;
    std::size_t split = kNone;  // that it is a child of; none for the root
    std::int8_t side = 0;
    std::size_t first_split = 0, splits = 0;  // of itself
    std::size_t first_claim = 0, claims = 0;
  };
  struct Split {
    std::uint64_t node = 0, first_child = 0;  // ids
    double at = 0;
    std::int32_t layer = 0, unit = 0;
    ProofSplit::How how = ProofSplit::How::kInput;
    std::size_t parent = kNone;  // the node as an index
  };
  // What is claimed of a pair in a node: no leak of the pair there has value < f <= most.
  struct Claim {
    std::uint64_t node = 0;  // id
    std::uint64_t pair = 0;  // member * (classes - 1) + other, counted without the label
    double value = 0, most = 0;
  };

  std::size_t Find(std::uint64_t id) const;  // kNone: there is none
  static void Narrow(const Split& split, int side, ProofRegion& region);

  std::int64_t inputs_ = 0;
  std::vector<Node> nodes_;    // by id
  std::vector<Split> splits_;  // by node; of one node, in the file's order
  std::vector<Claim> claims_;  // by node
};

// Reads all records of the files once, and checks each against the shape and against the files' own
// counts: a tree per class. Errors: as ReadBlock; what does not fit; kInterrupted.
Result<std::vector<ProofTree>> ReadProofTrees(std::span<const ProofFile> files,
                                              const ProofShape& shape, const std::stop_token& stop);

}  // namespace lucid
