// Everything about a training run that does not depend on which unit is left out: the initial
// weights, who is in which step, the rate and the noise of every step. All members share one plan.
// The plan reads rows by their keys, so leaving a unit out moves nothing else: a member is what
// training without the unit's rows gives, to the bit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lucid/data/dataset.h"
#include "lucid/data/units.h"
#include "lucid/nn/architecture.h"
#include "lucid/train/options.h"
#include "random/secret_stream.h"
#include "random/wiped_vector.h"
#include "train/clipping.h"
#include "train/standardise.h"

namespace lucid {

class TrainPlan {
 public:
  // Requires: resolved options; the architecture fits the table; a secret if and only if the method
  // is kPrivate. `table` must outlive the plan, which stays where it is.
  TrainPlan(const Architecture& architecture, const Table& table, const TrainOptions& options,
            std::optional<Secret> secret = {});
  // The same where the keys of the rows are known. (A test of rule R plants faults in them.)
  TrainPlan(const Architecture& architecture, const Table& table, const TableKeys& keys,
            const TrainOptions& options, std::optional<Secret> secret = {});

  TrainPlan(const TrainPlan&) = delete;
  TrainPlan& operator=(const TrainPlan&) = delete;

  const Architecture& architecture() const { return architecture_; }
  const Table& table() const { return *table_; }
  const TrainOptions& options() const { return options_; }
  // Only the methods kClipped and kPrivate have it.
  const std::optional<Clipping>& clipping() const { return clipping_; }

  // Only options that standardise have it.
  const std::optional<InputMoments>& moments() const { return moments_; }

  // PyTorch's default: weights and biases uniform in +-1/sqrt(taps).
  std::span<const float> initial() const { return initial_; }

  // The number of a row's unit. Numbers name units within this plan only.
  std::int32_t UnitOf(std::int64_t row) const { return unit_of_[static_cast<std::size_t>(row)]; }

  std::int64_t largest_unit() const { return largest_unit_; }  // in rows

  std::int64_t steps() const { return steps_; }
  std::int64_t batches_per_epoch() const { return options_.batches; }
  float Rate(std::int64_t step) const;
  // Whether the weights after this step are part of the averaged result: those at the end of each
  // of the last epochs, counted from the last step backwards.
  bool IsAveraged(std::int64_t step) const;

 private:
  friend class PlanReader;
  friend class PlanWithFaults;  // of tests: what an audit has to find

  // The rows of steps first .. first + count - 1, in the order in which they are summed; `starts`
  // gets the place of each step's first row, and the end.
  void List(std::int64_t first, std::int64_t count, WipedVector<std::int32_t>& rows,
            std::vector<std::size_t>& starts) const;
  WipedVector<std::int64_t> NoiseOfMoments() const;
  void Draw(std::int64_t step, std::span<std::int32_t> noise) const;

  Architecture architecture_;
  const Table* table_;
  TrainOptions options_;
  std::optional<Clipping> clipping_;
  std::optional<InputMoments> moments_;
  std::optional<Sampling> sampling_;  // kPrivate
  std::optional<Secret> secret_;
  std::int64_t steps_ = 0, largest_unit_ = 0;
  std::vector<std::int32_t> ranked_;   // all rows, alike ones side by side
  std::vector<std::int32_t> unit_of_;  // of each row
  std::vector<Digest> unit_keys_;      // of each unit
  std::vector<float> initial_;
  // Made once where they fit: the lists of all steps, the noise of all steps. Of a private training
  // both are as secret as what they are made from.
  WipedVector<std::int32_t> lists_;
  std::vector<std::size_t> starts_;
  WipedVector<std::int32_t> noise_;
};

// Reads a plan step by step. What is too large to be kept for all steps is made again by every
// reader. Not thread-safe: one reader per thread.
class PlanReader {
 public:
  explicit PlanReader(const TrainPlan& plan) : plan_(plan) {}

  // The rows of a step in the order in which they are summed: the rows of a unit together, alike
  // units side by side. The kernels skip what is zero in a few neighbouring rows at once, and alike
  // rows have their zeros in the same places. Valid until the next call.
  std::span<const std::int32_t> Rows(std::int64_t step);
  // The noise of a private step in grid units, one number per parameter. Valid until the next call.
  std::span<const std::int32_t> Noise(std::int64_t step);

 private:
  const TrainPlan& plan_;
  std::int64_t first_ = -1;  // step of the lists below
  WipedVector<std::int32_t> rows_, noise_;
  std::vector<std::size_t> starts_;
};

}  // namespace lucid
