// Faults of private training that an audit has to find, planted in the plan that the trainer
// follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lucid/data/units.h"
#include "train/plan.h"

namespace lucid {

// What a faulty trainer would do, beside a manifest that states the truth.
class PlanWithFaults {
 public:
  static void ScaleNoise(TrainPlan& plan, double factor) {
    for (std::int32_t& x : plan.noise_) x = static_cast<std::int32_t>(x * factor);
  }
  static void ClipHigher(TrainPlan& plan, float factor) { plan.clipping_->clip *= factor; }
  // All steps have the units of the first one.
  static void ShareCoinsOfSteps(TrainPlan& plan) {
    const std::vector<std::int32_t> first(
        plan.lists_.begin(), plan.lists_.begin() + static_cast<std::ptrdiff_t>(plan.starts_[1]));
    plan.lists_.clear();
    for (std::size_t step = 0; step + 1 < plan.starts_.size(); ++step) {
      plan.starts_[step] = plan.lists_.size();
      plan.lists_.insert(plan.lists_.end(), first.begin(), first.end());
    }
    plan.starts_.back() = plan.lists_.size();
  }
  // Inputs are standardised by what is exactly so of the rows.
  static void ForgetNoiseOfMoments(TrainPlan& plan) {
    plan.moments_.emplace(plan.architecture_, *plan.table_, plan.unit_of_, plan.options_,
                          WipedVector<std::int64_t>());
  }
  // All steps have the noise of the first one.
  static void ShareNoise(TrainPlan& plan) {
    const auto size = static_cast<std::size_t>(plan.architecture().parameters());
    for (std::size_t i = size; i < plan.noise_.size(); ++i) plan.noise_[i] = plan.noise_[i % size];
  }
  // Keys that are positions: T is no longer a function of the set of units.
  static TableKeys KeysByPosition(const Table& table) {
    TableKeys keys = TableKeys::Of(table);
    for (std::size_t i = 0; i < keys.rows.size(); ++i) {
      keys.rows[i] = keys.units[i] = Sha256Of(std::to_string(i));
    }
    return keys;
  }
};

}  // namespace lucid
