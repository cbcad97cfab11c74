#include "bounds/moment_bounder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "bounds/pair_cases.h"

namespace lucid {
namespace {

class Moments : public testing::TestWithParam<Architecture> {
 protected:
  void SetUp() override {
    const Network any = RandomNetwork(GetParam(), *std::make_unique<Stream>(0, "any"));
    if (!MomentBounder(any).Fits()) GTEST_SKIP() << "this machine has no AVX2";
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
      ASSERT_TRUE(lines.EnterRegion(domain, GetParam().classes() == 2 ? &band : nullptr));
      ASSERT_TRUE(lines.EnterMember(made.member.parameters));
      ASSERT_TRUE(AtOrAbove(
          moments.Bound(lines, made.member.parameters, made.question, band, -kInfinity, parent),
          LargestInBand(made, band, samples)))
          << "domain, band of " << width;

      ASSERT_TRUE(lines.EnterRegion(made.region, GetParam().classes() == 2 ? &band : nullptr));
      ASSERT_TRUE(lines.EnterMember(made.member.parameters));
      const Exact leak = LargestInBand(made, band, samples);
      std::vector<float> cold, warm = parent, wild = RandomFloats(parent.size(), stream);
      for (std::vector<float>* start : {&cold, &warm, &wild}) {
        for (const int steps : {0, 3, 100}) {
          int taken = 0;
          std::vector<float> multipliers = *start;
          const double bound =
              moments.Bound(lines, made.member.parameters, made.question, band, -kInfinity,
                            multipliers, [&] { return ++taken > steps; });
          ASSERT_FALSE(std::isnan(bound));
          ASSERT_TRUE(AtOrAbove(bound, leak)) << "band of " << width;
          if (start != &cold || taken > steps) continue;
          Multipliers free;
          below_lines += bound < lines.Bound(made.question, free, 20, -kInfinity) - 1e-6;
        }
      }
    }
  }
  EXPECT_GT(leaking, 2) << "the test has become easy";
  if (GetParam().inputs() > 2) EXPECT_GT(below_lines, 1) << "moments prove nothing";
}

TEST(MomentBounder, ByHand) {
  // N: relu(x) - 1/2; the member: relu(x - 0.25) - 1/2: the largest leak is 1/4, at x = 3/4.
  const Architecture architecture = Hidden({{.units = 1}}, 1, 2);
  const Network n{architecture, {1, 0, 1, 0, -0.5F, 0}},
      p{architecture, {1, -0.25F, 1, 0, -0.5F, 0}};
  RegionBounder lines(n);
  MomentBounder moments(n);
  if (!moments.Fits()) GTEST_SKIP() << "this machine has no AVX2";
  const Region domain{UnitBox(1), {}};
  ASSERT_TRUE(lines.EnterRegion(domain));
  ASSERT_TRUE(lines.EnterMember(p.parameters));
  std::vector<float> multipliers;
  const double bound =
      moments.Bound(lines, p.parameters, {0, 1, 1, 0}, {0, 0.01, 0.5}, -kInfinity, multipliers);
  EXPECT_GE(bound, 0.25);
  EXPECT_LE(bound, 0.26);
  EXPECT_EQ(moments.WidestInput(), 0);
  // No input with N above 0.3 leaks.
  multipliers.clear();
  EXPECT_LT(moments.Bound(lines, p.parameters, {0, 1, 1, 0}, {0, 0.3, 0.5}, 0.3, multipliers), 0.3);
}

TEST(MomentBounder, WeightsThatOverflowGiveNoBoundRatherThanASmallOne) {
  const Architecture architecture =
      Hidden(std::vector<HiddenLayer>(9, HiddenLayer{.units = 3}), 2, 2);
  const Network n{architecture,
                  std::vector<float>(static_cast<std::size_t>(architecture.parameters()), 3e38F)};
  Network p = n;
  p.parameters.back() = -3e38F;
  RegionBounder lines(n);
  MomentBounder moments(n);
  if (!moments.Fits()) GTEST_SKIP() << "this machine has no AVX2";
  const Region domain{UnitBox(2), {}};
  ASSERT_TRUE(lines.EnterRegion(domain));
  ASSERT_TRUE(lines.EnterMember(p.parameters));
  std::vector<float> multipliers;
  EXPECT_EQ(moments.Bound(lines, p.parameters, {0, 1, 1, 0}, {0, 0, 1e300}, 0, multipliers),
            kInfinity);
}

TEST(MomentBounder, LargeNetworksDoNotFit) {
  const Architecture architecture = Hidden({{.units = 400}, {.units = 400}}, 2, 2);
  Stream stream(1, "large");
  EXPECT_FALSE(MomentBounder(RandomNetwork(architecture, stream)).Fits());
}

}  // namespace
}  // namespace lucid
