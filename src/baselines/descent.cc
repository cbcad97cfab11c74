#include "baselines/descent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace lucid {

Result<TrainOptions> PlainOptions(const TrainOptions& options, const Architecture& architecture,
                                  const Table& table) {
  TrainOptions plain = options;
  plain.method = TrainOptions::Method::kPlain;
  plain.standardise = false;
  if (!plain.IsResolved() && plain.expected_rows == 0) plain.expected_rows = table.rows();
  return ResolveOptions(plain, architecture, {table.rows(), 1, table.has_units()});
}

Result<Network> Descend(const TrainPlan& plan, const GradientOfStep& gradient_of,
                        std::stop_token stop, const char* what) {
  const TrainOptions& options = plan.options();
  const auto decay = static_cast<float>(options.weight_decay);
  const auto momentum = static_cast<float>(options.momentum);
  std::vector<float> weights(plan.initial().begin(), plan.initial().end());
  std::vector<float> gradient(weights.size()), velocity(weights.size()), average(weights.size());
  for (std::int64_t step = 0; step < plan.steps(); ++step) {
    if (stop.stop_requested()) return Interrupted(fmt::format("{} stopped on request", what));
    gradient_of(step, weights, gradient);
    const float rate = plan.Rate(step);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      velocity[i] = momentum * velocity[i] + (gradient[i] + decay * weights[i]);
      weights[i] -= rate * velocity[i];
    }
    if (plan.IsAveraged(step)) {
      for (std::size_t i = 0; i < weights.size(); ++i) {
        average[i] += weights[i] / static_cast<float>(options.average_epochs);
      }
    }
  }
  if (options.average_epochs > 0) weights = std::move(average);
  if (!std::ranges::all_of(weights, [](float w) { return std::isfinite(w); })) {
    return InvalidInput(
        fmt::format("{} diverged: weights are not finite; use a smaller learning rate", what));
  }
  return Network{plan.architecture(), std::move(weights)};
}

}  // namespace lucid
