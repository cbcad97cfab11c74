#include "pair/region_bounder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "support/pair_cases.h"

namespace lucid {
namespace {

class Bounder : public testing::TestWithParam<Architecture> {};
INSTANTIATE_TEST_SUITE_P(Small, Bounder, testing::ValuesIn(Architectures()));

TEST_P(Bounder, IsNeverBelowALeakOfTheRegionWhateverTheMultipliers) {
  int leaking = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + GetParam().Canonical());
    Stream stream(seed, "region bounder");
    const Case made = RandomCase(GetParam(), stream);
    const std::vector<Point> samples = Samples(made, made.region, stream);
    const Exact leak = LargestLeak(made, made.region, samples);
    leaking += leak > 0.001;
    RegionBounder bounder(made.network);

    // Multipliers of another region, which the next one starts from.
    const Region domain{UnitBox(GetParam().inputs()), {}};
    const auto whole = bounder.EnterPair(domain, made.member.parameters);
    ASSERT_TRUE(whole);
    Multipliers parent;
    ASSERT_TRUE(AtOrAbove(bounder.Bound(*whole, made.question, parent, 5, -kInfinity).value, leak));

    const auto region = bounder.Enter(made.region);
    ASSERT_TRUE(region);
    PairQuestion same = made.question;
    same.below = same.other;
    Case same_made = made;
    same_made.question = same;
    const Exact same_leak = LargestLeak(same_made, made.region, samples);
    ASSERT_TRUE(
        AtOrAbove(bounder.IntervalBound(*region, made.member.parameters, same).value, same_leak));
    const auto pair = bounder.Enter(*region, made.member.parameters);
    ASSERT_TRUE(pair);
    for (const int steps : {0, 5, 20}) {
      Multipliers fresh, warm = parent, wild;
      wild.lambda = std::exp2(stream.Uniform(-10, 6));
      wild.slopes = RandomFloats(3 * HiddenUnits(GetParam()), stream);
      wild.pushes = RandomFloats(made.region.phases.size(), stream);
      const double from_fresh = bounder.Bound(*pair, made.question, fresh, steps, -kInfinity).value;
      ASSERT_TRUE(AtOrAbove(from_fresh, leak)) << steps << " steps";
      ASSERT_TRUE(
          AtOrAbove(bounder.Bound(*pair, made.question, warm, steps, -kInfinity).value, leak))
          << steps << " steps from another region's";
      ASSERT_TRUE(
          AtOrAbove(bounder.Bound(*pair, made.question, wild, steps, -kInfinity).value, leak))
          << steps << " steps from anywhere";
      ASSERT_TRUE(AtOrAbove(bounder.Bound(*pair, made.question, fresh, 0, -kInfinity).value, leak))
          << "from its own";
    }
    const std::vector<float> dual = RandomFloats(2 * HiddenUnits(GetParam()), stream);
    for (const double lambda : {0.0, 1.0, std::exp2(stream.Uniform(-20, 20))}) {
      ASSERT_TRUE(AtOrAbove(bounder.BoundOfDual(*pair, made.question, lambda, dual).value, leak))
          << lambda;
    }
  }
  EXPECT_GT(leaking, 10) << "the test has become easy";
}

// A bound against a mixture is one of that mixture's value, whatever the weights; a bound against
// any mixture is one of the least difference.
TEST_P(Bounder, AMixtureIsNeverBelowALeakOfTheRegion) {
  if (GetParam().classes() == 2) return;
  int leaking = 0, mixtures = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + GetParam().Canonical());
    Stream stream(seed, "mixture");
    Case made = RandomCase(GetParam(), stream);
    const std::vector<Point> samples = Samples(made, made.region, stream);
    RegionBounder bounder(made.network);
    const auto pair = bounder.EnterPair(made.region, made.member.parameters);
    ASSERT_TRUE(pair);
    made.question.mix = true;
    const Exact least = LargestLeak(made, made.region, samples);
    leaking += least > 0.001;
    for (const int steps : {0, 5, 20}) {
      Multipliers fresh, wild;
      wild.lambda = std::exp2(stream.Uniform(-10, 6));
      wild.slopes = RandomFloats(3 * HiddenUnits(GetParam()), stream);
      wild.weights = RandomWeights(GetParam(), made.question.label, stream);
      wild.below = made.question.other;
      for (Multipliers* start : {&fresh, &wild}) {
        std::vector<float> dual;
        const double bound =
            bounder.Bound(*pair, made.question, *start, steps, -kInfinity, &dual).value;
        ASSERT_TRUE(AtOrAbove(bound, least)) << steps << " steps";
        // What the search was about in the end.
        Case found = made;
        found.question = start->Applied(made.question);
        found.question.mix = false;
        mixtures += !found.question.weights.empty();
        const Exact mixed = LargestLeak(found, made.region, samples);
        ASSERT_TRUE(AtOrAbove(bound, mixed)) << steps << " steps";
        const double again = bounder.BoundOfDual(*pair, found.question, start->lambda, dual).value;
        ASSERT_TRUE(AtOrAbove(again, mixed));
      }
    }
    made.question.mix = false;
    made.question.weights = RandomWeights(GetParam(), made.question.label, stream);
    const Exact mixed = LargestLeak(made, made.region, samples);
    const std::vector<float> dual = RandomFloats(2 * HiddenUnits(GetParam()), stream);
    for (const double lambda : {0.0, 1.0, std::exp2(stream.Uniform(-20, 20))}) {
      ASSERT_TRUE(AtOrAbove(bounder.BoundOfDual(*pair, made.question, lambda, dual).value, mixed));
    }
  }
  EXPECT_GT(leaking, 5) << "the test has become easy";
  EXPECT_GT(mixtures, 0) << "no mixture was found to be good";
}

// Every case is one bounder's next region: what an earlier one left behind must not matter.
TEST_P(Bounder, GivesTheSameBitsAfterAnyOtherRegionAndMember) {
  Stream stream(7, "same bounder");
  const Case made = RandomCase(GetParam(), stream);
  RegionBounder used(made.network);
  for (int i = 0; i < 30; ++i) {
    SCOPED_TRACE(i);
    Case next = made;
    next.member = NearTo(made.network, 0.2, stream);
    next.anchor = BoundaryPoint(next, stream);
    next.region.box = BoxAround(next.anchor, stream);
    next.region.phases = PhasesAt(next, next.anchor, 0.3, stream);
    RegionBounder unused(made.network);
    double bounds[2];
    RegionBounder* bounders[] = {&used, &unused};
    for (int b = 0; b < 2; ++b) {
      const auto pair = bounders[b]->EnterPair(next.region, next.member.parameters);
      ASSERT_TRUE(pair);
      Multipliers multipliers;
      bounds[b] = bounders[b]->Bound(*pair, next.question, multipliers, 5, -kInfinity).value;
    }
    EXPECT_EQ(bounds[0], bounds[1]);
  }
}

// Facts are values: entering other regions, and asking for other bounds, leaves them as they are.
TEST_P(Bounder, FactsStayWhatTheyAreWhileOthersAreFound) {
  Stream stream(11, "facts are values");
  const Case made = RandomCase(GetParam(), stream);
  RegionBounder bounder(made.network);
  const auto pair = bounder.EnterPair(made.region, made.member.parameters);
  ASSERT_TRUE(pair);
  Multipliers first;
  const double bound = bounder.Bound(*pair, made.question, first, 5, -kInfinity).value;
  const SplitAdvice advice = bounder.Advise(*pair, made.question, first, -kInfinity);
  for (int i = 0; i < 5; ++i) {
    const Network other = NearTo(made.network, 0.2, stream);
    const Region domain{UnitBox(GetParam().inputs()), {}};
    const auto between = bounder.EnterPair(domain, other.parameters);
    ASSERT_TRUE(between);
    Multipliers multipliers;
    bounder.Bound(*between, made.question, multipliers, i, -kInfinity);
    bounder.IntervalBound(*between.region, other.parameters, made.question);
    Multipliers again;
    EXPECT_EQ(bounder.Bound(*pair, made.question, again, 5, -kInfinity).value, bound);
    bounder.Bound(*between, made.question, multipliers, i, -kInfinity);
    const SplitAdvice same = bounder.Advise(*pair, made.question, again, -kInfinity);
    EXPECT_EQ(same.point, advice.point);
    EXPECT_EQ(same.input, advice.input);
    EXPECT_EQ(same.phase, advice.phase);
  }
}

// One neuron's bias is moved so that its sum just reaches 0 in the region, at an input that a climb
// found: with an interval of the sum (or of the difference) that is too narrow, the region with the
// neuron's phase there would be taken for empty.
TEST_P(Bounder, ARegionIsNotEmptyIfASumJustReachesItsPhase) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + GetParam().Canonical());
    Stream stream(seed, "just reached");
    Case made = RandomCase(GetParam(), stream);
    const auto hidden = static_cast<std::uint64_t>(GetParam().layers().size() - 1);
    PhaseSplit phase;
    phase.layer = static_cast<std::int32_t>(hidden - 1 - stream.Below(1 + hidden / 2));
    const Layer& layer = GetParam().layers()[phase.layer];
    phase.unit = static_cast<std::int32_t>(stream.Below(static_cast<std::uint64_t>(layer.outputs)));
    phase.member = stream.Below(3) != 0;
    phase.active = stream.Below(2) == 0;
    std::erase_if(made.region.phases,
                  [&](const PhaseSplit& other) { return other.layer >= phase.layer; });
    const auto sum_of = [&](const Values& values) {
      return (phase.member ? values.member : values.network).pre[phase.layer][phase.unit];
    };
    Point best = made.anchor;
    Exact most = sum_of(ValuesAt(made, best));
    for (int i = 0; i < 60; ++i) {
      Point x = i < 10 ? RandomCorner(made.region.box, stream) : best;
      if (i >= 10) {
        const std::size_t j = stream.Below(x.size());
        const Interval side = made.region.box[j];
        x[j] = i % 3 == 0 ? side.lower
               : i % 3 == 1
                   ? side.upper
                   : std::clamp(stream.Uniform(side.lower, side.upper), side.lower, side.upper);
      }
      const Values values = ValuesAt(made, x);
      const Exact sum = sum_of(values);
      if (!InRegion(made.region, x, values) || (phase.active ? sum <= most : sum >= most)) {
        continue;
      }
      best = x;
      most = sum;
    }
    Network& network = phase.member ? made.member : made.network;
    float& bias = network.parameters[layer.bias_at + phase.unit / layer.positions];
    const auto shifted = static_cast<float>(bias - static_cast<double>(most));
    bias = std::nextafter(shifted, phase.active ? 1e30F : -1e30F);
    made.region.phases.push_back(phase);
    made.anchor = best;
    const Values values = ValuesAt(made, best);
    // A filter's bias is that of other neurons, too, whose phases may have changed.
    if (!InRegion(made.region, best, values)) continue;
    RegionBounder bounder(made.network);
    const auto pair = bounder.EnterPair(made.region, made.member.parameters);
    ASSERT_TRUE(pair.region) << "UNSOUND: N's interval";
    ASSERT_TRUE(pair) << "UNSOUND: a difference's interval";
    Multipliers multipliers;
    const double bound = bounder.Bound(*pair, made.question, multipliers, 5, -kInfinity).value;
    if (Leaks(made, values)) {
      ASSERT_TRUE(AtOrAbove(bound, values.f));
    }
  }
}

// A search halves and splits around the optimum until its bound is the optimum's own value.
TEST_P(Bounder, BoxesAndPhasesAroundAnOptimumNeverCutItOff) {
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + GetParam().Canonical());
    Stream stream(seed, "planted optimum");
    Case made = RandomCase(GetParam(), stream);
    made.region = {UnitBox(GetParam().inputs()), {}};
    made.anchor = Samples(made, made.region, stream).back();
    const Values values = ValuesAt(made, made.anchor);
    if (!Leaks(made, values)) continue;
    RegionBounder bounder(made.network);
    Multipliers multipliers;
    for (const double size : {1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-5, 1e-7, 0.0}) {
      SCOPED_TRACE(size);
      Box box;
      for (const double x : made.anchor) {
        const double at = stream.Uniform();
        box.push_back({std::max(x - at * size, 0.0), std::min(x + (1 - at) * size, 1.0)});
      }
      for (const double share : {0.0, 0.3, 1.0}) {
        const Region region{box, PhasesAt(made, made.anchor, share, stream)};
        const auto pair = bounder.EnterPair(region, made.member.parameters);
        ASSERT_TRUE(pair);
        ASSERT_TRUE(AtOrAbove(bounder.Bound(*pair, made.question, multipliers, 5, -kInfinity).value,
                              values.f));
      }
    }
  }
}

testing::AssertionResult RangesHold(const PairFacts& pair, const Values& values) {
  const auto rounding = static_cast<Exact>(kExactRounding);
  for (std::size_t m = 0; m + 1 < values.network.pre.size(); ++m) {
    const PairRanges& r = pair.ranges(m);
    for (std::size_t k = 0; k < values.network.pre[m].size(); ++k) {
      const Exact sum = values.network.pre[m][k], difference = values.member.pre[m][k] - sum;
      const auto at = static_cast<std::int64_t>(k);
      if (sum < r.l[at] - rounding || sum > r.u[at] + rounding || difference < r.a[at] - rounding ||
          difference > r.b[at] + rounding) {
        return testing::AssertionFailure() << "UNSOUND: layer " << m << ", unit " << k;
      }
    }
  }
  return testing::AssertionSuccess();
}

// Bands that a leak is just inside of, on both sides: what the half spaces leave of the intervals
// holds it still.
TEST_P(Bounder, ABandNeverCutsOffALeakInIt) {
  int smaller = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + GetParam().Canonical());
    Stream stream(seed, "band");
    const auto leaking = RandomLeakingCase(GetParam(), stream);
    if (!leaking) continue;
    const Case& made = leaking->made;
    const Values& values = leaking->values;
    const double f = leaking->f, slack = leaking->slack;
    RegionBounder bounder(made.network);
    RegionBounder::EnteredPair pair;
    const auto bound = [&](const Band* band) {
      pair = bounder.EnterPair(made.region, made.member.parameters, band);
      EXPECT_TRUE(pair) << "UNSOUND";
      Multipliers multipliers;
      return bounder.Bound(*pair, made.question, multipliers, 5, -kInfinity).value;
    };
    const double without = bound(nullptr);
    for (const double width : {0.0, 0.01, 1.0}) {
      const Band band{made.question.label, f - slack - width, f + slack + width};
      const double with = bound(&band);
      ASSERT_TRUE(AtOrAbove(with, values.f)) << "band of " << width;
      ASSERT_TRUE(RangesHold(*pair, values)) << "band of " << width;
      smaller += with < without - 1e-6;
    }
    EXPECT_EQ(bound(nullptr), without) << "a band left something behind";
  }
  if (GetParam().inputs() > 1) EXPECT_GT(smaller, 0) << "bands show nowhere";
}

// What the layers above one leave to it, and lines over what the last one is asked for, at every
// sample: by the networks in 128 bits.
TEST_P(Bounder, RestsAndLinesAreAboveWhatTheyStandFor) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + GetParam().Canonical());
    Stream stream(seed, "rests");
    const Case made = RandomCase(GetParam(), stream);
    RegionBounder bounder(made.network);
    const auto pair = bounder.EnterPair(made.region, made.member.parameters);
    ASSERT_TRUE(pair);
    for (const Point& x : Samples(made, made.region, stream)) {
      const Values values = ValuesAt(made, x);
      if (!InRegion(made.region, x, values)) continue;
      const auto sum = [&](std::size_t m, std::span<const double> z,
                           std::span<const double> delta) {
        Exact total = 0;
        for (std::size_t k = 0; k < z.size(); ++k) {
          const Exact ours = values.network.post[m][k];
          total += static_cast<Exact>(z[k]) * ours +
                   static_cast<Exact>(delta[k]) * (values.member.post[m][k] - ours);
        }
        return total;
      };
      const std::size_t hidden = GetParam().layers().size() - 1;
      for (std::size_t m = 0; m < hidden; ++m) {
        const double lambda = stream.Below(2) == 0 ? 1 : stream.Uniform(0, 3);
        const std::vector<float> pushes =
            RandomFloats(stream.Below(made.region.phases.size() + 1), stream);
        const RegionBounder::Rest rest = bounder.RestOf(*pair, m, made.question, lambda, pushes);
        const Exact truth =
            values.f - static_cast<Exact>(lambda) *
                           (values.g - static_cast<Exact>(made.question.member_error));
        EXPECT_GE(static_cast<Exact>(rest.constant) + sum(m, rest.z, rest.delta),
                  truth - static_cast<Exact>(kExactRounding))
            << "UNSOUND, layer " << m;
      }
      std::vector<double> z, delta;
      for (std::int64_t k = 0; k < GetParam().layers()[hidden - 1].outputs; ++k) {
        z.push_back(stream.Uniform(-1, 1));
        delta.push_back(stream.Uniform(-3, 3));
      }
      for (const OpenSlopes lines : {OpenSlopes::kDefault, OpenSlopes::kFlat}) {
        const RegionBounder::Line line = bounder.LineOver(*pair, z, delta, lines);
        Exact over = line.constant;
        for (std::size_t j = 0; j < x.size(); ++j)
          over += static_cast<Exact>(line.slopes[j]) * x[j];
        EXPECT_GE(over, sum(hidden - 1, z, delta) - static_cast<Exact>(kExactRounding))
            << "UNSOUND, " << (lines == OpenSlopes::kFlat ? "flat" : "default");
      }
    }
  }
}

TEST_P(Bounder, DualInFloatsGivesTheBoundAgain) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "dual");
    const Case made = RandomCase(GetParam(), stream);
    RegionBounder bounder(made.network);
    const auto pair = bounder.EnterPair(made.region, made.member.parameters);
    ASSERT_TRUE(pair);
    double at_first = kInfinity;
    std::vector<float> dual;
    for (const int steps : {0, 5, 20}) {
      Multipliers multipliers;
      const double bound =
          bounder.Bound(*pair, made.question, multipliers, steps, -kInfinity, &dual).value;
      ASSERT_EQ(dual.size(), 2 * HiddenUnits(GetParam()));
      const double slack = 1e-4 * std::abs(bound) + 1e-6 * (1 + multipliers.lambda);
      EXPECT_NEAR(bounder.BoundOfDual(*pair, made.question, multipliers.lambda, dual).value, bound,
                  slack)
          << steps;
      EXPECT_LE(bound, at_first + slack) << "descent keeps the best";
      at_first = std::min(at_first, bound);
    }
  }
}

TEST_P(Bounder, AtAPointIsTheLagrangianAndSettlesWhetherTheMemberLeaks) {
  int leaking = 0, safe = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "point region");
    Case made = RandomCase(GetParam(), stream);
    if (seed % 2 == 0) made.anchor = UniformPoint(UnitBox(GetParam().inputs()), stream);
    const Values values = ValuesAt(made, made.anchor);
    Region region;
    for (const double x : made.anchor) region.box.push_back({x, x});
    region.phases = PhasesAt(made, made.anchor, stream.Below(2) == 0 ? 0 : 0.5, stream);
    RegionBounder bounder(made.network);
    const auto pair = bounder.EnterPair(region, made.member.parameters);
    ASSERT_TRUE(pair);
    Multipliers multipliers;
    std::vector<float> dual;
    const double bound =
        bounder.Bound(*pair, made.question, multipliers, 0, -kInfinity, &dual).value;
    const auto f = static_cast<double>(values.f);
    const double excess = static_cast<double>(values.g) - made.question.member_error;
    const double lagrangian = f - multipliers.lambda * excess;
    EXPECT_NEAR(bound, lagrangian, 1e-9 * (1 + std::abs(f) + multipliers.lambda));
    if (Leaks(made, values)) {
      ++leaking;
      EXPECT_TRUE(AtOrAbove(bound, values.f));
      EXPECT_NEAR(bounder.BoundOfDual(*pair, made.question, 0, dual).value, f, 1e-5);
      EXPECT_TRUE(AtOrAbove(bounder.BoundOfDual(*pair, made.question, 0, dual).value, values.f));
    } else if (excess > 1e-9) {
      ++safe;
      EXPECT_LT(bound, f);
    }
  }
  EXPECT_GT(leaking, 5);
  EXPECT_GT(safe, 5);
}

TEST_P(Bounder, ARegionWithPhasesThatNoInputHasIsFoundEmptyOrBoundedAnyhow) {
  int empty = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Stream stream(seed, "empty region");
    Case made = RandomCase(GetParam(), stream);
    for (std::size_t j = 0; j < made.anchor.size(); ++j) {
      made.region.box[j] = {made.anchor[j], made.anchor[j]};
    }
    made.region.phases = PhasesAt(made, made.anchor, 0.5, stream);
    if (made.region.phases.empty()) continue;
    PhaseSplit& wrong = made.region.phases[stream.Below(made.region.phases.size())];
    wrong.active = !wrong.active;
    const Values values = ValuesAt(made, made.anchor);
    const Exact sum = (wrong.member ? values.member : values.network).pre[wrong.layer][wrong.unit];
    RegionBounder bounder(made.network);
    const bool entered = static_cast<bool>(bounder.EnterPair(made.region, made.member.parameters));
    if (std::abs(static_cast<double>(sum)) > 1e-6) {
      EXPECT_FALSE(entered) << "seed " << seed;
      ++empty;
    }
  }
  EXPECT_GT(empty, 5);
}

TEST_P(Bounder, AdvisesASplitThatExists) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "advice");
    const Case made = RandomCase(GetParam(), stream);
    RegionBounder bounder(made.network);
    const auto pair = bounder.EnterPair(made.region, made.member.parameters);
    ASSERT_TRUE(pair);
    Multipliers multipliers;
    bounder.Bound(*pair, made.question, multipliers, 5, -kInfinity);
    const SplitAdvice advice = bounder.Advise(*pair, made.question, multipliers, -kInfinity);
    for (const std::optional<PhaseSplit>& phase : {advice.phase, advice.other_phase}) {
      if (!phase) continue;
      ASSERT_LT(static_cast<std::size_t>(phase->layer), GetParam().layers().size() - 1);
      EXPECT_LT(phase->unit, GetParam().layers()[phase->layer].outputs);
      for (const PhaseSplit& known : made.region.phases) {
        EXPECT_FALSE(known.layer == phase->layer && known.unit == phase->unit &&
                     known.member == phase->member)
            << "split already";
      }
    }
    const bool point = std::ranges::all_of(
        made.region.box, [](const Interval& side) { return side.lower == side.upper; });
    EXPECT_EQ(advice.input < 0, point);
    if (advice.input >= 0) {
      EXPECT_LT(made.region.box[advice.input].lower, made.region.box[advice.input].upper);
    }
    for (std::size_t j = 0; j < made.region.box.size(); ++j) {
      EXPECT_GE(advice.point[j], made.region.box[j].lower - 1e-12);
      EXPECT_LE(advice.point[j], made.region.box[j].upper + 1e-12);
    }
  }
}

TEST(RegionBounder, WeightsThatOverflowGiveNoBoundRatherThanASmallOne) {
  int leaking = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Stream stream(seed, "region overflow");
    const auto layers = static_cast<std::size_t>(1 + stream.Below(9));
    const Architecture architecture =
        Hidden(std::vector<HiddenLayer>(layers, HiddenLayer{.units = 3}), 2, 2);
    Case made{{architecture, {}}, {architecture, {}}, {0, 1, 1, 0}, {}, {UnitBox(2), {}}};
    for (std::int64_t i = 0; i < architecture.parameters(); ++i) {
      made.network.parameters.push_back(static_cast<float>(static_cast<int>(stream.Below(3)) - 1) *
                                        1e38F);
      made.member.parameters.push_back(
          stream.Below(4) == 0 ? stream.Below(2) == 0 ? 0 : -made.network.parameters.back()
                               : made.network.parameters.back());
    }
    RegionBounder bounder(made.network);
    const auto pair = bounder.EnterPair(made.region, made.member.parameters);
    ASSERT_TRUE(pair);
    const double interval =
        bounder.IntervalBound(*pair.region, made.member.parameters, made.question).value;
    Multipliers first, second;
    const double bounds[] = {
        interval, bounder.Bound(*pair, made.question, first, 0, -kInfinity).value,
        bounder.Bound(*pair, made.question, second, 5, -kInfinity).value,
        bounder.BoundOfDual(*pair, made.question, 1, RandomFloats(6 * layers, stream)).value};
    for (const Point& x : {Point{0, 0}, Point{1, 0}, Point{0, 1}, Point{1, 1}, Point{0.5, 0.25}}) {
      const Values values = ValuesAt(made, x);
      if (!Leaks(made, values)) continue;
      leaking += values.f > 0;
      for (const double bound : bounds) {
        // Exact rounds one part in 2^112; nothing here is that close.
        EXPECT_FALSE(std::isnan(bound));
        EXPECT_TRUE(static_cast<Exact>(bound) >= values.f * (values.f > 0 ? 1 - 1e-25L : 1))
            << bound << " " << static_cast<double>(values.f);
      }
    }
  }
  EXPECT_GT(leaking, 5);
}

// Three classes of relu(x): N_0 = 1/4, N_1 = x - 1/2, N_2 = 1/2 - x, so that N's confidence in
// class 0 is 1/4 - |x - 1/2|. The member gives another class everywhere. Against one class the
// bound over [0, 1] is 3/4 at best, against the two in equal parts it is 1/4, the truth.
TEST(RegionBounder, AMixtureClosesWhatNoSingleClassCloses) {
  const Architecture architecture = Hidden({{.units = 1}}, 1, 3);
  const Network network{architecture, {1, 0, 0, 1, -1, 0.25F, -0.5F, 0.5F}};
  Network member = network;
  member.parameters[5] -= 2;
  RegionBounder bounder(network);
  const auto pair = bounder.EnterPair({UnitBox(1), {}}, member.parameters);
  ASSERT_TRUE(pair);
  for (const std::int32_t other : {1, 2}) {
    for (const std::int32_t below : {1, 2}) {
      Multipliers multipliers;
      const double bound =
          bounder.Bound(*pair, {0, other, below, 0}, multipliers, 20, -kInfinity).value;
      EXPECT_GE(bound, 0.75);
    }
    Multipliers multipliers;
    const PairQuestion any{0, other, other, 0, {}, true};
    const double bound = bounder.Bound(*pair, any, multipliers, 0, -kInfinity).value;
    EXPECT_NEAR(bound, 0.25, 0.01);
    EXPECT_GE(bound, 0.25);
    EXPECT_THAT(multipliers.Applied(any).weights, testing::ElementsAre(0, 128, 128));
  }
}

TEST(Mixtures, AreWholeNumbersThatAddUp) {
  Stream stream(5, "weights");
  for (int n = 0; n < 2000; ++n) {
    const auto classes = 3 + stream.Below(300);
    PairQuestion question;
    question.label = static_cast<std::int32_t>(stream.Below(classes));
    std::vector<double> weights(classes, 0.0);
    for (double& weight : weights) {
      if (stream.Below(4) != 0) weight = std::exp2(stream.Uniform(-12, 3));
    }
    weights[static_cast<std::size_t>(question.label)] = 0;
    const bool any = std::ranges::any_of(weights, [](double weight) { return weight > 0; });
    MixClasses(weights, question);
    if (!any) {
      EXPECT_TRUE(question.weights.empty());
      continue;
    }
    EXPECT_NE(question.below, question.label);
    if (question.weights.empty()) continue;
    EXPECT_EQ(
        ProblemOfWeights(question.weights, static_cast<std::int64_t>(classes), question.label), "");
    const std::vector<double> back = MixtureOf(question, static_cast<std::int64_t>(classes));
    EXPECT_EQ(std::accumulate(back.begin(), back.end(), 0.0), 1);
  }
  PairQuestion question;
  MixClasses(std::vector<double>{0, 1, 1e-9}, question);
  EXPECT_TRUE(question.weights.empty());
  EXPECT_EQ(question.below, 1);
  MixClasses(std::vector<double>{0, std::nan(""), 1}, question);
  EXPECT_EQ(question.below, 1) << "no number is no advice";
}

// The planes 2 w_1 - w_2 and 3 w_2 meet at w = (2/3, 1/3). The planes 2 - lambda and lambda - w_1
// meet at lambda = 1.5 with w_1 = 1.
TEST(Mixtures, TheModelFindsWhereItsPlanesMeet) {
  MixtureModel model(0);
  model.Add(std::vector<double>{0, 2, -1}, 0);
  model.Add(std::vector<double>{0, 0, 3}, 0);
  const MixtureModel::Advice flat = model.Best(1);
  EXPECT_NEAR(flat.weights[1], 2.0 / 3, 1e-9);
  EXPECT_NEAR(flat.weights[2], 1.0 / 3, 1e-9);
  EXPECT_NEAR(flat.value, 1, 1e-9);
  model.Add(std::vector<double>{0, 1, 1}, -1);
  EXPECT_NEAR(model.Best(1).value, 1, 1e-9);
  MixtureModel with_lambda(0);
  with_lambda.Add(std::vector<double>{0, 2, 2}, -1);
  with_lambda.Add(std::vector<double>{0, -1, 0}, 1);
  const MixtureModel::Advice best = with_lambda.Best(4);
  EXPECT_NEAR(best.weights[1], 1, 1e-9);
  EXPECT_NEAR(best.lambda, 1.5, 1e-9);
  EXPECT_NEAR(best.value, 0.5, 1e-9);
}

TEST(RegionBounder, ByHand) {
  // N: relu(x) - 1/2; the member: relu(x - 0.25) - 1/2. The member is at or below 0 for x <= 3/4,
  // where N has 1/4. All is linear once the phases are known.
  const Architecture architecture = Hidden({{.units = 1}}, 1, 2);
  const Network n{architecture, {1, 0, 1, 0, -0.5F, 0}},
      p{architecture, {1, -0.25F, 1, 0, -0.5F, 0}};
  RegionBounder bounder(n);
  const Region upper{{{0.5, 1}}, {}};
  const auto pair = bounder.EnterPair(upper, p.parameters);
  ASSERT_TRUE(pair);
  Multipliers multipliers;
  EXPECT_NEAR(bounder.Bound(*pair, {0, 1, 1, 0}, multipliers, 0, -kInfinity).value, 0.25, 1e-12);
  const Region high{{{0.8, 1}}, {}};
  const auto there = bounder.EnterPair(high, p.parameters);
  ASSERT_TRUE(there);
  EXPECT_LT(bounder.Bound(*there, {0, 1, 1, 0}, multipliers, 0, -kInfinity).value, 0.25)
      << "nothing leaks there";
}

// N's first sum is 0 at x = 0.5 and both of its phases hold there; the member's is -0.25.
TEST(RegionBounder, ANeuronThatIsOffInBothNetworksCountsNothingWhateverItsLines) {
  const Architecture architecture = Hidden({{.units = 1}, {.units = 1}}, 1, 2);
  const Network network{architecture, {1, -0.5F, -1, -0.125F, 0, 1, 0.5F, 0}};
  const Network member{architecture, {0.5F, -0.5F, -1, 0.125F, 0, 1, 0, 0}};
  const Region region{{{0.25, 1}},
                      {{0, 0, false, true}, {0, 0, false, false}, {0, 0, true, false}}};
  const PairQuestion question{0, 1, 1, 0};
  RegionBounder bounder(network);
  const auto pair = bounder.EnterPair(region, member.parameters);
  ASSERT_TRUE(pair) << "UNSOUND: x = 0.5 is in the region";
  Multipliers multipliers;
  // There f = 0.5 and g = -0.125.
  EXPECT_GE(bounder.Bound(*pair, question, multipliers, 5, -kInfinity).value, 0.5);
}

TEST(DenseLayers, ComputeWhatTheNetworkComputes) {
  for (const Architecture& architecture : SmallArchitectures()) {
    Stream stream(3, "dense layers");
    const Network network = RandomNetwork(architecture, stream);
    const std::vector<DenseLayer> dense = DenseLayers(network);
    const Point x = RandomPoint(UnitBox(architecture.inputs()), stream);
    const ExactValues values = Evaluate(network, x);
    std::vector<Exact> z(x.begin(), x.end());
    for (std::size_t m = 0; m < dense.size(); ++m) {
      std::vector<Exact> next;
      for (std::int64_t k = 0; k < dense[m].weights.rows; ++k) {
        Exact sum = dense[m].bias[k];
        for (std::size_t j = 0; j < z.size(); ++j) {
          sum += static_cast<Exact>(dense[m].weights.row(k)[j]) * z[j];
        }
        EXPECT_TRUE(sum == values.pre[m][k]) << architecture.Canonical() << " " << m << " " << k;
        next.push_back(sum > 0 ? sum : 0);
      }
      z = next;
    }
  }
}

}  // namespace
}  // namespace lucid
