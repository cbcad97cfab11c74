// The training algorithm T: a deterministic function of (data, architecture, options, seed).
#pragma once

#include <cstdint>
#include <string>

#include "lucid/base/result.h"

namespace lucid {

// Stochastic gradient descent on the mean cross-entropy of each batch:
//   g <- gradient + weight_decay * w;  v <- momentum * v + g;  w <- w - rate * v
struct TrainOptions {
  enum class Schedule { kConstant, kCosine };

  std::int64_t epochs = 50;
  std::int64_t batch = 1024;
  double rate = 0.1;                        // learning rate at the first step
  double weight_decay = 1e-5;               // on weights and biases
  Schedule schedule = Schedule::kConstant;  // kCosine: rate falls to 0 along half a cosine
  double momentum = 0;
  std::int64_t average_epochs = 0;  // > 0: the result is the mean of the weights after each of the
                                    // last so many epochs (stochastic weight averaging)
  std::uint64_t seed = 0;           // of the initial weights and of the order of the rows

  // The paper's settings (the defaults), or "stable": cosine decay, whose members lie closer
  // together.
  static Result<TrainOptions> Preset(const std::string& name);

  Status Validate() const;

  // Every field in one fixed spelling; part of a run's key.
  std::string Canonical() const;
  // Accepts exactly what Canonical writes for valid options. Errors: another text.
  static Result<TrainOptions> FromCanonical(const std::string& text);
};

}  // namespace lucid
