// Everything about a training run that does not depend on which row is left out: the initial
// weights, the order of the rows, the rate of every step. All members share one plan; leaving a row
// out masks it in its batch and moves nothing else.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lucid/data/dataset.h"
#include "lucid/nn/architecture.h"
#include "lucid/train/options.h"

namespace lucid {

class TrainPlan {
 public:
  // Requires: options.Validate() is ok; the architecture fits the table. `table` must outlive the
  // plan.
  TrainPlan(const Architecture& architecture, const Table& table, const TrainOptions& options);

  const Architecture& architecture() const { return architecture_; }
  const Table& table() const { return *table_; }
  const TrainOptions& options() const { return options_; }

  // PyTorch's default: weights and biases uniform in +-1/sqrt(taps).
  std::span<const float> initial() const { return initial_; }

  std::int64_t batches_per_epoch() const { return batches_; }
  // The order of all rows in one epoch: drawn from the seed and the epoch, not from who is left
  // out. (Drawn again by whoever needs it: kept for all epochs it would grow with epochs * rows.)
  void Order(std::int64_t epoch, std::vector<std::int32_t>& order) const;
  // The rows of one batch, in the order in which they are summed: alike rows side by side
  // (RankRows). The kernels skip what is zero in a few neighbouring rows at once, and alike rows
  // have their zeros in the same places.
  std::span<const std::int32_t> Batch(std::span<const std::int32_t> order,
                                      std::int64_t batch) const;
  float Rate(std::int64_t epoch, std::int64_t batch) const;

 private:
  Architecture architecture_;
  const Table* table_;
  TrainOptions options_;
  std::int64_t batches_;
  std::vector<std::int32_t> ranked_;  // all rows, alike ones side by side
  std::vector<float> initial_;
};

}  // namespace lucid
