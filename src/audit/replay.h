// A private training by other code than the trainer's, from docs/training.md and the run's secret:
// who is in which step, the noise, the numbers of clipping. With ScalarTrainer it gives N again, to
// the bit, or the run is not what it says.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lucid/data/dataset.h"
#include "lucid/nn/architecture.h"
#include "lucid/train/options.h"
#include "random/secret_stream.h"
#include "train/scalar_trainer.h"

namespace lucid {

class PrivateReplay {
 public:
  // Requires: resolved options of the method kPrivate. All arguments must outlive it.
  PrivateReplay(const Architecture& architecture, const Table& table, const TrainOptions& options,
                const Secret& secret);
  PrivateReplay(const PrivateReplay&) = delete;
  PrivateReplay& operator=(const PrivateReplay&) = delete;

  // For ScalarTrainer; lives as long as this.
  const ScalarPlan& plan() const { return plan_; }

  // What one unit may change of a step's integer sum, as docs/training.md charges it.
  double sensitivity() const { return plan_.clipping->sensitivity; }
  double sampling_rate() const { return sampling_rate_; }  // threshold / 2^64, rounded up
  // What one unit may change of the moments of the inputs.
  double moment_sensitivity() const;
  std::int64_t squared_moment_sensitivity() const;

 private:
  void SetNumbers();
  void RankRows();
  void StandardiseInputs();
  std::vector<float> InitialWeights() const;
  std::span<const std::int32_t> Rows(std::int64_t step);
  std::span<const std::int32_t> Noise(std::int64_t step);

  const Architecture& architecture_;
  const Table& table_;
  const TrainOptions& options_;
  const Secret& secret_;
  ScalarPlan plan_;
  std::vector<Digest> unit_keys_;  // of each row
  std::vector<std::int32_t> ranked_;
  bool everybody_ = false;
  std::uint64_t threshold_ = 0;
  double sampling_rate_ = 1;
  std::vector<std::int32_t> rows_, noise_;
};

}  // namespace lucid
