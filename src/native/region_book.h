// The books of a region search: the regions that wait, the account of every pair, and the proof. A
// pair leaves a region only through a function of this class, which enters it in all three.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "native/proof_log.h"
#include "native/region_parts.h"
#include "native/region_state.h"
#include "native/region_work.h"

namespace lucid::region_search {

// It serves one class, and is not thread-safe.
class RegionBook {
 public:
  // Keeps references. The workers, one per thread, compute what the proof's checker will find.
  RegionBook(const RegionSearchOptions& options, std::int32_t label, const RegionWork& work,
             const std::vector<std::unique_ptr<Worker>>& workers);

  RegionState state;
  ProofLog log;

  // Starts where a saved search was. If `saved` is empty, every pair of every class is open over
  // the whole domain with the bound `ceiling`.
  Status Begin(const std::string& saved, const Architecture& architecture, const SearchTask& task,
               double ceiling);

  void Push(RegionNode node);
  RegionNode Pop();  // the region of largest bound

  // A pair is closed by its bound in a region.
  void Close(const Outcome& outcome);
  // Closes a pair by the bound that it has. With bands nothing was looked at below the target, so
  // that the target counts where the bound is smaller.
  void ClosePair(RegionPair pair, Account::Reason reason = Account::Reason::kBound);
  // Closes a pair because no input of the region, whose place in the proof this is, is in question.
  // `band`: the confidences that this is said of. False: the checker would not find the region
  // empty, and the pair stays as it is.
  bool CloseEmpty(RegionPair pair, const Region& region, std::uint64_t place,
                  const std::optional<ProofBand>& band);
  void CloseEmptyOrGiveUp(const RegionPair& pair, const RegionNode& node);
  // A region that is not looked at any more: its bound counts as it is.
  void GiveUp(RegionNode& node);
  void GiveUp(const RegionPair& pair);
  // Gives up the regions of smallest bound, down to half of the memory that is allowed.
  void FreeMemory();
  // This is called after the regions that wait have changed.
  void CountMemory();

  // A pair whose bound nothing in the proof shows (of a saved search, or one that ended before the
  // first bounds) is bounded again; what is found counts.
  void FindReasons(RegionNode& node);
  void FindReasonsOfAll();  // on all threads
  // Everything that waits has its bound in the proof, too. So a saved search does not have to keep
  // claims, and one that goes on has the bounds that it had.
  void ProveWaiting();

  // A region like the node's, for some of its pairs.
  RegionNode SameRegion(const RegionNode& node);
  // The pair as one of the two parts of its region has it.
  static RegionPair PartOf(RegionPair pair, int side);
  static void AddAlive(const RegionPair& pair, RegionNode& node);

 private:
  void FindReasons(const RegionNode& node, std::span<RegionPair> pairs, Worker& worker) const;
  void Confirm(PairProof& why) const;

  const RegionSearchOptions& options_;
  const RegionWork& work_;
  const std::vector<std::unique_ptr<Worker>>& workers_;
  Worker& worker_;           // the first
  std::int64_t memory_ = 0;  // of state.open
};

}  // namespace lucid::region_search
