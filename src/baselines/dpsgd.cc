#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "baselines/descent.h"
#include "baselines/example_gradients.h"
#include "baselines/privacy_noise.h"
#include "lucid/baselines/private_training.h"

namespace lucid {

Status DpSgdOptions::Validate() const {
  LUCID_TRY(train.Validate());
  if (!(epsilon > 0 && std::isfinite(epsilon))) {
    return InvalidInput(fmt::format("epsilon is {}: DP-SGD needs one above 0, finite", epsilon));
  }
  if (!(delta > 0 && delta < 1)) {
    return InvalidInput(fmt::format("delta is {}, must be above 0 and below 1", delta));
  }
  // Within float32, where gradients live, with room for the margins around it.
  if (!(clip >= 1e-20 && clip <= 1e20)) {
    return InvalidInput(fmt::format("clip is {}, must be from 1e-20 to 1e20", clip));
  }
  return Ok();
}

Result<DpSgdNetwork> TrainDpSgd(const Architecture& architecture, const Table& table,
                                const DpSgdOptions& options, std::stop_token stop) {
  LUCID_TRY(options.Validate());
  if (table.rows() == 0) return InvalidInput("DP-SGD needs at least one training row");
  const TrainPlan plan(architecture, table, options.train);
  const auto rows = static_cast<double>(table.rows());
  const double batch = std::min(static_cast<double>(options.train.batch), rows);
  const double q = batch / rows;
  const auto steps = static_cast<std::int64_t>(
      std::ceil(static_cast<double>(options.train.epochs) * rows / batch));
  LUCID_ASSIGN(const double sigma,
               NoiseFor(options.epsilon, q, steps, options.delta, options.conversion));

  LUCID_ASSIGN(PrivacyNoise noise, PrivacyNoise::Create(options.noise_seed));
  const auto gradients =
      ExampleGradients::Create(architecture, table, AvailableInstructionSets().front());
  const CrossEntropy loss(table);
  std::vector<std::int32_t> drawn;
  const auto noisy_mean = [&](std::int64_t, std::span<const float> weights,
                              std::span<float> gradient) {
    drawn.clear();
    for (std::int32_t row = 0; row < table.rows(); ++row) {
      if (noise.Uniform() < q) drawn.push_back(row);
    }
    gradients->Sum(weights, drawn, loss, options.clip, gradient);
    const double deviation = sigma * options.clip;
    for (float& g : gradient) g = static_cast<float>((g + deviation * noise.Normal()) / batch);
  };
  LUCID_ASSIGN(Network network, Descend(plan, steps, noisy_mean, stop, "DP-SGD"));
  return DpSgdNetwork{std::move(network), sigma, q, steps};
}

}  // namespace lucid
