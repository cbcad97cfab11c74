// What a region search still has to look at, in memory and as bytes for a resume.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/data/domain.h"
#include "lucid/nn/network.h"
#include "native/account.h"
#include "pair/region_bounder.h"

namespace lucid {

// What a search is about. A saved search is refused where any of it is different.
struct SearchTask {
  std::int32_t label = 0;  // the class in question
  std::int64_t members = 0;
  double member_error = 0;  // of the constraint g <= member_error
  Digest network;           // Network::digest()
  Box root;                 // holds the domain
  DomainKind domain = DomainKind::kBox;
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
  std::uint64_t place = 0;                // its node in the proof

  std::int64_t Bytes() const;
  void CountBound();  // is called after bounds of its pairs have changed
  // The larger of two regions is the one to look at first; ids make the order total.
  bool operator<(const RegionNode& other) const {
    return bound != other.bound ? bound < other.bound : id > other.id;
  }
};

struct RegionState {
  RegionState() = default;
  // All pairs wait in the root, each with this bound.
  RegionState(const SearchTask& task, std::int64_t classes, double bound);

  Account account;
  std::vector<RegionNode> open;  // a heap: the largest bound is at the front
  bool screened = false;         // the pairs were bounded over the whole domain
  double target = 0;             // the largest by now
  std::uint64_t next_id = 1;
  std::int64_t regions = 0, bounds = 0, pruned_by_screen = 0, pruned_at_root = 0, dropped = 0;

  // Every pair of every region that waits.
  std::vector<RegionPair> Waiting() const;
  // The largest bound of the pair in all regions that wait.
  double LargestBound(const RegionPair& pair) const;
  // Lowers the pair's bound in all of them to what it is in `pair`, which holds in each of them.
  void Limit(const RegionPair& pair);
  // Takes the pair out of all of them; returns the sum of its shares there.
  std::uint64_t Withdraw(const RegionPair& pair);

 private:
  void Restore();  // the heap, after bounds or pairs have changed
};

std::string EncodeRegionState(const RegionState& state, const SearchTask& task);
// Errors: kMismatch for the state of another task, kInvalidInput for bytes that EncodeRegionState
// did not write or whose account does not balance.
Status DecodeRegionState(const std::string& bytes, const Architecture& architecture,
                         const SearchTask& task, RegionState& state);

}  // namespace lucid
