// Do the claims of a proof, if each is true, show the bounds in a file that a guard reads?
#pragma once

#include <cstdint>
#include <string>

#include "certificate/member_table.h"
#include "check/proof_tree.h"
#include "lucid/certificate/spatial.h"

namespace lucid {

// Every member's bound against every other class, by claims about the whole of [0,1]^d. Empty if
// they do; else a member that they leave open. Requires: FindProblem found none; a table of
// shape.members.
std::string FindOpenMember(const ProofTree& proof, const ProofShape& shape, std::int32_t label,
                           const RankedMembers& members);

// The bound of every box, for every pair: by beta_upper, or by claims about the box or about boxes
// around it. The proof's splits have to be the cuts that lead to the box; it need not have all of
// them. Empty if they do; else a box and a pair that they leave open. Requires: FindProblem found
// none; a tree that SpatialBounds::Parse accepted.
std::string FindOpenBox(const ProofTree& proof, const ProofShape& shape, std::int32_t label,
                        double beta_upper, const SpatialBounds::Tree& boxes);

}  // namespace lucid
