// Exact evaluation of small networks, and the inputs to try them at.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "pair/neuron_bounds.h"
#include "support/exact_pass.h"
#include "support/random_networks.h"

namespace lucid {

using Point = std::vector<double>;

inline constexpr double kInputGrid = 0x1p-10;

inline Architecture Hidden(std::vector<HiddenLayer> hidden, std::int64_t inputs,
                           std::int64_t classes) {
  return Architecture::Build(hidden, inputs, classes).value();
}

// In the names of tests, which would have addresses in them otherwise.
inline void PrintTo(const Architecture& architecture, std::ostream* out) {
  *out << architecture.Canonical();
}

// Dense and convolutional, 1 to 4 hidden layers, 2 to 4 classes.
inline std::vector<Architecture> SmallArchitectures() {
  using enum HiddenLayer::Kind;
  return {
      Hidden({{kDense, 4}}, 3, 2),
      Hidden({{kDense, 5}, {kDense, 4}}, 3, 3),
      Hidden({{kDense, 4}, {kDense, 4}, {kDense, 3}}, 2, 4),
      Hidden({{kDense, 3}, {kDense, 4}, {kDense, 3}, {kDense, 4}}, 4, 2),
      Hidden({{kConv, 2, 3, 1}}, 6, 2),
      Hidden({{kConv, 3, 3, 2}, {kDense, 4}}, 8, 3),
      Hidden({{kConv, 2, 3, 1}, {kConv, 3, 2, 2}, {kDense, 3}}, 8, 2),
  };
}

// A number on the input grid inside the interval, whose ends are on the grid.
inline double RandomOnGrid(Interval range, Stream& stream) {
  const double steps = (range.upper - range.lower) / kInputGrid;
  return range.lower +
         kInputGrid * static_cast<double>(stream.Below(static_cast<std::uint64_t>(steps) + 1));
}

inline Box RandomBox(std::int64_t inputs, Stream& stream) {
  Box box;
  for (std::int64_t i = 0; i < inputs; ++i) {
    const double a = RandomOnGrid({0, 1}, stream), b = RandomOnGrid({0, 1}, stream);
    box.push_back({std::min(a, b), std::max(a, b)});
  }
  return box;
}

inline Point RandomPoint(const Box& box, Stream& stream) {
  Point x;
  for (const Interval& side : box) x.push_back(RandomOnGrid(side, stream));
  return x;
}

inline Point RandomCorner(const Box& box, Stream& stream) {
  Point x;
  for (const Interval& side : box) x.push_back(stream.Below(2) == 0 ? side.lower : side.upper);
  return x;
}

// Two neighbours on the grid between which a neuron changes its phase, found by bisection along one
// coordinate; the ends of that coordinate if it does not.
inline std::vector<Point> AroundKink(const Network& network, const Box& box, Stream& stream) {
  const auto hidden = std::ssize(network.architecture.layers()) - 1;
  const auto layer = stream.Below(static_cast<std::uint64_t>(hidden));
  const auto unit =
      stream.Below(static_cast<std::uint64_t>(network.architecture.layers()[layer].outputs));
  const auto j = stream.Below(box.size());
  Point low = RandomPoint(box, stream), high = low;
  low[j] = box[j].lower;
  high[j] = box[j].upper;
  const auto active = [&](const Point& x) { return Evaluate(network, x).pre[layer][unit] > 0; };
  const bool at_low = active(low);
  while (at_low != active(high) && high[j] - low[j] > kInputGrid) {
    Point middle = low;
    const double steps = std::floor((high[j] - low[j]) / kInputGrid / 2);
    middle[j] += steps * kInputGrid;
    (active(middle) == at_low ? low : high) = middle;
  }
  return {low, high};
}

inline std::vector<Point> PointsToTry(const Network& network, const Box& box, Stream& stream) {
  std::vector<Point> points;
  points.reserve(10);
  for (int i = 0; i < 3; ++i) points.push_back(RandomPoint(box, stream));
  for (int i = 0; i < 3; ++i) points.push_back(RandomCorner(box, stream));
  for (int i = 0; i < 2; ++i) {
    for (Point& x : AroundKink(network, box, stream)) points.push_back(std::move(x));
  }
  return points;
}

inline testing::AssertionResult Holds(const Interval& bound, Exact value) {
  if (static_cast<Exact>(bound.lower) <= value && value <= static_cast<Exact>(bound.upper)) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << static_cast<double>(value) << " is outside of ["
                                     << bound.lower << ", " << bound.upper << "]";
}

inline bool Within(const Interval& inner, const Interval& outer) {
  return outer.lower <= inner.lower && inner.upper <= outer.upper;
}

inline Network HandMade(const std::string& architecture, std::vector<float> parameters) {
  return {Architecture::FromCanonical(architecture).value(), std::move(parameters)};
}

// Moves the output biases so that all classes tie at a random input: otherwise most random networks
// have one class only.
inline void Balance(Network& network, Stream& stream) {
  const Point x = RandomPoint(UnitBox(network.architecture.inputs()), stream);
  const std::vector<Exact> outputs = Evaluate(network, x).pre.back();
  for (std::size_t c = 0; c < outputs.size(); ++c) {
    float& bias = network.parameters[network.architecture.layers().back().bias_at + c];
    bias = OnGrid(bias - static_cast<double>(outputs[c]));
  }
}

// The same function of the means of groups of inputs: `copies` inputs for each of the network's.
// The means run over [0,1], so beta is the same; with more than ten inputs the native engine splits
// phases. Requires: dense layers; `copies` a power of two, which floats divide by exactly.
inline Network Repeated(const Network& network, std::int64_t copies) {
  std::vector<HiddenLayer> hidden;
  const auto layers = network.architecture.layers();
  for (const Layer& layer : layers.first(layers.size() - 1)) {
    hidden.push_back({.units = layer.outputs});
  }
  const Layer& first = layers.front();
  Network wide{Hidden(hidden, first.inputs * copies, network.architecture.classes()), {}};
  for (std::int64_t unit = 0; unit < first.outputs; ++unit) {
    for (std::int64_t j = 0; j < first.inputs * copies; ++j) {
      const float weight = network.parameters[first.weight_at + unit * first.inputs + j / copies];
      wide.parameters.push_back(weight / static_cast<float>(copies));
    }
  }
  wide.parameters.insert(wide.parameters.end(), network.parameters.begin() + first.bias_at,
                         network.parameters.end());
  return wide;
}

}  // namespace lucid
