// The loss of ALIBI: cross-entropy with the posterior of noisy labels.
#pragma once

#include <vector>

#include "baselines/example_gradients.h"
#include "baselines/privacy_noise.h"

namespace lucid {

// o = onehot(label) + Laplace(b)^K is drawn once per row in the constructor, b = 2 / epsilon. Of
// the row then
//   t_i ~ exp(-|o - e_i|_1 / b) softmax(logits)_i, normalised, a constant of the step,
//   loss = -sum_i t_i ln(softmax(logits)_i + 1e-10).
class AlibiLoss final : public Loss {
 public:
  AlibiLoss(const Table& table, std::int64_t classes, double epsilon, PrivacyNoise& noise);

  void Gradient(std::int32_t row, std::span<const double> logits,
                std::span<double> gradient) const override;

  // -|o - e_i|_1 / b for every class i.
  std::span<const double> Evidence(std::int32_t row) const {
    return std::span(evidence_).subspan(static_cast<std::size_t>(row) * classes_, classes_);
  }

 private:
  std::size_t classes_;
  std::vector<double> evidence_;  // [row][class]
};

}  // namespace lucid
