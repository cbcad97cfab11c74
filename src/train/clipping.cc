#include "train/clipping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "numeric/rounding.h"
#include "random/discrete_gaussian.h"

namespace lucid {
namespace {

// The longest sum that a norm is made of.
double WidestSum(const Architecture& architecture) {
  std::int64_t widest = 0;
  for (const Layer& layer : architecture.layers()) {
    const bool dense = layer.kind == HiddenLayer::Kind::kDense;
    widest = std::max(
        widest, dense ? std::max(layer.taps + 1, layer.filters) : layer.filters * (layer.taps + 1));
  }
  return static_cast<double>(widest);
}

}  // namespace

Clipping Clipping::Of(const TrainOptions& options, const Architecture& architecture) {
  Clipping c;
  c.clip = static_cast<float>(options.clip);
  c.grid = std::ldexp(1.0F, std::ilogb(c.clip) - 14);
  c.offset = 12582912.0F * c.grid;
  const double w = WidestSum(architecture), unit = static_cast<double>(options.rows_per_unit);
  const auto layers = static_cast<double>(architecture.layers().size());
  const double eta = (w + layers + 8) * 0x1p-24;
  const double clip = static_cast<double>(c.clip) / static_cast<double>(c.grid);  // exact
  c.room = static_cast<std::int64_t>(std::floor(((1 << 22) - 256) / (clip * (1 + eta))));
  const double roundings = 1.5 * unit * std::sqrt(static_cast<double>(architecture.parameters()));
  c.sensitivity = std::nextafter((1 + eta) * clip + roundings, kInfinity) * (1 + 0x1p-50);
  c.unit_slack = static_cast<float>((w + layers * unit * unit + 8) * 0x1p-23);
  const auto rows = static_cast<double>(options.expected_rows);
  const double expected = options.method == TrainOptions::Method::kPrivate
                              ? std::min(static_cast<double>(options.batch), rows)
                              : rows / static_cast<double>(options.batches);
  c.scale = static_cast<float>(static_cast<double>(c.grid) / expected);
  return c;
}

Result<std::uint64_t> NoiseVariance(double sigma, double sensitivity) {
  const double deviation = sigma * sensitivity;
  const double variance = std::ceil(deviation * deviation * (1 + 0x1p-40));
  if (variance <= static_cast<double>(DiscreteGaussian::kMaxVariance)) {
    return static_cast<std::uint64_t>(std::max(variance, 1.0));
  }
  return InvalidInput(
      fmt::format("noise of {:.3g} times the sensitivity is more than this program adds: use a "
                  "larger epsilon, fewer epochs or a smaller network",
                  sigma));
}

double SigmaOf(std::uint64_t variance, double sensitivity) {
  return std::nextafter(std::sqrt(static_cast<double>(variance)) / sensitivity * (1 - 0x1p-50),
                        0.0);
}

Sampling Sampling::Of(const TrainOptions& options) {
  __extension__ using Wide = unsigned __int128;
  Sampling s;
  const auto batch = static_cast<std::uint64_t>(options.batch);
  const auto rows = static_cast<std::uint64_t>(options.expected_rows);
  const auto epochs = static_cast<std::uint64_t>(options.epochs);
  s.everybody = batch >= rows;
  s.steps = options.epochs;
  s.rate = 1;
  if (s.everybody) return s;
  s.threshold = static_cast<std::uint64_t>((static_cast<Wide>(batch) << 64) / rows);
  s.steps = static_cast<std::int64_t>((static_cast<Wide>(epochs) * rows + batch - 1) / batch);
  s.rate = std::min(1.0, std::nextafter(static_cast<double>(s.threshold) * 0x1p-64, kInfinity));
  return s;
}

}  // namespace lucid
