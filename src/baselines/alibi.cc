#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "baselines/alibi_loss.h"
#include "baselines/descent.h"
#include "baselines/example_gradients.h"
#include "baselines/privacy_noise.h"
#include "lucid/baselines/private_training.h"

namespace lucid {
namespace {

// out = softmax(a + b).
void SoftmaxOfSum(std::span<const double> a, std::span<const double> b, std::span<double> out) {
  for (std::size_t c = 0; c < out.size(); ++c) out[c] = a[c] + b[c];
  const double top = std::ranges::max(out);
  double total = 0;
  for (double& value : out) total += value = std::exp(value - top);
  for (double& value : out) value /= total;
}

}  // namespace

AlibiLoss::AlibiLoss(const Table& table, std::int64_t classes, double epsilon, PrivacyNoise& noise)
    : classes_(static_cast<std::size_t>(classes)) {
  const double scale = 2 / epsilon;  // two one-hot labels are at most 2 apart
  evidence_.reserve(table.y.size() * classes_);
  std::vector<double> observed(classes_);
  for (const std::int32_t label : table.y) {
    for (double& value : observed) value = noise.Laplace(scale);
    observed[label] += 1;
    for (std::size_t i = 0; i < classes_; ++i) {
      double distance = 0;
      for (std::size_t c = 0; c < classes_; ++c) {
        distance += std::abs(observed[c] - (c == i ? 1 : 0));
      }
      evidence_.push_back(-distance / scale);
    }
  }
}

void AlibiLoss::Gradient(std::int32_t row, std::span<const double> logits,
                         std::span<double> gradient) const {
  constexpr double kFloor = 1e-10;
  thread_local std::vector<double> zero, prior, posterior;
  zero.assign(classes_, 0);
  prior.resize(classes_);
  posterior.resize(classes_);
  SoftmaxOfSum(logits, zero, prior);
  // exp(evidence) softmax(logits), normalised, is the softmax of their logarithms' sum.
  SoftmaxOfSum(logits, Evidence(row), posterior);
  // d/dz_j of -sum_i t_i ln(p_i + floor) is p_j sum_i u_i - u_j, u_i = t_i p_i / (p_i + floor).
  double total = 0;
  for (std::size_t c = 0; c < classes_; ++c) {
    posterior[c] *= prior[c] / (prior[c] + kFloor);
    total += posterior[c];
  }
  for (std::size_t c = 0; c < classes_; ++c) gradient[c] = prior[c] * total - posterior[c];
}

Status AlibiOptions::Validate() const {
  LUCID_TRY(train.Validate());
  // 2 / epsilon must be a number.
  if (!(epsilon >= 1e-100 && std::isfinite(epsilon))) {
    return InvalidInput(fmt::format("epsilon is {}: ALIBI needs one above 0, finite", epsilon));
  }
  return Ok();
}

Result<Network> TrainAlibi(const Architecture& architecture, const Table& table,
                           const AlibiOptions& options, std::stop_token stop) {
  LUCID_TRY(options.Validate());
  if (table.rows() == 0) return InvalidInput("ALIBI needs at least one training row");
  LUCID_ASSIGN(const TrainOptions train, PlainOptions(options.train, architecture, table));
  const TrainPlan plan(architecture, table, train);
  LUCID_ASSIGN(PrivacyNoise noise, PrivacyNoise::Create(options.noise_seed));
  const AlibiLoss loss(table, architecture.classes(), options.epsilon, noise);
  const auto gradients =
      ExampleGradients::Create(architecture, table, AvailableInstructionSets().front());
  PlanReader reader(plan);
  const auto mean = [&](std::int64_t step, std::span<const float> weights,
                        std::span<float> gradient) {
    const auto batch = reader.Rows(step);
    gradients->Sum(weights, batch, loss, kNoClip, gradient);
    const auto size = static_cast<float>(std::max<std::size_t>(batch.size(), 1));
    for (float& g : gradient) g /= size;
  };
  return Descend(plan, mean, stop, "ALIBI");
}

}  // namespace lucid
