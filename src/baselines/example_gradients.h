// Gradients of single examples, each clipped, and their sum: what private training needs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "lucid/data/dataset.h"
#include "lucid/nn/architecture.h"
#include "train/group_trainer.h"

namespace lucid {

// A loss per row, as a function of the network's outputs. Thread-safe.
class Loss {
 public:
  virtual ~Loss() = default;
  // gradient[c] = derivative of the loss of `row` by logits[c].
  virtual void Gradient(std::int32_t row, std::span<const double> logits,
                        std::span<double> gradient) const = 0;
};

// -ln softmax(logits)[label of the row]. `table` must outlive it.
class CrossEntropy final : public Loss {
 public:
  explicit CrossEntropy(const Table& table) : table_(table) {}
  void Gradient(std::int32_t row, std::span<const double> logits,
                std::span<double> gradient) const override;

 private:
  const Table& table_;
};

// Stands for "not clipped".
inline constexpr double kNoClip = 0;

// The kernels of training with the same weights in every lane and an example per row and lane. The
// norm of an example's gradient needs no gradient of its own: with d the derivative by a dense
// layer's sums and h the layer's inputs it is |d h^T|^2 + |d|^2 = |d|^2 (|h|^2 + 1); a
// convolution's weights are summed over its places one at a time, in registers. The clipped sum is
// then the weight gradient of d scaled per example.
//
// float32; the order of sums follows the number of lanes, so bits depend on the instruction set.
// Not thread-safe: one object per thread.
class ExampleGradients {
 public:
  // Both must outlive the result. Requires: `set` is available here; the architecture fits.
  static std::unique_ptr<ExampleGradients> Create(const Architecture& architecture,
                                                  const Table& table, InstructionSet set);
  virtual ~ExampleGradients() = default;

  // sum = sum over `rows` of g min(1, clip / (|g| + 1e-6)), g the gradient of the row's loss by all
  // parameters and |g| its 2-norm; with kNoClip the plain sum. Ensures: every clipped summand has a
  // norm of at most clip, rounding included (it aims at clip (1 - 2^-13)). Requires: weights.size()
  // == sum.size() == parameters; rows of the table; clip finite, >= 0.
  virtual void Sum(std::span<const float> weights, std::span<const std::int32_t> rows,
                   const Loss& loss, double clip, std::span<float> sum) = 0;
};

}  // namespace lucid
