// The training algorithm T: a deterministic function of (set of rows, architecture, options, seed).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lucid/base/result.h"
#include "lucid/nn/architecture.h"

namespace lucid {

// Stochastic gradient descent:
//   g <- gradient + weight_decay * w;  v <- momentum * v + g;  w <- w - rate * v
//
// Nothing in it may depend on the number of rows, on their positions or on their order, so that a
// member is what training without the unit gives, to the bit (docs/training.md, rule R).
struct TrainOptions {
  enum class Method {
    kPlain,    // the mean of the cross-entropy over each batch
    kClipped,  // the sum of the gradients of units, each clipped, over the expected batch size
    kPrivate,  // the same with noise and Poisson sampling: (epsilon, delta)-private
  };
  enum class Schedule { kConstant, kCosine };

  Method method = Method::kPlain;
  std::int64_t epochs = 50;
  std::int64_t batch = 1024;                // expected rows of a step
  double rate = 0.1;                        // learning rate at the first step
  double weight_decay = 1e-5;               // on weights and biases
  Schedule schedule = Schedule::kConstant;  // kCosine: rate falls to 0 along half a cosine
  double momentum = 0;
  std::int64_t average_epochs = 0;  // > 0: the result is the mean of the weights after each of the
                                    // last so many epochs (stochastic weight averaging)
  std::uint64_t seed = 0;           // of the initial weights and of who is in which batch

  // How many rows are expected (n0) and how many batches an epoch has. 0: ResolveOptions fills
  // them in.
  std::int64_t expected_rows = 0;
  std::int64_t batches = 0;

  // kClipped and kPrivate. The largest norm of a unit's gradient over all parameters, and how many
  // rows of a unit there may be: 1 without a unit column.
  double clip = 0.3;
  std::int64_t rows_per_unit = 1;

  // kClipped and kPrivate: train on inputs of mean 0 and one deviation, and fold that into the
  // first layer (train/standardise.h).
  bool standardise = false;

  // kPrivate. delta 0: ResolveOptions takes 1e-6 or 1 / (10 n0), whichever is smaller.
  double epsilon = 1;
  double delta = 0;
  std::uint64_t noise_variance = 0;    // s2 in squared grid units; ResolveOptions fills it in
  std::uint64_t moments_variance = 0;  // the same of the moments, if inputs are standardised

  // "paper" (the defaults), "stable" (cosine decay, whose members lie closer together), "clipped"
  // or "private" with the recipe for large data at epsilon 1. RecipeFor has the others.
  static Result<TrainOptions> Preset(const std::string& name);

  Status Validate() const;
  bool IsResolved() const { return batches > 0; }

  // Every field that counts for the method, in one fixed spelling; part of a run's key. Requires:
  // IsResolved().
  std::string Canonical() const;
  // Accepts exactly what Canonical writes for valid options, and what runs of format 1 hold (whose
  // `batches` is then 0). Errors: another text.
  static Result<TrainOptions> FromCanonical(const std::string& text);
};

// With fewer expected rows than these, recipes take smaller batches and more epochs.
inline constexpr std::int64_t kFewRows = 2000;
// With fewer expected rows times epsilon than these, private recipes take inputs as they are.
inline constexpr double kRowsTimesEpsilon = 1000;

// The public recipe of `clipped` and `private`: batch, epochs, rate and clip as a function of n0
// and epsilon (`clipped`: as if epsilon were large), and whether inputs are standardised. Constants
// that were found on other data sets than D (docs/training.md says how), never tuned on D. Keeps
// the other fields of `options`.
TrainOptions RecipeFor(const TrainOptions& options, std::int64_t expected_rows);

// What the training procedure may know of a data set before it looks at it.
struct DataSize {
  std::int64_t rows = 0;
  std::int64_t largest_unit = 1;  // rows of it
  bool has_units = false;         // a unit column
};

// Fills in what depends on n0: expected_rows, batches, delta and the noise. Where n0 is not given,
// it is the number of rows rounded to one significant digit.
// Errors: options; an n0 from the data that a single unit decides; `private` without n0; units
// larger than rows_per_unit, or rows_per_unit above 8, for `clipped` and `private`; an epsilon that
// the accountant cannot prove.
Result<TrainOptions> ResolveOptions(const TrainOptions& options, const Architecture& architecture,
                                    const DataSize& data);

// `rows` to one significant digit, halves up.
std::int64_t RoundedToOneDigit(std::int64_t rows);

// What a private training promises: everything that the accountant was told, and its answer.
struct PrivacyStatement {
  double epsilon = 0, delta = 0;  // of the options
  double sigma = 0;               // noise over sensitivity, rounded down
  double moments_sigma = 0;       // the same of the moments, once; 0: inputs are as they are
  double clip = 0;
  double sampling_rate = 0;  // q, rounded up
  std::int64_t steps = 0;
  double spent = 0;  // epsilon that the accountant proves at delta; at most `epsilon`
};
// Requires: resolved options of the method kPrivate.
Result<PrivacyStatement> PrivacyOf(const TrainOptions& options, const Architecture& architecture);

}  // namespace lucid
