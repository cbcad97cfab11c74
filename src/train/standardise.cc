#include "train/standardise.h"

#include <algorithm>
#include <cmath>

#include "numeric/rounding.h"
#include "train/clipping.h"

namespace lucid {
namespace {

// The deviation that inputs get, and the largest factor: an input that hardly varies is not
// stretched without end, and noise of the moments makes no more of it.
constexpr double kDeviation = 0.5, kLargestFactor = 8;

// The noise of the moments is so many times their sensitivity, over epsilon: some four percent of
// what a training costs. What it costs grows with the square of epsilon, so it becomes no less from
// some epsilon on.
constexpr double kMomentsNoise = 20, kLargestEpsilon = 8;

// The largest whole number r with r^2 <= n.
std::int64_t RootOf(std::int64_t n) {
  auto r = static_cast<std::int64_t>(std::sqrt(static_cast<double>(n)));
  while (r * r > n) --r;
  while ((r + 1) * (r + 1) <= n) ++r;
  return r;
}

}  // namespace

double MomentSensitivity(const TrainOptions& options, const Architecture& architecture) {
  const auto inputs = static_cast<double>(architecture.inputs());
  const auto rows = static_cast<double>(options.rows_per_unit);
  return std::nextafter(rows * InputMoments::kGrid * std::sqrt(inputs + 1), kInfinity) *
         (1 + 0x1p-50);
}

Status ResolveMoments(TrainOptions& options, const Architecture& architecture) {
  if (!options.standardise) return Ok();
  LUCID_ASSIGN(options.moments_variance,
               NoiseVariance(kMomentsNoise / std::min(options.epsilon, kLargestEpsilon),
                             MomentSensitivity(options, architecture)));
  return Ok();
}

double MomentsSigma(const TrainOptions& options, const Architecture& architecture) {
  if (!options.standardise || options.moments_variance == 0) return 0;
  return SigmaOf(options.moments_variance, MomentSensitivity(options, architecture));
}

InputMoments::InputMoments(const Architecture& architecture, const Table& table,
                           std::span<const std::int32_t> unit_of, const TrainOptions& options,
                           WipedVector<std::int64_t> noise)
    : table_(table),
      unit_of_(unit_of),
      expected_rows_(static_cast<double>(options.expected_rows)),
      pooled_(architecture.layers().front().kind != HiddenLayer::Kind::kDense),
      sums_(std::move(noise)) {
  sums_.resize(static_cast<std::size_t>(NumberOfMoments(table.features)));
  for (std::int64_t row = 0; row < table.rows(); ++row) AddRow(row, sums_);
}

void InputMoments::AddRow(std::int64_t row, std::span<std::int64_t> sums) const {
  const auto inputs = static_cast<std::size_t>(table_.features);
  std::vector<std::int64_t> own(2 * inputs);
  std::int64_t square = 0;
  for (std::size_t k = 0; k < inputs; ++k) {
    const float x = table_.row(row)[k];
    const double inside = x > 0 ? std::min(static_cast<double>(x), 1.0) : 0.0;  // NaN is 0
    own[k] = static_cast<std::int64_t>(std::floor(inside * kGrid + 0.5));
    own[inputs + k] = (own[k] * own[k] + kGrid / 2) / kGrid;
    square += own[k] * own[k] + own[inputs + k] * own[inputs + k];
  }
  const std::int64_t most = static_cast<std::int64_t>(inputs) * kGrid * kGrid;
  sums[0] += kGrid;
  for (std::size_t i = 0; i < own.size(); ++i) {
    // floor(v sqrt(most / square)): the squares then sum to at most `most`, whatever is rounded.
    __extension__ using Wide = __int128;
    const std::int64_t v =
        square <= most ? own[i]
                       : RootOf(static_cast<std::int64_t>(Wide{own[i]} * own[i] * most / square));
    sums[1 + i] += v;
  }
}

std::vector<std::int64_t> InputMoments::OfUnit(std::int64_t unit) const {
  std::vector<std::int64_t> sums(sums_.size());
  for (std::int64_t row = 0; row < table_.rows(); ++row) {
    if (unit_of_[static_cast<std::size_t>(row)] == unit) AddRow(row, sums);
  }
  return sums;
}

Standardisation InputMoments::Without(std::int64_t unit) const {
  WipedVector<std::int64_t> sums = sums_;
  if (unit >= 0) {
    const std::vector<std::int64_t> own = OfUnit(unit);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] -= own[i];
  }
  const auto inputs = static_cast<std::size_t>(table_.features);
  const double count = std::clamp(static_cast<double>(sums[0]) / kGrid,
                                  std::max(1.0, expected_rows_ / 2), 2 * expected_rows_ + 1);
  const auto mean = [&](std::size_t i) { return static_cast<double>(sums[i]) / kGrid / count; };
  std::vector<double> firsts(inputs), seconds(inputs);
  for (std::size_t k = 0; k < inputs; ++k) {
    firsts[k] = mean(1 + k);
    seconds[k] = mean(1 + inputs + k);
  }
  if (pooled_) {
    double first = 0, second = 0;
    for (std::size_t k = 0; k < inputs; ++k) {
      first += firsts[k];
      second += seconds[k];
    }
    firsts.assign(inputs, first / static_cast<double>(inputs));
    seconds.assign(inputs, second / static_cast<double>(inputs));
  }
  Standardisation result;
  for (std::size_t k = 0; k < inputs; ++k) {
    const double center = std::clamp(firsts[k], 0.0, 1.0);
    const double least = kDeviation / kLargestFactor;
    const double variance = std::clamp(seconds[k] - center * center, least * least, 0.25);
    result.centers.push_back(static_cast<float>(center));
    result.factors.push_back(static_cast<float>(kDeviation / std::sqrt(variance)));
  }
  return result;
}

// w ((x - center) factor) + b = (w factor) x + (b - w factor center)
void FoldInputs(const Architecture& architecture, const Standardisation& inputs,
                std::span<float> parameters) {
  const Layer& first = architecture.layers().front();
  for (std::int64_t j = 0; j < first.filters; ++j) {
    float moved = 0;
    for (std::int64_t k = 0; k < first.taps; ++k) {
      const auto input = static_cast<std::size_t>(k);
      float& w = parameters[static_cast<std::size_t>(first.weight_at + j * first.taps + k)];
      w *= inputs.factors[input];
      moved = std::fma(w, inputs.centers[input], moved);
    }
    parameters[static_cast<std::size_t>(first.bias_at + j)] -= moved;
  }
}

}  // namespace lucid
