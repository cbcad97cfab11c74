// Where a region is cut: what each cut would do to the pair with the largest bound is tried out,
// and the best one is taken.
#pragma once

#include <cstdint>
#include <optional>

#include "native/region_parts.h"
#include "native/region_work.h"

namespace lucid::region_search {

// It serves one class. Its functions may run on several threads, each with a worker of its own.
class RegionCutter {
 public:
  // Keeps references.
  RegionCutter(const RegionWork& work, const Network& network, std::int32_t label,
               const RegionSearchOptions& options)
      : work_(work), network_(network), label_(label), options_(options) {}

  // The pair of the node with the largest bound.
  static std::size_t WorstOf(const RegionNode& node);
  // Chooses how to cut by what it does to the worst pair.
  Expansion Expand(const RegionNode& node, Worker& worker) const;

 private:
  // Climbs from expansion.point, where the bound of the worker's member is largest: a new witness
  // raises the target.
  void TryPoint(Worker& worker, Expansion& expansion) const;
  std::optional<SplitAdvice> Advise(const RegionNode& node, const RegionPair& worst,
                                    Multipliers& multipliers, Worker& worker,
                                    Expansion& expansion) const;
  static std::int32_t InputToCut(std::int32_t advised, const Box& box);
  Cut TryCut(const RegionNode& node, const RegionPair& worst, const Multipliers& multipliers,
             const ProofSplit& how, Worker& worker) const;

  const RegionWork& work_;
  const Network& network_;
  const std::int32_t label_;
  const RegionSearchOptions& options_;
};

}  // namespace lucid::region_search
