// Trains a group of networks at once, one network per SIMD lane.
//
// Every lane does exactly the arithmetic of a plain scalar loop over its own network (tests hold it
// to that, bit for bit), so a member's weights depend neither on the group it was trained in, nor
// on the number of lanes, nor on the instruction set: AVX-512, AVX2 and the portable path give the
// same file.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/train/instruction_set.h"
#include "train/plan.h"

namespace lucid {

inline constexpr std::int64_t kNoRow = -1;  // leave nothing out: N itself

std::vector<InstructionSet> AvailableInstructionSets();  // on this machine, best first; never empty

class GroupTrainer {
 public:
  // `plan` must outlive the trainer. Requires: `set` is available.
  GroupTrainer(const TrainPlan& plan, InstructionSet set);

  int lanes() const { return lanes_; }

  // Trains network k without the unit of row left_out[k] (or kNoRow) into out[k * parameters ...].
  // Requires: 1 <= left_out.size() <= lanes(). Thread-safe: one trainer serves all threads. Errors:
  // kInterrupted when stopped (between batches); kInvalidInput when a network's weights are no
  // longer finite. A private network may have such weights, and the caller has to look.
  Status Train(std::span<const std::int64_t> left_out, std::span<float> out,
               std::stop_token stop = {}) const;

  // What a clipped or private step sums at these weights, in grid units and before noise, without
  // the unit of row left_out[k] (or kNoRow), into out[k * parameters ...]: the very sums that Train
  // takes. Requires: as Train; a plan that clips. Thread-safe.
  Status StepSums(std::span<const float> weights, std::int64_t step,
                  std::span<const std::int64_t> left_out, std::span<std::int32_t> out) const;

 private:
  // A unit of the plan per lane; surplus lanes repeat the first. Errors: sizes that do not fit.
  Result<std::vector<std::int64_t>> UnitsOfLanes(std::span<const std::int64_t> left_out,
                                                 std::size_t outputs) const;

  const TrainPlan* plan_;
  InstructionSet set_;
  int lanes_;
};

}  // namespace lucid
