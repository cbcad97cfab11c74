#include "train/plan.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "random/stream.h"
#include "train/row_ranking.h"

namespace lucid {

TrainPlan::TrainPlan(const Architecture& architecture, const Table& table,
                     const TrainOptions& options)
    : architecture_(architecture),
      table_(&table),
      options_(options),
      batches_((table.rows() + options.batch - 1) / options.batch),
      ranked_(RankRows(table)) {
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
  std::vector<std::int32_t> shuffled(ranked_.size()), batch_of(ranked_.size());
  std::iota(shuffled.begin(), shuffled.end(), 0);
  Stream(options_.seed, "row order", static_cast<std::uint64_t>(epoch)).Shuffle(shuffled);
  for (std::size_t i = 0; i < shuffled.size(); ++i) {
    batch_of[shuffled[i]] =
        static_cast<std::int32_t>(static_cast<std::int64_t>(i) / options_.batch);
  }
  std::vector<std::int64_t> next(static_cast<std::size_t>(batches_));
  for (std::int64_t b = 0; b < batches_; ++b) next[b] = b * options_.batch;
  order.resize(ranked_.size());
  for (const std::int32_t row : ranked_) order[next[batch_of[row]]++] = row;
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
