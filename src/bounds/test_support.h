// Exact evaluation of small networks, and the inputs to try them at.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "bounds/neuron_bounds.h"
#include "hyper/test_support.h"

namespace lucid {

using Exact = __float128;  // see kParameterGrid: no rounding anywhere below
using Point = std::vector<double>;

inline constexpr double kInputGrid = 0x1p-10;

struct ExactValues {
  std::vector<std::vector<Exact>> pre, post;  // [layer][unit]
};

inline ExactValues Evaluate(const Network& network, const Point& x) {
  ExactValues values;
  std::vector<Exact> z(x.begin(), x.end());
  for (const Layer& layer : network.architecture.layers()) {
    std::vector<Exact> sums(static_cast<std::size_t>(layer.outputs));
    for (std::int64_t o = 0; o < layer.filters; ++o) {
      for (std::int64_t t = 0; t < layer.positions; ++t) {
        Exact sum = network.parameters[layer.bias_at + o];
        for (std::int64_t k = 0; k < layer.taps; ++k) {
          sum += static_cast<Exact>(network.parameters[layer.weight_at + o * layer.taps + k]) *
                 z[t * layer.stride + layer.TapOffset(k)];
        }
        sums[o * layer.positions + t] = sum;
      }
    }
    values.pre.push_back(sums);
    if (layer.relu) {
      for (Exact& sum : sums) sum = sum > 0 ? sum : 0;
    }
    values.post.push_back(sums);
    z = sums;
  }
  return values;
}

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

// f or g: output `label` minus the largest other one.
inline Exact ConfidenceOf(const std::vector<Exact>& outputs, std::int32_t label) {
  Exact confidence = 1e30;
  for (std::size_t other = 0; other < outputs.size(); ++other) {
    if (other == static_cast<std::size_t>(label)) continue;
    confidence = std::min(confidence, outputs[label] - outputs[other]);
  }
  return confidence;
}

}  // namespace lucid
