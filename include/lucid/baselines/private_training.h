// Networks that are private because of how they were trained: DP-SGD and ALIBI.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

#include "lucid/base/result.h"
#include "lucid/data/dataset.h"
#include "lucid/nn/network.h"
#include "lucid/train/accountant.h"
#include "lucid/train/options.h"

namespace lucid {

// Both train with the run's options: epochs, batch, rate, decay, and a seed that gives the initial
// weights (which no row has a part in). Noise - and for DP-SGD who is in a batch - comes from the
// system's entropy. `noise_seed`, if given, replaces it to repeat an experiment: nothing is private
// then, and whoever shows the result must say so. DP-SGD's noise is the trainer's own, exact in
// integers; ALIBI's is added in double precision, and attacks on the last bits of floating-point
// noise (Mironov 2012) are not addressed there.

// DP-SGD (Abadi et al. 2016): (epsilon, delta)-DP of all parameters, for adding or removing a row.
struct DpSgdOptions {
  TrainOptions train = {};
  double epsilon = 1;
  double delta = 1e-5;
  double clip = 1;  // C: the largest norm of an example's gradient, over all parameters
  Conversion conversion = Conversion::kTight;
  std::optional<std::uint64_t> noise_seed = {};

  Status Validate() const;
};

struct DpSgdNetwork {
  Network network;
  double sigma = 0;        // noise of the sum of gradients, in units of C
  double rate = 0;         // q: with which every row is in a batch
  std::int64_t steps = 0;  // T
};

// The trainer's own private method with one network (docs/training.md), for train.expected_rows
// rows, or as many as the table has. With B = min(batch, n0), q = B / n0, T = ceil(epochs / q): T
// times, every row is drawn with probability q, g = (sum of clipped gradients + noise) / B, and one
// step is taken, also on an empty batch. One thread. Errors: options, an epsilon the accountant
// cannot prove, kInterrupted.
Result<DpSgdNetwork> TrainDpSgd(const Architecture& architecture, const Table& table,
                                const DpSgdOptions& options, std::stop_token stop = {});

// ALIBI (Malek et al. 2021): epsilon-DP of the labels only; the features are not protected.
struct AlibiOptions {
  TrainOptions train = {};
  double epsilon = 1;
  std::optional<std::uint64_t> noise_seed = {};

  Status Validate() const;
};

// Laplace noise of scale 2 / epsilon is added to the one-hot labels once; every step trains on the
// posterior of the label given its noisy self and the network's own softmax as prior. One thread.
// Errors: options, divergence, kInterrupted.
Result<Network> TrainAlibi(const Architecture& architecture, const Table& table,
                           const AlibiOptions& options, std::stop_token stop = {});

}  // namespace lucid
