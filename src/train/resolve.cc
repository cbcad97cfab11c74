#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lucid/train/accountant.h"
#include "lucid/train/options.h"
#include "train/clipping.h"
#include "train/standardise.h"

namespace lucid {
namespace {

using Method = TrainOptions::Method;

std::int64_t BatchesOf(const TrainOptions& options, std::int64_t rows) {
  return options.batches > 0
             ? options.batches
             : std::max<std::int64_t>(1, (rows + options.batch - 1) / options.batch);
}

// n0 from the data, if no single unit decides anything by it.
Result<std::int64_t> RowsFromData(const TrainOptions& options, const DataSize& data) {
  const std::int64_t with = RoundedToOneDigit(data.rows);
  const std::int64_t without = RoundedToOneDigit(data.rows - data.largest_unit);
  // The plain methods know n0 through the number of batches only.
  const bool same = options.method == Method::kPlain
                        ? BatchesOf(options, with) == BatchesOf(options, without)
                        : with == without;
  if (same) return with;
  return InvalidInput(fmt::format(
      "{} training rows: without the largest unit ({} row(s)) training would expect {} rows "
      "instead of {}; say how many with the option expected_rows, or the number of batches with "
      "the "
      "option batches",
      data.rows, data.largest_unit, without, with));
}

Status CheckUnits(const TrainOptions& options, const DataSize& data) {
  if (options.method == Method::kPlain || data.largest_unit <= options.rows_per_unit) return Ok();
  return InvalidInput(
      fmt::format("a unit has {} rows, clipping allows {}: keep fewer of each with the option "
                  "rows_per_unit (at most {})",
                  data.largest_unit, options.rows_per_unit, kMaxRowsPerUnit));
}

Result<std::uint64_t> VarianceFor(const TrainOptions& options, const Architecture& architecture) {
  const Sampling sampling = Sampling::Of(options);
  LUCID_ASSIGN(const double sigma,
               NoiseFor(options.epsilon, sampling.rate, sampling.steps, options.delta,
                        Conversion::kTight, MomentsSigma(options, architecture)));
  return NoiseVariance(sigma, Clipping::Of(options, architecture).sensitivity);
}

}  // namespace

std::int64_t RoundedToOneDigit(std::int64_t rows) {
  std::int64_t unit = 1;
  while (rows / unit >= 10) unit *= 10;
  return (rows + unit / 2) / unit * unit;
}

Result<TrainOptions> ResolveOptions(const TrainOptions& options, const Architecture& architecture,
                                    const DataSize& data) {
  TrainOptions resolved = options;
  resolved.noise_variance = resolved.moments_variance = 0;
  LUCID_TRY(resolved.Validate());
  LUCID_TRY(CheckUnits(options, data));
  if (resolved.method == Method::kPrivate && resolved.expected_rows == 0) {
    return InvalidInput(
        "private training needs the option expected_rows: how many rows it is meant for may not be "
        "counted");
  }
  if (resolved.expected_rows == 0 && (resolved.method != Method::kPlain || resolved.batches == 0)) {
    LUCID_ASSIGN(resolved.expected_rows, RowsFromData(resolved, data));
  }
  resolved.batches = BatchesOf(resolved, resolved.expected_rows);
  if (resolved.method != Method::kPrivate) return resolved;
  if (resolved.delta == 0) {
    resolved.delta = std::min(1e-6, 0.1 / static_cast<double>(resolved.expected_rows));
  }
  LUCID_TRY(ResolveMoments(resolved, architecture));
  LUCID_ASSIGN(resolved.noise_variance, VarianceFor(resolved, architecture));
  return resolved;
}

Result<PrivacyStatement> PrivacyOf(const TrainOptions& options, const Architecture& architecture) {
  if (options.method != Method::kPrivate || options.noise_variance == 0) {
    return InternalError("the statement of a training that is not private");
  }
  const Sampling sampling = Sampling::Of(options);
  const double once = MomentsSigma(options, architecture);
  if (options.standardise && !(once > 0)) {
    return InternalError("inputs that are standardised by moments without noise");
  }
  const double sigma =
      SigmaOf(options.noise_variance, Clipping::Of(options, architecture).sensitivity);
  LUCID_ASSIGN(const PrivacyLoss loss,
               PrivacyLossOf({sampling.rate, sigma, sampling.steps, once}, options.delta));
  return PrivacyStatement{options.epsilon, options.delta, sigma,          once,
                          options.clip,    sampling.rate, sampling.steps, loss.epsilon};
}

}  // namespace lucid
