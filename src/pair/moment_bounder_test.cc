#include "pair/moment_bounder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "pair/region_bounder.h"
#include "support/pair_cases.h"

namespace lucid {
namespace {

class Moments : public testing::TestWithParam<Architecture> {
 protected:
  void SetUp() override {
    if (!MomentBounder::Fits(GetParam())) GTEST_SKIP() << "this machine has no AVX2";
  }
};
INSTANTIATE_TEST_SUITE_P(Small, Moments, testing::ValuesIn(Architectures()));

// The largest N_c - N_c'' of samples that leak in the region with f and N_c - N_c'' in the band.
Exact LargestInBand(const Case& made, const Band& band, const std::vector<Point>& samples) {
  Exact largest = -kInfinity;
  for (const Point& x : samples) {
    const Values values = ValuesAt(made, x);
    const Exact f = ConfidenceOf(values.network.pre.back(), made.question.label);
    if (!Leaks(made, values) || !InRegion(made.region, x, values)) continue;
    if (f < static_cast<Exact>(band.least) || values.f > static_cast<Exact>(band.most)) continue;
    largest = std::max(largest, values.f);
  }
  return largest;
}

// In regions and bands around an input that leaks, from multipliers of nowhere, of a region around
// this one and of no meaning, solved or stopped anywhere.
TEST_P(Moments, AreNeverBelowALeakOfTheRegionAndTheBand) {
  int leaking = 0, below_lines = 0;
  const std::uint64_t seeds = GetParam().inputs() > 10 ? 10 : 80;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + GetParam().Canonical());
    Stream stream(seed, "moments");
    Case made = RandomCase(GetParam(), stream);
    made.question.below = made.question.other;  // what moments are about
    const std::vector<Point> samples = Samples(made, made.region, stream);
    made.anchor = samples.back();
    const Values values = ValuesAt(made, made.anchor);
    if (!Leaks(made, values) || !InRegion(made.region, made.anchor, values)) continue;
    const auto f =
        static_cast<double>(ConfidenceOf(values.network.pre.back(), made.question.label));
    const auto least = f - 1e-15 * std::abs(f), most = static_cast<double>(values.f);
    leaking += f > 0.001;
    RegionBounder lines(made.network);
    MomentBounder moments(made.network);
    std::vector<float> parent;
    const Region domain{UnitBox(GetParam().inputs()), {}};
    for (const double width : {1e-9, 0.01, 3.0}) {
      const Band band{made.question.label, least - width, most + 1e-15 * std::abs(most) + width};
      const Band* known = GetParam().classes() == 2 ? &band : nullptr;
      const auto whole = lines.EnterPair(domain, made.member.parameters, known);
      ASSERT_TRUE(whole);
      ASSERT_TRUE(AtOrAbove(
          moments.Bound(*whole, made.member.parameters, made.question, band, -kInfinity, parent),
          LargestInBand(made, band, samples)))
          << "domain, band of " << width;

      const auto pair = lines.EnterPair(made.region, made.member.parameters, known);
      ASSERT_TRUE(pair);
      const Exact leak = LargestInBand(made, band, samples);
      std::vector<float> cold, warm = parent, wild = RandomFloats(parent.size(), stream);
      for (std::vector<float>* start : {&cold, &warm, &wild}) {
        for (const int steps : {0, 3, 100}) {
          int taken = 0;
          std::vector<float> multipliers = *start;
          const double bound =
              moments.Bound(*pair, made.member.parameters, made.question, band, -kInfinity,
                            multipliers, [&] { return ++taken > steps; });
          ASSERT_FALSE(std::isnan(bound));
          ASSERT_TRUE(AtOrAbove(bound, leak)) << "band of " << width;
          if (start != &cold || taken > steps) continue;
          Multipliers free;
          below_lines +=
              bound < lines.Bound(*pair, made.question, free, 20, -kInfinity).value - 1e-6;
        }
      }
    }
  }
  EXPECT_GT(leaking, 2) << "the test has become easy";
  if (GetParam().inputs() > 2) EXPECT_GT(below_lines, 1) << "moments prove nothing";
}

struct Found {
  double bound;
  std::int32_t widest;
};
Found OverTheDomain(const Network& n, const Network& p, const Band& band, double enough) {
  RegionBounder lines(n);
  const Region domain{UnitBox(n.architecture.inputs()), {}};
  const auto pair = lines.EnterPair(domain, p.parameters);
  EXPECT_TRUE(pair);
  MomentBounder moments(n);
  std::vector<float> multipliers;
  const double bound = moments.Bound(*pair, p.parameters, {0, 1, 1, 0}, band, enough, multipliers);
  return {bound, moments.WidestInput()};
}

TEST(MomentBounder, ByHand) {
  // N: relu(x) - 1/2; the member: relu(x - 0.25) - 1/2: the largest leak is 1/4, at x = 3/4.
  const Architecture architecture = Hidden({{.units = 1}}, 1, 2);
  if (!MomentBounder::Fits(architecture)) GTEST_SKIP() << "this machine has no AVX2";
  const Network n{architecture, {1, 0, 1, 0, -0.5F, 0}},
      p{architecture, {1, -0.25F, 1, 0, -0.5F, 0}};
  const Found found = OverTheDomain(n, p, {0, 0.01, 0.5}, -kInfinity);
  EXPECT_GE(found.bound, 0.25);
  EXPECT_LE(found.bound, 0.26);
  EXPECT_EQ(found.widest, 0);
  EXPECT_LT(OverTheDomain(n, p, {0, 0.3, 0.5}, 0.3).bound, 0.3) << "nothing leaks above 0.3";
}

TEST(MomentBounder, WeightsThatOverflowGiveNoBoundRatherThanASmallOne) {
  const Architecture architecture =
      Hidden(std::vector<HiddenLayer>(9, HiddenLayer{.units = 3}), 2, 2);
  if (!MomentBounder::Fits(architecture)) GTEST_SKIP() << "this machine has no AVX2";
  const Network n{architecture,
                  std::vector<float>(static_cast<std::size_t>(architecture.parameters()), 3e38F)};
  Network p = n;
  p.parameters.back() = -3e38F;
  EXPECT_EQ(OverTheDomain(n, p, {0, 0, 1e300}, 0).bound, kInfinity);
}

TEST(MomentBounder, LargeNetworksDoNotFit) {
  EXPECT_FALSE(MomentBounder::Fits(Hidden({{.units = 400}, {.units = 400}}, 2, 2)));
}

// Multipliers of another network are no start, and are not read.
TEST(MomentBounder, MultipliersOfAnotherSizeAreNotUsed) {
  const Architecture architecture = Hidden({{.units = 4}, {.units = 4}}, 3, 2);
  if (!MomentBounder::Fits(architecture)) GTEST_SKIP() << "this machine has no AVX2";
  Stream stream(5, "another size");
  const Case made = RandomCase(architecture, stream);
  RegionBounder lines(made.network);
  const Region domain{UnitBox(3), {}};
  const auto pair = lines.EnterPair(domain, made.member.parameters);
  ASSERT_TRUE(pair);
  MomentBounder moments(made.network);
  const auto from = [&](std::vector<float> multipliers) {
    return moments.Bound(*pair, made.member.parameters, made.question,
                         {made.question.label, 0, 100}, -kInfinity, multipliers);
  };
  EXPECT_EQ(from({1, 2, 3}), from({}));
}

}  // namespace
}  // namespace lucid
