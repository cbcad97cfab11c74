// T by its definition: a plain scalar loop over one network. The kernels must give the same bits
// (a test), and the audit repeats a private training with it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lucid/data/dataset.h"
#include "lucid/nn/architecture.h"
#include "lucid/train/options.h"
#include "train/clipping.h"
#include "train/standardise.h"

namespace lucid {

// Everything that T is told beside the rows. Views must live as long as the trainer.
struct ScalarPlan {
  const Architecture& architecture;
  const Table& table;
  const TrainOptions& options;
  std::optional<Clipping> clipping;  // of the methods kClipped and kPrivate
  std::vector<float> initial;
  std::vector<std::int32_t> unit_of;  // of each row
  std::int64_t steps = 0;
  std::function<float(std::int64_t step)> rate;
  std::function<bool(std::int64_t step)> is_averaged;
  // The rows of a step in the order of their sums, those of a unit together; the noise of a private
  // step. Used until the next call.
  std::function<std::span<const std::int32_t>(std::int64_t step)> rows, noise;
  std::optional<Standardisation> inputs = {};  // where the options standardise
};

class ScalarTrainer {
 public:
  explicit ScalarTrainer(const ScalarPlan& plan);

  // Takes the next step. Requires: fewer than plan.steps were taken.
  void Step();
  // The weights now, on inputs that are standardised where they are: before the first step the
  // initial ones.
  std::span<const float> weights() const { return w_; }
  // What the training gives after its last step.
  std::vector<float> Result() const;

  // Takes all steps.
  std::vector<float> Train();

 private:
  using Values = std::vector<float>;
  // What one row leaves in every layer: its inputs, and the derivatives by its sums.
  struct Trace {
    std::vector<Values> in, delta;
  };

  void AddRow(std::int32_t row, float weight);
  Trace TraceOf(std::int32_t row, float weight) const;
  Values Apply(const Layer& layer, const Values& in) const;
  static Values LossGradient(Values z, std::int32_t label, float weight);
  static void AddGradient(const Layer& layer, const Values& in, const Values& delta, Values& sum);
  Values InputGradient(const Layer& layer, const Values& in, const Values& delta) const;
  Values FilterGradient(std::size_t l, const std::vector<Trace>& traces) const;
  void AddClipped(std::span<const std::int32_t> rows);
  // 0: the unit's norm is not finite, and it adds nothing.
  float FactorOf(const std::vector<Trace>& traces) const;
  void AddToIntegers(std::size_t l, const std::vector<Trace>& traces, float scale);
  void AddRounded(std::int64_t parameter, float a, float b);

  const ScalarPlan& plan_;
  std::span<const Layer> layers_;
  std::int64_t step_ = 0;
  Values w_, gradient_, velocity_, average_;
  std::vector<std::int64_t> integers_;
};

// e^x for x <= 0 as the kernels define it.
float ScalarExp(float x);

}  // namespace lucid
