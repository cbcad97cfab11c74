#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lucid/baselines/private_training.h"
#include "lucid/data/units.h"
#include "train/group_trainer.h"

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

// The trainer's own private method, with one network.
Result<DpSgdNetwork> TrainDpSgd(const Architecture& architecture, const Table& table,
                                const DpSgdOptions& options, std::stop_token stop) {
  LUCID_TRY(options.Validate());
  if (table.rows() == 0) return InvalidInput("DP-SGD needs at least one training row");
  TrainOptions train = options.train;
  train.method = TrainOptions::Method::kPrivate;
  train.epsilon = options.epsilon;
  train.delta = options.delta;
  train.clip = options.clip;
  for (const Unit& unit : UnitsOf(table, TableKeys::Of(table))) {
    train.rows_per_unit = std::max(train.rows_per_unit, std::ssize(unit.rows));
  }
  LUCID_TRY(train.Validate());  // units that are too large
  if (train.expected_rows == 0) train.expected_rows = table.rows();
  train.batches = std::max<std::int64_t>(1, (train.expected_rows + train.batch - 1) / train.batch);
  const Sampling sampling = Sampling::Of(train);
  LUCID_TRY(ResolveMoments(train, architecture));
  LUCID_ASSIGN(const double sigma,
               NoiseFor(options.epsilon, sampling.rate, sampling.steps, options.delta,
                        options.conversion, MomentsSigma(train, architecture)));
  LUCID_ASSIGN(train.noise_variance,
               NoiseVariance(sigma, Clipping::Of(train, architecture).sensitivity));

  LUCID_ASSIGN(Secret secret,
               options.noise_seed ? Secret::FromSeed(*options.noise_seed) : Secret::FromEntropy());
  const TrainPlan plan(architecture, table, train, std::move(secret));
  Network network{architecture, {}};
  network.parameters.resize(static_cast<std::size_t>(architecture.parameters()));
  const std::int64_t none = kNoRow;
  LUCID_TRY(GroupTrainer(plan, AvailableInstructionSets().front())
                .Train(std::span(&none, 1), network.parameters, stop));
  if (!std::ranges::all_of(network.parameters, [](float w) { return std::isfinite(w); })) {
    std::ranges::fill(network.parameters, 0.0F);  // as private training does: it is total
  }
  return DpSgdNetwork{std::move(network), sigma, sampling.rate, sampling.steps};
}

}  // namespace lucid
