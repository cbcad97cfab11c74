#include "paper/repair.h"

#include <algorithm>
#include <limits>

#include "random/stream.h"

namespace lucid {

WorstNetwork::WorstNetwork(const HyperNetwork& hyper, std::int32_t label)
    : hyper_(hyper), label_(label) {
  const auto lower = hyper.lower(), upper = hyper.upper();
  centre_.reserve(lower.size());
  for (std::size_t i = 0; i < lower.size(); ++i) {
    centre_.push_back(std::clamp(0.5F * lower[i] + 0.5F * upper[i], lower[i], upper[i]));
  }
  influence_.resize(lower.size());
  for (const Layer& layer : hyper.architecture().layers()) {
    values_.emplace_back(static_cast<std::size_t>(layer.inputs));
    slopes_.emplace_back(static_cast<std::size_t>(layer.outputs));
  }
}

double WorstNetwork::Slopes(std::span<const double> x) {
  const auto layers = hyper_.architecture().layers();
  std::vector<double> outputs;
  std::ranges::copy(x, values_[0].begin());
  std::vector<std::vector<char>> active(layers.size());
  for (std::size_t m = 0; m < layers.size(); ++m) {
    const Layer& layer = layers[m];
    outputs.assign(static_cast<std::size_t>(layer.outputs), 0);
    for (std::int64_t unit = 0; unit < layer.outputs; ++unit) {
      const std::int64_t o = unit / layer.positions, t = unit % layer.positions;
      double sum = parameters_[layer.bias_at + o];
      for (std::int64_t k = 0; k < layer.taps; ++k) {
        sum += parameters_[layer.weight_at + o * layer.taps + k] *
               values_[m][t * layer.stride + layer.TapOffset(k)];
      }
      active[m].push_back(!layer.relu || sum > 0);
      outputs[unit] = active[m].back() != 0 ? sum : 0;
    }
    if (m + 1 < layers.size()) values_[m + 1] = outputs;
  }
  std::size_t other = label_ == 0 ? 1 : 0;
  for (std::size_t c = 0; c < outputs.size(); ++c) {
    if (c != static_cast<std::size_t>(label_) && outputs[c] > outputs[other]) other = c;
  }
  std::ranges::fill(slopes_.back(), 0.0);
  slopes_.back()[label_] = 1;
  slopes_.back()[other] = -1;
  std::ranges::fill(influence_, 0.0);
  for (std::size_t m = layers.size(); m-- > 0;) {
    const Layer& layer = layers[m];
    std::vector<double> below(static_cast<std::size_t>(layer.inputs), 0);
    for (std::int64_t unit = 0; unit < layer.outputs; ++unit) {
      const std::int64_t o = unit / layer.positions, t = unit % layer.positions;
      const double slope = slopes_[m][unit];
      // An inactive neuron passes no slope down, but the slope by its own sum still decides on
      // which side its own parameters stand.
      influence_[layer.bias_at + o] += slope;
      for (std::int64_t k = 0; k < layer.taps; ++k) {
        const std::int64_t at = layer.weight_at + o * layer.taps + k;
        const std::int64_t input = t * layer.stride + layer.TapOffset(k);
        influence_[at] += slope * values_[m][input];
        if (active[m][unit] != 0) below[input] += slope * parameters_[at];
      }
    }
    if (m > 0) slopes_[m - 1] = std::move(below);
  }
  return outputs[label_] - outputs[other];
}

std::span<const float> WorstNetwork::At(std::span<const double> x) {
  constexpr int kSweeps = 3;  // signs move the network, and the moved network has other signs
  parameters_ = centre_;
  best_ = centre_;
  double least = Slopes(x);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i] = influence_[i] > 0 ? hyper_.lower()[i] : hyper_.upper()[i];
    }
    const double confidence = Slopes(x);
    if (confidence >= least) break;
    least = confidence;
    best_ = parameters_;
  }
  return best_;
}

Repair::Repair(const Network& network, const HyperNetwork& hyper, const Subset& subset,
               std::int32_t label, WitnessKeeper& witnesses)
    : architecture_(network.architecture),
      subset_(subset),
      label_(label),
      witnesses_(witnesses),
      worst_(hyper, label),
      network_(network.architecture, network.parameters, label),
      ascent_(network.architecture.inputs()) {}

double Repair::Near(std::span<const double> start) {
  constexpr int kRounds = 3;
  double best = -std::numeric_limits<double>::infinity();
  std::vector<double> x(start.begin(), start.end());
  for (double& value : x) value = std::clamp(value, 0.0, 1.0);
  for (int round = 0; round < kRounds; ++round) {
    member_.Assign(architecture_, worst_.At(x), label_);
    const auto value = ascent_.Climb(network_, member_, {}, x);
    if (!value || *value <= best) break;
    best = *value;
    if (subset_.size() == 1) {
      witnesses_.Try(x, subset_.front());
      break;  // the worst network is the member itself
    }
  }
  return best;
}

double Repair::Anywhere(std::uint64_t seed) {
  constexpr int kStarts = 24;
  double best = -std::numeric_limits<double>::infinity();
  Stream stream(seed, "feasible points of a subset");
  std::vector<double> x(static_cast<std::size_t>(architecture_.inputs()));
  for (int start = 0; start < kStarts; ++start) {
    const bool corner = start % 2 == 0;
    for (double& value : x) {
      value = corner ? static_cast<double>(stream.Below(2)) : stream.Uniform();
    }
    best = std::max(best, Near(x));
  }
  return best;
}

}  // namespace lucid
