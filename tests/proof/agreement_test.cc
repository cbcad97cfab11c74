// The checker's bounds beside the engine's, which are other code, and beside what networks really
// do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bounds/region_bounder.h"
#include "certificate/proof_bounder.h"
#include "random/stream.h"

namespace lucid {
namespace {

constexpr std::uint64_t kSeed = 20240229;

const char* const kShapes[] = {
    "3 > dense 5 > 2", "2 > dense 8 > dense 6 > 3", "7 > dense 20 > dense 20 > 2",
    "4 > dense 6 > dense 6 > dense 6 > dense 6 > 2", "8 > conv 3 width 3 stride 2 > dense 4 > 2"};

// A network, a member near it, a region with an input in it, a question and multipliers.
struct Instance {
  explicit Instance(std::uint64_t seed)
      : stream(seed, "proof agreement"),
        network{Architecture::FromCanonical(kShapes[seed % std::size(kShapes)]).value(), {}} {
    const double distance = std::pow(10.0, -3 * stream.Uniform());
    for (std::int64_t i = 0; i < network.architecture.parameters(); ++i) {
      network.parameters.push_back(static_cast<float>(stream.Uniform(-1, 1)));
      member.push_back(network.parameters.back() +
                       static_cast<float>(distance * stream.Uniform(-1, 1)));
    }
    const double width = std::pow(10.0, -2 * stream.Uniform());
    for (std::int64_t j = 0; j < network.architecture.inputs(); ++j) {
      const double low = stream.Uniform(0, 1 - width);
      region.box.push_back({low, low + width});
    }
    inside = RandomPoint();
    FixPhases();
    const auto classes = static_cast<std::uint64_t>(network.architecture.classes());
    question.label = static_cast<std::int32_t>(stream.Below(classes));
    question.other =
        static_cast<std::int32_t>((question.label + 1 + stream.Below(classes - 1)) % classes);
    question.below =
        static_cast<std::int32_t>((question.label + 1 + stream.Below(classes - 1)) % classes);
    question.member_error = 1e-9;
  }

  std::vector<double> RandomPoint() {
    std::vector<double> x;
    for (const Interval& range : region.box) x.push_back(stream.Uniform(range.lower, range.upper));
    return x;
  }

  // Weighted sums of all layers.
  std::vector<std::vector<double>> Sums(std::span<const float> parameters,
                                        const std::vector<double>& x) const {
    std::vector<std::vector<double>> sums;
    std::vector<double> z = x;
    for (const Layer& layer : network.architecture.layers()) {
      std::vector<double>& next = sums.emplace_back();
      for (std::int64_t o = 0; o < layer.filters; ++o) {
        for (std::int64_t t = 0; t < layer.positions; ++t) {
          double sum = parameters[layer.bias_at + o];
          for (std::int64_t k = 0; k < layer.taps; ++k) {
            sum += static_cast<double>(parameters[layer.weight_at + o * layer.taps + k]) *
                   z[t * layer.stride + layer.TapOffset(k)];
          }
          next.push_back(sum);
        }
      }
      z.clear();
      for (const double sum : next) z.push_back(std::max(sum, 0.0));
    }
    return sums;
  }

  // Some neurons' phases, as they are at `inside`.
  void FixPhases() {
    const auto ours = Sums(network.parameters, inside), theirs = Sums(member, inside);
    for (std::uint64_t n = stream.Below(6); n > 0; --n) {
      const std::size_t layer = stream.Below(ours.size() - 1);
      const std::size_t unit = stream.Below(ours[layer].size());
      const bool of_member = stream.Below(2) == 1;
      const double sum = (of_member ? theirs : ours)[layer][unit];
      region.phases.push_back(
          {static_cast<std::int32_t>(layer), static_cast<std::int32_t>(unit), of_member, sum >= 0});
    }
  }

  ProofRegion CheckersRegion() const {
    ProofRegion result;
    for (const Interval& range : region.box) {
      result.lower.push_back(range.lower);
      result.upper.push_back(range.upper);
    }
    for (const PhaseSplit& phase : region.phases) {
      result.phases.push_back({phase.layer, phase.unit, phase.member, phase.active});
    }
    return result;
  }

  bool HasPhases(const std::vector<std::vector<double>>& ours,
                 const std::vector<std::vector<double>>& theirs) const {
    return std::ranges::all_of(region.phases, [&](const PhaseSplit& phase) {
      const double sum = (phase.member ? theirs : ours)[phase.layer][phase.unit];
      return phase.active ? sum >= 0 : sum <= 0;
    });
  }

  Stream stream;
  Network network;
  std::vector<float> member;
  Region region;
  std::vector<double> inside;
  PairQuestion question;
};

// Multipliers as a search leaves them, or random ones, which feel every end of every interval.
std::vector<float> SomeDual(Instance& instance, RegionBounder& engine, double& lambda) {
  Multipliers multipliers;
  engine.Bound(instance.question, multipliers, 8, -1e9);
  lambda = multipliers.lambda;
  std::vector<float> dual = engine.Dual();
  if (instance.stream.Below(2) == 0) return dual;
  lambda = 3 * instance.stream.Uniform();
  for (float& value : dual) value += static_cast<float>(instance.stream.Uniform(-1, 1));
  return dual;
}

TEST(ProofAgreement, CheckerAndEngineFindTheSameBounds) {
  double worst = 0;
  for (std::uint64_t seed = kSeed; seed < kSeed + 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Instance instance(seed);
    RegionBounder engine(instance.network);
    ProofBounder checker(instance.network);
    ASSERT_TRUE(engine.EnterRegion(instance.region));
    ASSERT_TRUE(checker.EnterRegion(instance.CheckersRegion()));
    ASSERT_TRUE(engine.EnterMember(instance.member));
    ASSERT_TRUE(checker.EnterMember(instance.member));
    double lambda = 0;
    const std::vector<float> dual = SomeDual(instance, engine, lambda);
    const double theirs = engine.BoundOfDual(instance.question, lambda, dual);
    const double ours =
        checker.Bound(instance.question.label, instance.question.other, instance.question.below,
                      instance.question.member_error, lambda, dual);
    // Large multipliers amplify what the two programs charge for rounding.
    double scale = 1 + std::abs(theirs);
    for (const float value : dual) scale += 0.1 * std::abs(value);
    const double difference = std::abs(ours - theirs) / scale;
    worst = std::max(worst, difference);
    EXPECT_LT(difference, 1e-9) << ours << " and the engine's " << theirs;
  }
  RecordProperty("worst", testing::PrintToString(worst));
}

// Points of the region, their sums inside the intervals, and f - lambda (g - e) below every bound,
// whatever the multipliers.
TEST(ProofAgreement, NoInputContradictsTheChecker) {
  constexpr double kRounding = 1e-12;  // of this test's own evaluation
  std::int64_t points = 0;
  for (std::uint64_t seed = kSeed; seed < kSeed + 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Instance instance(seed);
    RegionBounder engine(instance.network);
    ASSERT_TRUE(engine.EnterRegion(instance.region) && engine.EnterMember(instance.member));
    double lambda = 0;
    const std::vector<float> dual = SomeDual(instance, engine, lambda);
    for (const Ties ties : {Ties::kRule, Ties::kAsComputed, Ties::kLast}) {
      ProofBounder checker(instance.network);
      ASSERT_TRUE(checker.EnterRegion(instance.CheckersRegion(), ties));
      ASSERT_TRUE(checker.EnterMember(instance.member));
      const PairQuestion& q = instance.question;
      const double bound = checker.Bound(q.label, q.other, q.below, q.member_error, lambda, dual);
      for (int n = 0; n < 100; ++n) {
        std::vector<double> x = n == 0 ? instance.inside : instance.RandomPoint();
        if (n % 3 == 1) {  // corners, where bounds are tight
          for (std::size_t j = 0; j < x.size(); ++j) {
            const Interval range = instance.region.box[j];
            x[j] = instance.stream.Below(2) == 0 ? range.lower : range.upper;
          }
        }
        const auto ours = instance.Sums(instance.network.parameters, x);
        const auto theirs = instance.Sums(instance.member, x);
        if (!instance.HasPhases(ours, theirs)) continue;
        ++points;
        for (std::size_t m = 0; m + 1 < ours.size(); ++m) {
          for (std::size_t k = 0; k < ours[m].size(); ++k) {
            const Interval sum = checker.Sum(m, k), difference = checker.Difference(m, k);
            const double d = theirs[m][k] - ours[m][k];
            EXPECT_GE(ours[m][k], sum.lower - kRounding);
            EXPECT_LE(ours[m][k], sum.upper + kRounding);
            EXPECT_GE(d, difference.lower - kRounding);
            EXPECT_LE(d, difference.upper + kRounding);
          }
        }
        const double f = ours.back()[q.label] - ours.back()[q.below];
        const double g = theirs.back()[q.label] - theirs.back()[q.other];
        EXPECT_LE(f - lambda * (g - q.member_error), bound + kRounding * (1 + lambda));
      }
    }
  }
  EXPECT_GT(points, 20'000);
}

// A corner of the polygon that is not looked at shows here: random points of random polygons.
TEST(ProofAgreement, PeakIsAboveEveryPairAndReached) {
  Stream stream(kSeed, "proof polygons");
  for (int n = 0; n < 20'000; ++n) {
    SumPolygon p;
    const double l = stream.Uniform(-1, 1), a = stream.Uniform(-1, 1);
    p = {l, l + stream.Uniform(), a, a + stream.Uniform(), static_cast<int>(stream.Below(3)) - 1};
    double c[4];
    for (double& value : c) value = stream.Uniform(-1, 1);
    const double peak = PeakUp(p, c[0], c[1], c[2], c[3]);
    for (int i = 0; i < 30; ++i) {
      const double z_hat = stream.Uniform(p.l, p.u), d_hat = stream.Uniform(p.a, p.b);
      if (p.sign * (z_hat + d_hat) < 0) continue;
      const double z = std::max(z_hat, 0.0), delta = std::max(z_hat + d_hat, 0.0) - z;
      ASSERT_LE(c[0] * z + c[1] * delta - c[2] * z_hat - c[3] * d_hat, peak + 1e-15);
      for (const bool split : {false, true}) {
        const NeuronLines lines = ChooseLines(p, split, Ties::kRule);
        const auto at = [&](const DifferenceLine& line) {
          return line.q * d_hat + line.p * z_hat + line.r * z + line.t;
        };
        ASSERT_LE(delta, at(lines.over) + 1e-14);
        ASSERT_GE(delta, at(lines.under) - 1e-14);
        ASSERT_LE(z, lines.output.su * z_hat + lines.output.tu + 1e-15);
        ASSERT_GE(z, lines.output.sl * z_hat - 1e-15);
      }
    }
  }
}

}  // namespace
}  // namespace lucid
