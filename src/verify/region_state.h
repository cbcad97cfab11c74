// What a region search still has to look at, in memory and as bytes for a resume.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bounds/region_bounder.h"
#include "lucid/base/result.h"
#include "lucid/certificate/proof.h"
#include "lucid/nn/network.h"

namespace lucid {

// A member that may give class `other` at least as much as the class in question.
struct RegionPair {
  std::int32_t member = 0, other = 0;
  double bound = 0;  // proved, of the confidence at which it leaks in the region
  float lambda = 1;  // where the next search for multipliers starts
};

// A region that waits, with the pairs that are alive in it.
struct RegionNode {
  double bound = 0;  // the largest of its pairs
  std::uint64_t id = 0;
  Region region;
  std::vector<RegionPair> alive;
  Multipliers multipliers;  // of its worst pair; not saved
  bool closer = false;      // a box of one pair, bounded and cut by itself (closer_bounder.h)
  std::vector<float> closer_multipliers;  // of its only pair; not saved
  std::int32_t cut = -1;                  // the input to cut; -1: not bounded yet; not saved
  std::vector<ProofClosing> closings;     // only while a proof is written; not saved

  std::int64_t Bytes() const;
  // Of two regions, the one to look at first is the larger; ids make the order total.
  bool operator<(const RegionNode& other) const {
    return bound != other.bound ? bound < other.bound : id > other.id;
  }
};

struct RegionState {
  std::vector<RegionNode> open;  // a heap: the largest bound is at the front
  std::uint64_t next_id = 1;
  double closed = 0;  // the largest bound of what was closed or given up
  std::int64_t regions = 0, bounds = 0, pruned_by_screen = 0, pruned_at_root = 0, dropped = 0;

  double LargestBound(const RegionPair& pair) const;  // in all regions that wait
  // In all of them the pair's bound is at most this. 0: it is taken out, for another region waits
  // for it that holds all of these.
  void Limit(const RegionPair& pair, double bound);
};

std::string EncodeRegionState(const RegionState& state);
// Errors: bytes that EncodeRegionState did not write for this architecture and number of members.
Status DecodeRegionState(const std::string& bytes, const Architecture& architecture,
                         std::int64_t members, RegionState& state);

}  // namespace lucid
