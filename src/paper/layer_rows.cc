#include "paper/layer_rows.h"
#include "numeric/rounding.h"

namespace lucid {
namespace {

// Requires: range.lower < 0 < range.upper.
template <typename TagOf>
std::int32_t AddRelu(MilpModel& model, std::int32_t sum, Interval range, bool relaxed,
                     const TagOf& tag) {
  const std::int32_t z = model.AddColumn({0, range.upper}, 0, tag(NeuronPart::kOutput));
  model.AddRow(0, kInfinity, {{z, 1}, {sum, -1}}, tag(NeuronPart::kAbove));  // z >= z^
  if (relaxed) {
    // z <= s (z^ - l), s >= u / (u - l): above the chord for z^ in [l, u] for any such s.
    const double slope = DivUp(range.upper, NextDown(range.upper - range.lower));
    model.AddRow(-kInfinity, MulUp(slope, -range.lower), {{z, 1}, {sum, -slope}},
                 tag(NeuronPart::kInactive));
    return z;
  }
  const std::int32_t active = model.AddBinary(tag(NeuronPart::kPhase));
  // z <= u a
  model.AddRow(-kInfinity, 0, {{z, 1}, {active, -range.upper}}, tag(NeuronPart::kActive));
  // z <= z^ - l (1 - a)
  model.AddRow(-kInfinity, -range.lower, {{z, 1}, {sum, -1}, {active, -range.lower}},
               tag(NeuronPart::kInactive));
  return z;
}

}  // namespace

std::int64_t NeuronTag(int network, std::size_t layer, std::int64_t unit, NeuronPart part) {
  constexpr std::int64_t kParts = 16, kUnits = std::int64_t{1} << 32, kLayers = 1 << 16;
  return ((network * kLayers + static_cast<std::int64_t>(layer)) * kUnits + unit) * kParts +
         static_cast<std::int64_t>(part);
}

std::int32_t AddWeightedSum(MilpModel& model, int network, std::size_t m, const HyperNetwork& hyper,
                            std::int64_t unit, Interval range, const LayerColumns& below) {
  const Layer& layer = hyper.architecture().layers()[m];
  const auto tag = [&](NeuronPart part) { return NeuronTag(network, m, unit, part); };
  const std::int64_t o = unit / layer.positions, t = unit % layer.positions;
  const std::int32_t sum = model.AddColumn(range, 0, tag(NeuronPart::kSum));
  const double bias_low = hyper.lower()[layer.bias_at + o];
  const double bias_high = hyper.upper()[layer.bias_at + o];
  std::vector<Term> low = {{sum, 1}}, high = {{sum, 1}};
  bool point = bias_low == bias_high;
  for (std::int64_t k = 0; k < layer.taps; ++k) {
    const std::int32_t column = below[t * layer.stride + layer.TapOffset(k)];
    if (column < 0) continue;
    const std::int64_t at = layer.weight_at + o * layer.taps + k;
    point = point && hyper.lower()[at] == hyper.upper()[at];
    low.push_back({column, -static_cast<double>(hyper.lower()[at])});
    high.push_back({column, -static_cast<double>(hyper.upper()[at])});
  }
  if (point) {
    model.AddRow(bias_low, bias_low, low, tag(NeuronPart::kSumLow));
  } else {
    model.AddRow(bias_low, kInfinity, low, tag(NeuronPart::kSumLow));
    model.AddRow(-kInfinity, bias_high, high, tag(NeuronPart::kSumHigh));
  }
  return sum;
}

LayerColumns AddLayer(MilpModel& model, int network, std::size_t m, const HyperNetwork& hyper,
                      const NeuronBounds& bounds, const LayerColumns& below,
                      const std::vector<char>* relaxed, SumColumns& sums) {
  const Layer& layer = hyper.architecture().layers()[m];
  LayerColumns outputs;
  sums.emplace_back(static_cast<std::size_t>(layer.outputs), -1);
  outputs.reserve(static_cast<std::size_t>(layer.outputs));
  for (std::int64_t unit = 0; unit < layer.outputs; ++unit) {
    const Interval range = bounds.pre[m][unit];
    if (layer.relu && range.upper <= 0) {  // always inactive
      outputs.push_back(-1);
      continue;
    }
    const std::int32_t sum = AddWeightedSum(model, network, m, hyper, unit, range, below);
    sums.back()[unit] = sum;
    if (!layer.relu || range.lower >= 0) {  // always active: z = z^
      outputs.push_back(sum);
    } else {
      const auto tag = [&](NeuronPart part) { return NeuronTag(network, m, unit, part); };
      outputs.push_back(
          AddRelu(model, sum, range, relaxed != nullptr && (*relaxed)[unit] != 0, tag));
    }
  }
  return outputs;
}

}  // namespace lucid
