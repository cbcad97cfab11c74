// Pairs of networks with a region and an input that leaks in it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "lucid/certificate/proof.h"
#include "numeric/rounding.h"
#include "pair/mixture.h"
#include "pair/region_bounder.h"
#include "pair/test_support.h"

namespace lucid {

// How far Evaluate may be off at inputs that are not on the grid: 113 bits, values below 2^14.
inline constexpr double kExactRounding = 1e-25;

inline std::vector<Architecture> Architectures() {
  using enum HiddenLayer::Kind;
  std::vector<Architecture> all = SmallArchitectures();
  all.push_back(Hidden({{kDense, 1}}, 1, 2));
  all.push_back(Hidden({{kDense, 17}, {kDense, 9}}, 2, 2));
  all.push_back(Hidden({{kDense, 9}, {kDense, 9}}, 12, 3));
  return all;
}

// N, a member, a region that holds `anchor`, and a question.
struct Case {
  Network network, member;
  PairQuestion question;
  Point anchor;
  Region region;
};

struct Values {
  Exact f, g;  // N_c less what the question measures it against, P_c - P_c''
  ExactValues network, member;
};

inline Values ValuesAt(const Case& made, const Point& x) {
  Values values{0, 0, Evaluate(made.network, x), Evaluate(made.member, x)};
  const PairQuestion& q = made.question;
  const std::vector<Exact>& outputs = values.network.pre.back();
  if (!q.weights.empty()) {
    for (std::size_t j = 0; j < outputs.size(); ++j) {
      values.f += static_cast<Exact>(q.weights[j]) * (outputs[q.label] - outputs[j]);
    }
    values.f /= kWholeWeight;
  } else {
    values.f = q.mix ? ConfidenceOf(outputs, q.label) : outputs[q.label] - outputs[q.below];
  }
  values.g = values.member.pre.back()[q.label] - values.member.pre.back()[q.other];
  return values;
}

inline bool Leaks(const Case& made, const Values& values) {
  return values.g <= static_cast<Exact>(made.question.member_error);
}

inline bool InRegion(const Region& region, const Point& x, const Values& values) {
  for (std::size_t j = 0; j < x.size(); ++j) {
    if (x[j] < region.box[j].lower || x[j] > region.box[j].upper) return false;
  }
  return std::ranges::all_of(region.phases, [&](const PhaseSplit& phase) {
    const ExactValues& of = phase.member ? values.member : values.network;
    const Exact sum = of.pre[phase.layer][phase.unit];
    return phase.active ? sum >= 0 : sum <= 0;
  });
}

// Two classes tie at a random input: otherwise most random networks have one class only.
inline void Balance(Network& network, std::int32_t label, std::int32_t other, const Point& x) {
  const std::vector<Exact> outputs = Evaluate(network, x).pre.back();
  network.parameters[network.architecture.layers().back().bias_at + label] -=
      static_cast<float>(outputs[label] - outputs[other]);
}

inline Point UniformPoint(const Box& box, Stream& stream) {
  Point x;
  for (const Interval& side : box) {
    x.push_back(std::clamp(stream.Uniform(side.lower, side.upper), side.lower, side.upper));
  }
  return x;
}

// An input just inside { g <= member_error }, where leaks are largest; any if g has one sign.
inline Point BoundaryPoint(const Case& made, Stream& stream) {
  const Box unit = UnitBox(made.network.architecture.inputs());
  Point in, out;
  for (int i = 0; i < 20 && (in.empty() || out.empty()); ++i) {
    const Point x = i % 2 == 0 ? UniformPoint(unit, stream) : RandomCorner(unit, stream);
    (Leaks(made, ValuesAt(made, x)) ? in : out) = x;
  }
  if (in.empty() || out.empty()) return UniformPoint(unit, stream);
  for (int i = 0; i < 40; ++i) {
    Point middle;
    for (std::size_t j = 0; j < in.size(); ++j) middle.push_back(0.5 * (in[j] + out[j]));
    (Leaks(made, ValuesAt(made, middle)) ? in : out) = middle;
  }
  return in;
}

// A box of 0 or 1e-3 to 1 around x, not in its middle.
inline Box BoxAround(const Point& x, Stream& stream) {
  Box box;
  const bool point = stream.Below(12) == 0;
  const double width = std::pow(10, stream.Uniform(-3, 0.3));
  for (const double value : x) {
    const double below = width * stream.Uniform(), above = width * stream.Uniform();
    box.push_back(point || stream.Below(10) == 0
                      ? Interval{value, value}
                      : Interval{std::max(value - below, 0.0), std::min(value + above, 1.0)});
  }
  return box;
}

// The phases that some of the neurons have at x.
inline std::vector<PhaseSplit> PhasesAt(const Case& made, const Point& x, double share,
                                        Stream& stream) {
  const Values values = ValuesAt(made, x);
  std::vector<PhaseSplit> phases;
  for (const bool member : {false, true}) {
    const auto& pre = (member ? values.member : values.network).pre;
    for (std::size_t m = 0; m + 1 < pre.size(); ++m) {
      for (std::size_t k = 0; k < pre[m].size(); ++k) {
        if (stream.Uniform() >= share) continue;
        phases.push_back(
            {static_cast<std::int32_t>(m), static_cast<std::int32_t>(k), member, pre[m][k] >= 0});
      }
    }
  }
  stream.Shuffle(phases);
  return phases;
}

inline PairQuestion RandomQuestion(const Architecture& architecture, Stream& stream) {
  const auto classes = static_cast<std::uint64_t>(architecture.classes());
  PairQuestion question;
  question.label = static_cast<std::int32_t>(stream.Below(classes));
  const auto another = [&] {
    const auto skip = static_cast<std::int32_t>(1 + stream.Below(classes - 1));
    return (question.label + skip) % static_cast<std::int32_t>(classes);
  };
  question.other = another();
  question.below = another();
  question.member_error = stream.Below(2) == 0 ? 0 : std::exp2(stream.Uniform(-40, -8));
  return question;
}

// Weights of at least two classes other than the question's own. Requires: at least three classes.
inline std::vector<std::uint8_t> RandomWeights(const Architecture& architecture, std::int32_t label,
                                               Stream& stream) {
  PairQuestion question;
  while (question.weights.empty()) {
    std::vector<double> weights(static_cast<std::size_t>(architecture.classes()), 0.0);
    for (double& weight : weights) {
      if (stream.Below(3) != 0) weight = stream.Uniform();
    }
    weights[static_cast<std::size_t>(label)] = 0;
    MixClasses(weights, question);
  }
  return question.weights;
}

inline Case RandomCase(const Architecture& architecture, Stream& stream) {
  Case made{RandomNetwork(architecture, stream), {}, RandomQuestion(architecture, stream), {}, {}};
  const Box unit = UnitBox(architecture.inputs());
  Balance(made.network, made.question.label, made.question.other, UniformPoint(unit, stream));
  constexpr double kDistances[] = {0, 1e-4, 0.01, 0.1, 0.5, 1.5};
  made.member = NearTo(made.network, kDistances[stream.Below(std::size(kDistances))], stream);
  made.anchor = BoundaryPoint(made, stream);
  made.region.box = BoxAround(made.anchor, stream);
  constexpr double kShares[] = {0, 0.1, 0.5, 1};
  made.region.phases =
      PhasesAt(made, made.anchor, kShares[stream.Below(std::size(kShares))], stream);
  return made;
}

// Inputs of the region: random ones, corners, and a climb of f along leaking ones.
inline std::vector<Point> Samples(const Case& made, const Region& region, Stream& stream) {
  std::vector<Point> samples = {made.anchor};
  for (int i = 0; i < 6; ++i) samples.push_back(UniformPoint(region.box, stream));
  for (int i = 0; i < 6; ++i) samples.push_back(RandomCorner(region.box, stream));
  Point best = made.anchor;
  Exact best_f = ValuesAt(made, best).f;
  double share = 1;
  for (int i = 0; i < 40; ++i) {
    Point x = best;
    const bool one = stream.Below(2) == 0;
    const std::size_t only = stream.Below(x.size());
    for (std::size_t j = 0; j < x.size(); ++j) {
      if (one && j != only) continue;
      const Interval side = region.box[j];
      const double reach = share * (side.upper - side.lower);
      x[j] = std::clamp(x[j] + stream.Uniform(-reach, reach), side.lower, side.upper);
    }
    const Values values = ValuesAt(made, x);
    if (Leaks(made, values) && InRegion(region, x, values) && values.f > best_f) {
      best = x;
      best_f = values.f;
    } else {
      share *= 0.85;
    }
  }
  samples.push_back(best);
  return samples;
}

// A case whose anchor is an input of its region that leaks.
struct LeakingCase {
  Case made;
  Values values;     // at the anchor
  double f = 0;      // N's confidence there
  double slack = 0;  // more than f is rounded by
};

// None: the input that climbs end at does not leak in the region.
inline std::optional<LeakingCase> RandomLeakingCase(const Architecture& architecture,
                                                    Stream& stream) {
  LeakingCase leaking;
  leaking.made = RandomCase(architecture, stream);
  Case& made = leaking.made;
  made.anchor = Samples(made, made.region, stream).back();
  leaking.values = ValuesAt(made, made.anchor);
  if (!Leaks(made, leaking.values) || !InRegion(made.region, made.anchor, leaking.values)) {
    return std::nullopt;
  }
  leaking.f =
      static_cast<double>(ConfidenceOf(leaking.values.network.pre.back(), made.question.label));
  leaking.slack = 1e-15 * std::abs(leaking.f);
  return leaking;
}

// The largest f of the samples that lie in the region and leak; -inf if none does.
inline Exact LargestLeak(const Case& made, const Region& region,
                         const std::vector<Point>& samples) {
  Exact largest = -kInfinity;
  for (const Point& x : samples) {
    const Values values = ValuesAt(made, x);
    if (Leaks(made, values) && InRegion(region, x, values)) {
      largest = std::max(largest, values.f);
    }
  }
  return largest;
}

inline testing::AssertionResult AtOrAbove(double bound, Exact leak) {
  if (static_cast<Exact>(bound) >= leak - static_cast<Exact>(kExactRounding)) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << "UNSOUND: " << bound << " is below a leak of " << static_cast<double>(leak) << " by "
         << static_cast<double>(leak - static_cast<Exact>(bound));
}

inline float RandomFloat(Stream& stream) {
  const double size = std::exp2(stream.Uniform(-20, 10));
  return static_cast<float>(stream.Below(5) == 0 ? 0 : stream.Below(2) == 0 ? size : -size);
}

inline std::vector<float> RandomFloats(std::size_t count, Stream& stream) {
  std::vector<float> values(count);
  for (float& value : values) value = RandomFloat(stream);
  return values;
}

inline std::size_t HiddenUnits(const Architecture& architecture) {
  std::int64_t units = 0;
  for (const Layer& layer : architecture.layers()) units += layer.relu ? layer.outputs : 0;
  return static_cast<std::size_t>(units);
}

// Windows that overlap, that do not, with inputs that none sees, a single one; with nothing or two
// layers above.
inline std::vector<Architecture> SmallConvolutions() {
  using enum HiddenLayer::Kind;
  return {
      Hidden({{kConv, 2, 3, 1}}, 6, 2),
      Hidden({{kConv, 3, 3, 2}, {kDense, 4}}, 8, 3),
      Hidden({{kConv, 2, 3, 1}, {kConv, 3, 2, 2}, {kDense, 3}}, 8, 2),
      Hidden({{kConv, 2, 2, 1}, {kConv, 2, 2, 1}, {kDense, 3}, {kDense, 2}}, 7, 2),
      Hidden({{kConv, 1, 1, 1}, {kDense, 2}}, 3, 2),
      Hidden({{kConv, 2, 2, 3}, {kDense, 3}}, 9, 2),
      Hidden({{kConv, 2, 6, 1}, {kDense, 2}}, 6, 4),
  };
}

}  // namespace lucid
