#include "train/plan.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "random/stream.h"

namespace lucid {

TrainPlan::TrainPlan(const Architecture& architecture, const Table& table,
                     const TrainOptions& options)
    : architecture_(architecture),
      table_(&table),
      options_(options),
      batches_((table.rows() + options.batch - 1) / options.batch) {
  Stream weights(options.seed, "initial weights");
  initial_.resize(static_cast<std::size_t>(architecture.parameters()));
  for (const Layer& layer : architecture.layers()) {
    const double bound = 1 / std::sqrt(static_cast<double>(layer.taps));
    for (std::int64_t i = layer.weight_at; i < layer.bias_at + layer.filters; ++i) {
      initial_[i] = static_cast<float>(weights.Uniform(-bound, bound));
    }
  }
}

void TrainPlan::Order(std::int64_t epoch, std::vector<std::int32_t>& order) const {
  order.resize(static_cast<std::size_t>(table_->rows()));
  std::iota(order.begin(), order.end(), 0);
  Stream(options_.seed, "row order", static_cast<std::uint64_t>(epoch)).Shuffle(order);
}

std::span<const std::int32_t> TrainPlan::Batch(std::span<const std::int32_t> order,
                                               std::int64_t batch) const {
  const auto size = static_cast<std::size_t>(options_.batch);
  const auto first = static_cast<std::size_t>(batch) * size;
  return order.subspan(first, std::min(size, order.size() - first));
}

float TrainPlan::Rate(std::int64_t epoch, std::int64_t batch) const {
  if (options_.schedule == TrainOptions::Schedule::kConstant) {
    return static_cast<float>(options_.rate);
  }
  const auto step = static_cast<double>(epoch * batches_ + batch);
  const auto steps = static_cast<double>(options_.epochs * batches_);
  return static_cast<float>(options_.rate * (1 + std::cos(std::numbers::pi * step / steps)) / 2);
}

}  // namespace lucid
