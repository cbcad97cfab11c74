// Descent by first and second moments of a gradient, one parameter after the other.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace lucid {

class Adam {
 public:
  // `decay`: of the rate, from step to step.
  Adam(std::size_t parameters, double rate, double decay)
      : mean_(parameters, 0.0), square_(parameters, 0.0), rate_(rate), decay_(decay) {}

  void NextStep() {
    at_ = 0;
    mean_power_ *= kMeanDecay;
    square_power_ *= kSquareDecay;
    if (started_) rate_ *= decay_;
    started_ = true;
  }
  // The next parameter's step, to be subtracted; of size 1 times the rate.
  double Step(double gradient) {
    double& mean = mean_[at_];
    double& square = square_[at_++];
    mean = kMeanDecay * mean + (1 - kMeanDecay) * gradient;
    square = kSquareDecay * square + (1 - kSquareDecay) * gradient * gradient;
    return rate_ * (mean / (1 - mean_power_)) / (std::sqrt(square / (1 - square_power_)) + 1e-12);
  }

  void Shrink() { rate_ *= kShrink; }

 private:
  static constexpr double kMeanDecay = 0.5, kSquareDecay = 0.9, kShrink = 0.3;

  std::vector<double> mean_, square_;
  double rate_, decay_;
  double mean_power_ = 1, square_power_ = 1;
  std::size_t at_ = 0;
  bool started_ = false;
};

}  // namespace lucid
