#include "train/plan.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <unordered_map>

#include "random/discrete_gaussian.h"
#include "random/keyed_hash.h"
#include "random/stream.h"
#include "train/row_ranking.h"

namespace lucid {
namespace {

using Method = TrainOptions::Method;

constexpr std::int64_t kMaxKept = std::int64_t{1} << 27;  // numbers of 4 bytes: 512 MB

}  // namespace

TrainPlan::TrainPlan(const Architecture& architecture, const Table& table,
                     const TrainOptions& options, std::optional<Secret> secret)
    : TrainPlan(architecture, table, TableKeys::Of(table), options, std::move(secret)) {}

TrainPlan::TrainPlan(const Architecture& architecture, const Table& table, const TableKeys& keys,
                     const TrainOptions& options, std::optional<Secret> secret)
    : architecture_(architecture),
      table_(&table),
      options_(options),
      secret_(std::move(secret)),
      steps_(options.epochs * options.batches) {
  ranked_ = RankRows(table, keys);
  std::unordered_map<Digest, std::int32_t, DigestHash> numbers(keys.units.size());
  for (const Digest& key : keys.units) {
    const auto [place, fresh] = numbers.emplace(key, static_cast<std::int32_t>(unit_keys_.size()));
    if (fresh) unit_keys_.push_back(key);
    unit_of_.push_back(place->second);
  }
  std::vector<std::int64_t> sizes(unit_keys_.size());
  for (const std::int32_t unit : unit_of_) {
    largest_unit_ = std::max(largest_unit_, ++sizes[static_cast<std::size_t>(unit)]);
  }
  if (options.method != Method::kPlain) clipping_ = Clipping::Of(options, architecture);
  if (options.method != Method::kPlain && options.standardise) {
    moments_.emplace(architecture_, table, unit_of_, options, NoiseOfMoments());
  }
  if (options.method == Method::kPrivate) {
    sampling_ = Sampling::Of(options);
    steps_ = sampling_->steps;
  }

  Stream weights(options.seed, "initial weights");
  initial_.resize(static_cast<std::size_t>(architecture.parameters()));
  for (const Layer& layer : architecture.layers()) {
    const double bound = 1 / std::sqrt(static_cast<double>(layer.taps));
    for (std::int64_t i = layer.weight_at; i < layer.bias_at + layer.filters; ++i) {
      initial_[i] = static_cast<float>(weights.Uniform(-bound, bound));
    }
  }

  if (options.epochs * table.rows() <= kMaxKept) List(0, steps_, lists_, starts_);
  if (sampling_ && steps_ * architecture.parameters() <= kMaxKept) {
    const auto parameters = static_cast<std::size_t>(architecture.parameters());
    noise_.resize(static_cast<std::size_t>(steps_) * parameters);
    for (std::int64_t step = 0; step < steps_; ++step) {
      Draw(step,
           std::span(noise_).subspan(static_cast<std::size_t>(step) * parameters, parameters));
    }
  }
}

WipedVector<std::int64_t> TrainPlan::NoiseOfMoments() const {
  WipedVector<std::int64_t> noise;
  if (options_.method != Method::kPrivate) return noise;
  SecretStream stream(*secret_, "moments", 0, options_.Canonical());
  const DiscreteGaussian gaussian(options_.moments_variance);
  for (std::int64_t i = 0; i < NumberOfMoments(table_->features); ++i) {
    noise.push_back(gaussian.Sample(stream));
  }
  return noise;
}

float TrainPlan::Rate(std::int64_t step) const {
  if (options_.schedule == TrainOptions::Schedule::kConstant) {
    return static_cast<float>(options_.rate);
  }
  const double turn = std::numbers::pi * static_cast<double>(step) / static_cast<double>(steps_);
  return static_cast<float>(options_.rate * (1 + std::cos(turn)) / 2);
}

bool TrainPlan::IsAveraged(std::int64_t step) const {
  const std::int64_t left = steps_ - 1 - step;
  return left % options_.batches == 0 && left / options_.batches < options_.average_epochs;
}

void TrainPlan::List(std::int64_t first, std::int64_t count, WipedVector<std::int32_t>& rows,
                     std::vector<std::size_t>& starts) const {
  rows.clear();
  starts.assign(1, 0);
  if (sampling_) {
    const std::string purpose = "coins " + options_.Canonical();
    for (std::int64_t step = first; step < first + count; ++step) {
      const KeyedHash coin(secret_->bytes(), purpose, static_cast<std::uint64_t>(step));
      std::int32_t last = -1;  // rows of a unit stand together and share its coin
      bool in = false;
      for (const std::int32_t row : ranked_) {
        if (unit_of_[row] != last) {
          last = unit_of_[row];
          in = sampling_->everybody || coin(unit_keys_[last]) < sampling_->threshold;
        }
        if (in) rows.push_back(row);
      }
      starts.push_back(rows.size());
    }
    return;
  }
  // Plain and clipped: each unit once per epoch. Requires whole epochs.
  __extension__ using Wide = unsigned __int128;
  const std::int64_t batches = options_.batches;
  std::vector<std::int32_t> batch_of(unit_keys_.size());
  for (std::int64_t epoch = first / batches; epoch < (first + count) / batches; ++epoch) {
    const KeyedHash hash(options_.seed, "batches", static_cast<std::uint64_t>(epoch));
    for (std::size_t unit = 0; unit < unit_keys_.size(); ++unit) {
      batch_of[unit] = static_cast<std::int32_t>(
          (static_cast<Wide>(hash(unit_keys_[unit])) * static_cast<std::uint64_t>(batches)) >> 64);
    }
    std::vector<std::size_t> next(static_cast<std::size_t>(batches) + 1);
    for (const std::int32_t row : ranked_) ++next[batch_of[unit_of_[row]] + 1];
    next[0] = rows.size();
    for (std::size_t b = 1; b < next.size(); ++b) starts.push_back(next[b] += next[b - 1]);
    rows.resize(rows.size() + ranked_.size());
    for (const std::int32_t row : ranked_) rows[next[batch_of[unit_of_[row]]]++] = row;
  }
}

void TrainPlan::Draw(std::int64_t step, std::span<std::int32_t> noise) const {
  SecretStream stream(*secret_, "noise", static_cast<std::uint64_t>(step), options_.Canonical());
  const DiscreteGaussian gaussian(options_.noise_variance);
  // Sums of gradients wrap in 32 bits, and so does the noise: that is done to the noisy sum.
  for (std::int32_t& x : noise) x = static_cast<std::int32_t>(gaussian.Sample(stream));
}

std::span<const std::int32_t> PlanReader::Rows(std::int64_t step) {
  if (!plan_.starts_.empty()) {
    const auto at = static_cast<std::size_t>(step);
    return std::span(plan_.lists_)
        .subspan(plan_.starts_[at], plan_.starts_[at + 1] - plan_.starts_[at]);
  }
  // An epoch at a time, or a private step.
  const std::int64_t block = plan_.sampling_ ? 1 : plan_.options_.batches;
  if (const std::int64_t first = step / block * block; first != first_) {
    plan_.List(first, block, rows_, starts_);
    first_ = first;
  }
  const auto at = static_cast<std::size_t>(step - first_);
  return std::span(rows_).subspan(starts_[at], starts_[at + 1] - starts_[at]);
}

std::span<const std::int32_t> PlanReader::Noise(std::int64_t step) {
  const auto parameters = static_cast<std::size_t>(plan_.architecture_.parameters());
  if (!plan_.noise_.empty()) {
    return std::span(plan_.noise_).subspan(static_cast<std::size_t>(step) * parameters, parameters);
  }
  noise_.resize(parameters);
  plan_.Draw(step, noise_);
  return noise_;
}

}  // namespace lucid
