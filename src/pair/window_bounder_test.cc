#include "pair/window_bounder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "pair/closer_bounder.h"
#include "support/pair_cases.h"

namespace lucid {
namespace {

class Windows : public testing::TestWithParam<Architecture> {};
INSTANTIATE_TEST_SUITE_P(Small, Windows, testing::ValuesIn(SmallConvolutions()));

// In regions and bands around an input that leaks; with nothing to drop, and with everything
// dropped that is below a value on either side of the leak; ended by itself or stopped anywhere.
TEST_P(Windows, AreNeverBelowALeakOfTheRegionAndTheBand) {
  int leaking = 0, dropped = 0;
  for (std::uint64_t seed = 0; seed < 100 && leaking < 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + GetParam().Canonical());
    Stream stream(seed, "windows");
    const auto case_that_leaks = RandomLeakingCase(GetParam(), stream);
    if (!case_that_leaks) continue;
    const auto& [made, values, f, slack] = *case_that_leaks;
    leaking += f > 0.001;
    const Region domain{UnitBox(GetParam().inputs()), {}};
    RegionBounder lines(made.network);
    WindowBounder windows(made.network);
    std::vector<ProofCase> why;
    const auto leak = static_cast<double>(values.f);
    for (const double width : {1e-9, 0.1}) {
      const Band band{made.question.label, f - slack - width, f + slack + width};
      for (const Region* region : {&domain, &made.region}) {
        for (const Band* in : {&band, static_cast<const Band*>(nullptr)}) {
          for (const double enough :
               {-kInfinity, leak - 0.1 * std::abs(leak), leak + 0.01 * std::abs(leak) + 1e-9}) {
            for (const int most : {0, 30, 150}) {
              int asked = 0;
              const double bound =
                  windows.Bound(lines, *region, in, made.member.parameters, made.question, enough,
                                why, [&] { return ++asked > most; });
              ASSERT_FALSE(std::isnan(bound));
              ASSERT_TRUE(AtOrAbove(bound, values.f)) << "enough " << enough << ", " << most;
              dropped += bound <= enough;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(leaking, 2) << "the test has become easy";
  EXPECT_GT(dropped, 20) << "nothing was ever enough";
}

// With nothing above the windows but the outputs, the bound comes from f - lambda g with lambda
// near 1, as members are near N. How large that gets, a grid and climbs from its best points know:
// what windows are matched by decides whether the bound comes close, or below.
TEST(WindowBounder, ComesDownToWhatAGridFinds) {
  using enum HiddenLayer::Kind;
  int seen = 0, close = 0;
  for (const auto& [architecture, grid] :
       {std::pair(Hidden({{kConv, 2, 2, 1}}, 4, 2), 13),
        std::pair(Hidden({{kConv, 2, 3, 2}}, 5, 2), 8),
        std::pair(Hidden({{kConv, 2, 2, 1}, {kConv, 2, 2, 1}}, 5, 2), 8)}) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + architecture.Canonical());
      Stream stream(seed, "grid of windows");
      Case made{RandomNetwork(architecture, stream), {}, {0, 1, 1, 0}, {}, {}};
      made.member = NearTo(made.network, 0.01, stream);
      const auto inputs = static_cast<std::size_t>(architecture.inputs());
      struct Seen {
        Exact difference;
        Point x;
        bool operator>(const Seen& other) const { return difference > other.difference; }
      };
      Exact leak = -kInfinity;
      const auto look = [&](const Point& x) {
        const Values values = ValuesAt(made, x);
        if (values.g < 0) leak = std::max(leak, values.f);
        return Seen{values.f - values.g, x};
      };
      std::vector<Seen> all;
      std::vector<int> at(inputs, 0);
      for (std::size_t j = 0; j < inputs;) {
        Point x;
        for (const int i : at) x.push_back(static_cast<double>(i) / (grid - 1));
        all.push_back(look(x));
        for (j = 0; j < inputs && ++at[j] == grid; ++j) at[j] = 0;
      }
      std::ranges::partial_sort(all, all.begin() + 20, std::greater<>());
      Exact most = -kInfinity;
      for (std::size_t n = 0; n < 20; ++n) {
        Seen best = all[n];
        double reach = 1.0 / grid;
        for (int i = 0; i < 300; ++i) {
          Point next = best.x;
          for (double& value : next) {
            if (stream.Below(2) == 0) continue;
            value = std::clamp(value + stream.Uniform(-reach, reach), 0.0, 1.0);
          }
          const Seen there = look(next);
          if (there > best) {
            best = there;
          } else {
            reach = std::max(0.97 * reach, 1e-5);
          }
        }
        most = std::max(most, best.difference);
      }
      RegionBounder lines(made.network);
      const Region domain{UnitBox(architecture.inputs()), {}};
      const auto truth = static_cast<double>(most);
      const double enough = truth + 0.05 * std::abs(truth) + 2e-4;
      std::vector<ProofCase> why;
      const double bound =
          WindowBounder(made.network)
              .Bound(lines, domain, nullptr, made.member.parameters, made.question, enough, why);
      close += bound <= enough;
      EXPECT_TRUE(AtOrAbove(bound, leak));
      Multipliers multipliers;
      const auto pair = lines.EnterPair(domain, made.member.parameters);
      ASSERT_TRUE(pair);
      seen += lines.Bound(*pair, made.question, multipliers, 20, -kInfinity).value > enough;
    }
  }
  EXPECT_GE(close, 15) << "of 18";
  EXPECT_GT(seen, 3) << "lines alone do";
}

TEST(WindowBounder, WeightsThatOverflowGiveNoBoundRatherThanASmallOne) {
  using enum HiddenLayer::Kind;
  const Architecture architecture = Hidden({{kConv, 2, 3, 1},
                                            {kDense, 9},
                                            {kDense, 9},
                                            {kDense, 9},
                                            {kDense, 9},
                                            {kDense, 9},
                                            {kDense, 9},
                                            {kDense, 9},
                                            {kDense, 9}},
                                           6, 2);
  const Network n{architecture,
                  std::vector<float>(static_cast<std::size_t>(architecture.parameters()), 3e38F)};
  Network p = n;
  p.parameters.back() = -3e38F;
  RegionBounder lines(n);
  const Region domain{UnitBox(6), {}};
  std::vector<ProofCase> why;
  EXPECT_EQ(WindowBounder(n).Bound(lines, domain, nullptr, p.parameters, {0, 1, 1, 0}, 0, why),
            kInfinity);
}

TEST(WindowBounder, FitsWhatBeginsWithNarrowConvolutions) {
  using enum HiddenLayer::Kind;
  EXPECT_TRUE(
      WindowBounder::Fits(Hidden({{kConv, 6, 3, 1}, {kConv, 6, 3, 1}, {kDense, 2}}, 21, 2)));
  EXPECT_FALSE(WindowBounder::Fits(Hidden({{kConv, 6, 7, 1}, {kDense, 2}}, 21, 2)));
  EXPECT_FALSE(WindowBounder::Fits(Hidden({{kConv, 6, 3, 3}, {kConv, 6, 3, 1}}, 21, 2)));
  EXPECT_FALSE(WindowBounder::Fits(Hidden({{kDense, 6}}, 3, 2)));
}

// Of both kinds of network, by all ways, ended by itself or stopped.
TEST(CloserBounder, IsBetweenALeakAndLines) {
  using enum HiddenLayer::Kind;
  int better = 0;
  for (const Architecture& architecture :
       {Hidden({{kConv, 2, 3, 1}, {kDense, 3}}, 7, 2), Hidden({{kDense, 5}, {kDense, 4}}, 5, 2)}) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + architecture.Canonical());
      Stream stream(seed, "closer");
      const Case made = RandomCase(architecture, stream);
      const Region domain{UnitBox(architecture.inputs()), {}};
      const Exact leak = LargestLeak(made, domain, Samples(made, domain, stream));
      if (!(leak > 0.001)) continue;
      RegionBounder lines(made.network);
      const auto whole = lines.EnterPair(domain, made.member.parameters);
      ASSERT_TRUE(whole);
      Multipliers free;
      const double by_lines = lines.Bound(*whole, made.question, free, 20, -kInfinity).value;
      const Band band{made.question.label, 0, by_lines};
      ASSERT_TRUE(CloserBounder::Fits(architecture));
      CloserBounder closer(made.network);
      using enum CloserBounder::By;
      for (const CloserBounder::By by : {kWindows, kMoments}) {
        for (const int most : {3, 300}) {
          const auto pair = lines.EnterPair(domain, made.member.parameters, &band);
          ASSERT_TRUE(pair);
          CloserBounder::Why why;
          int asked = 0;
          const double bound =
              closer.Bound(lines, *pair, band, made.member.parameters, made.question, by,
                           0.5 * static_cast<double>(leak), why, [&] { return ++asked > most; });
          EXPECT_TRUE(AtOrAbove(bound, leak));
          EXPECT_GE(closer.WidestInput(), 0);
          better += bound < by_lines - 1e-6;
        }
      }
    }
  }
  EXPECT_GT(better, 3) << "a closer look shows nothing";
}

}  // namespace
}  // namespace lucid
