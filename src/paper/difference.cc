#include "paper/difference.h"

#include <algorithm>

namespace lucid {
namespace {

// One unit's I_z^ (the formula of the header). `z_member` is z' + I_z' of the layer below.
Interval SumDifference(const Network& network, const HyperNetwork& hyper, const Layer& layer,
                       std::int64_t filter, std::int64_t position,
                       std::span<const Interval> difference, std::span<const Interval> z_member) {
  const auto parameter_difference = [&](std::int64_t at) {
    return Interval{hyper.lower()[at], hyper.upper()[at]} - Interval::Point(network.parameters[at]);
  };
  Interval sum = parameter_difference(layer.bias_at + filter);
  for (std::int64_t k = 0; k < layer.taps; ++k) {
    const std::int64_t at = layer.weight_at + filter * layer.taps + k;
    const std::int64_t input = position * layer.stride + layer.TapOffset(k);
    const double w = network.parameters[at];
    sum = sum + (w * difference[input] + parameter_difference(at) * z_member[input]);
  }
  return sum;
}

}  // namespace

DifferenceBounds PropagateDifferences(const Network& network, const HyperNetwork& hyper,
                                      const NeuronBounds& bounds) {
  DifferenceBounds differences;
  const Architecture& architecture = network.architecture;
  std::vector<Interval> below(static_cast<std::size_t>(architecture.inputs()));  // I_z0 = [0, 0]
  std::vector<Interval> z_member;
  for (std::int64_t m = 0; m < std::ssize(architecture.layers()); ++m) {
    const Layer& layer = architecture.layers()[m];
    z_member.clear();
    for (std::int64_t k = 0; k < layer.inputs; ++k) {
      z_member.push_back(bounds.Post(architecture, m - 1, k) + below[k]);
    }
    auto& pre = differences.pre.emplace_back();
    for (std::int64_t o = 0; o < layer.filters; ++o) {
      for (std::int64_t t = 0; t < layer.positions; ++t) {
        pre.push_back(SumDifference(network, hyper, layer, o, t, below, z_member));
      }
    }
    below = pre;
    if (layer.relu) {
      // relu is monotone and 1-Lipschitz: its difference lies between 0 and that of the sums.
      for (Interval& unit : below) unit = Hull(unit, Interval::Point(0));
    }
    differences.post.push_back(below);
  }
  return differences;
}

}  // namespace lucid
