// Claims by windows: the checker finds what the engine found, and no number that an engine or a
// file may say makes it find less than what leaks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "base/bytes.h"
#include "certificate/proof_cases.h"
#include "check/proof_windows.h"
#include "pair/window_bounder.h"
#include "support/pair_cases.h"

namespace lucid {
namespace {

// An input that leaks, a region and a band around it, and what the engine says about them.
struct Look {
  Case made;
  Region region;
  std::optional<Band> band;
  double leak = 0;  // a little less than f there
  double enough = 0, value = 0;
  std::vector<ProofCase> cases;

  ProofWindows::Pair Pair(Ties ties = Ties::kRule) const {
    ProofWindows::Pair pair;
    for (const Interval& side : region.box) {
      pair.region.lower.push_back(side.lower);
      pair.region.upper.push_back(side.upper);
    }
    for (const PhaseSplit& phase : region.phases) {
      pair.region.phases.push_back({phase.layer, phase.unit, phase.member, phase.active});
    }
    if (band) pair.band = ProofBounder::Band{band->label, band->least, band->most};
    pair.member = made.member.parameters;
    const PairQuestion& q = made.question;
    pair.question = {q.label, q.other, q.below, q.member_error};
    pair.ties = ties;
    return pair;
  }
};

// Calls `see` for looks at random pairs that leak and that the engine has a finite bound of.
int ForLooks(const Architecture& architecture, const std::string& purpose, int wanted,
             const std::function<void(Look&, Stream&)>& see) {
  int seen = 0;
  for (std::uint64_t seed = 0; seed < 200 && seen < wanted; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + architecture.Canonical());
    Stream stream(seed, purpose);
    Look look{RandomCase(architecture, stream), {}, {}, 0, 0, 0, {}};
    Case& made = look.made;
    made.question.below = made.question.other;
    made.anchor = Samples(made, made.region, stream).back();
    const Values values = ValuesAt(made, made.anchor);
    if (!Leaks(made, values) || !InRegion(made.region, made.anchor, values)) continue;
    const auto f =
        static_cast<double>(ConfidenceOf(values.network.pre.back(), made.question.label));
    if (!(f > 0.001)) continue;
    look.leak = f * (1 - 1e-12);
    look.region = stream.Below(2) == 0 ? Region{UnitBox(architecture.inputs()), {}} : made.region;
    if (stream.Below(2) == 0) {
      look.band = Band{made.question.label, std::max(f - stream.Uniform(), 0.0),
                       f * (1 + 1e-12) + stream.Uniform()};
    }
    const double shares[] = {0.5, 0.99, 1.02, 1.5, 3};
    look.enough = shares[stream.Below(5)] * f;
    RegionBounder lines(made.network);
    int asked = 0;
    // What is below the leak is out of reach, and would take long.
    const int most = look.enough < f ? 60 : 1500;
    const double bound =
        WindowBounder(made.network)
            .Bound(lines, look.region, look.band ? &*look.band : nullptr, made.member.parameters,
                   made.question, look.enough, look.cases, [&] { return ++asked > most; });
    look.value = ChargedBound::WithSlack(std::max(bound, look.enough));
    if (!std::isfinite(look.value)) continue;
    ++seen;
    see(look, stream);
  }
  return seen;
}

// So that more cells, which a smaller claim leaves, do not take long.
void Shorten(std::vector<ProofCase>& cases) {
  for (ProofCase& one : cases) one.rounds.resize(std::min<std::size_t>(one.rounds.size(), 4));
}

class ProofOfWindows : public testing::TestWithParam<Architecture> {};
INSTANTIATE_TEST_SUITE_P(Small, ProofOfWindows, testing::ValuesIn(SmallConvolutions()));

TEST_P(ProofOfWindows, ComesToTheEnginesBound) {
  int by_windows = 0, cut = 0, late = 0;
  const int seen = ForLooks(GetParam(), "windows proved", 25, [&](Look& look, Stream&) {
    ASSERT_EQ(ProblemOfCases(look.cases), "");
    ProofWindows checker(look.made.network);
    EXPECT_LE(checker.Bound(look.Pair(), look.cases, look.value), look.value);
    EXPECT_GE(look.value, look.leak) << "UNSOUND";
    cut += look.cases.front().Cuts();
    for (const ProofCase& one : look.cases) {
      by_windows += one.kind == ProofCase::Kind::kWindows;
      late += one.rounds.size() > 2;
    }
  });
  EXPECT_GE(seen, 10);
  EXPECT_GT(by_windows, 3);
  if (GetParam().layers().size() > 3) EXPECT_GT(cut + late, 0);
}

// Whatever a file says: it may drop, tilt, aim and cut as it likes.
TEST_P(ProofOfWindows, NoNumberProvesLessThanALeak) {
  int told = 0, refused = 0;
  ForLooks(GetParam(), "windows spoilt", 12, [&](Look& look, Stream& stream) {
    ProofWindows checker(look.made.network);
    const double claims[] = {0.99 * look.leak, look.leak * (1 - 1e-9), 0.5 * look.leak};
    Shorten(look.cases);
    for (int n = 0; n < 20; ++n) {
      std::vector<ProofCase> cases = look.cases;
      ProofCase& one = cases[stream.Below(cases.size())];
      const auto scaled = [&](auto& number) {
        using T = std::remove_reference_t<decltype(number)>;
        number = static_cast<T>(number * (1 + stream.Normal()) + 0.1 * stream.Normal());
      };
      if (stream.Below(3) == 0 && !one.Cuts()) {
        one.lambda = std::abs(stream.Normal());
        for (float& multiplier : one.multipliers) scaled(multiplier);
      }
      for (ProofRound& round : one.rounds) {
        if (stream.Below(2) == 0) continue;
        for (float& tilt : round.tilts) scaled(tilt);
        for (float& tilt : round.choose_by) scaled(tilt);
        for (float& push : round.pushes) scaled(push);
        scaled(round.lambda);
        round.lambda = std::abs(round.lambda);
        if (stream.Below(2) == 0) round.halved.clear();
      }
      if (!one.rounds.empty() && stream.Below(2) == 0) {
        one.rounds.resize(1 + stream.Below(one.rounds.size()));
      }
      const Ties ties = static_cast<Ties>(stream.Below(3));
      const double claim = claims[stream.Below(3)];
      ++told;
      const double bound = checker.Bound(look.Pair(ties), cases, claim);
      ASSERT_GT(bound, claim) << "UNSOUND: a leak at " << look.leak;
      refused += bound < kInfinity;
    }
  });
  EXPECT_GT(told, 150);
  EXPECT_GT(refused, told / 4) << "hardly anything was looked at";
}

// As bytes: each of them changed. What the reader lets pass proves nothing that is false.
TEST(ProofOfWindows, EveryChangedByteIsHarmless) {
  using enum HiddenLayer::Kind;
  const Architecture architecture = Hidden({{kConv, 2, 2, 1}, {kDense, 2}}, 4, 2);
  int passed = 0, refused = 0;
  ForLooks(architecture, "bytes of windows", 6, [&](Look& look, Stream& stream) {
    ProofWindows checker(look.made.network);
    Shorten(look.cases);
    std::string good;
    PutCases(good, look.cases);
    const double claim = 0.99 * look.leak;
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << stream.Below(8)));
      ByteCursor in(bad);
      std::vector<ProofCase> cases;
      const bool fine = ReadCases(in, cases).empty() && in.left() == 0;
      const auto fits = [&](const ProofCase& one) {
        return one.layer < 2 && one.unit < 2 &&
               (one.multipliers.empty() || one.multipliers.size() == 16) &&
               std::ranges::all_of(one.rounds, [&](const ProofRound& round) {
                 return round.tilts.size() == 6 && (!round.aims || round.choose_by.size() == 6) &&
                        std::ranges::all_of(round.halved, [](auto input) { return input < 4; });
               });
      };
      if (!fine || !std::ranges::all_of(cases, fits)) {
        ++refused;
        continue;
      }
      ++passed;
      ASSERT_GT(checker.Bound(look.Pair(), cases, claim), claim) << "byte " << i << ": UNSOUND";
    }
  });
  EXPECT_GT(passed, 200);
  EXPECT_GT(refused, 50);
}

// N has x1 - x2 against 0.25, the member against 0.75: leaks go up to 0.5, and with lambda 1 the
// bound is 0.5 exactly. One percent less is refused, after any number of rounds.
TEST(ProofOfWindows, ALeakIsWhereItIs) {
  using enum HiddenLayer::Kind;
  const auto make = [](float constant) {
    return Network{Hidden({{kConv, 3, 2, 1}}, 2, 2),
                   {1, 0, 0, 1, 0, 0, 0, 0, 0.25F, 1, -1, 0, 0, 0, 4 * constant, 0, 0}};
  };
  const Network network = make(0.25F), member = make(0.75F);
  const ProofWindows::Pair pair{
      {{0, 0}, {1, 1}, {}}, std::nullopt, member.parameters, {0, 1, 1, 0}, Ties::kRule};
  ProofWindows checker(network);
  ProofCase by{ProofCase::Kind::kWindows};
  by.rounds.push_back({{0, 1}, true, 1, {}, {0, 0}, {0, 0}});
  for (int more = 0; more < 3; ++more) {
    EXPECT_LE(checker.Bound(pair, {&by, 1}, 0.5000001), 0.5000001);
    EXPECT_GT(checker.Bound(pair, {&by, 1}, 0.495), 0.495) << "UNSOUND";
    by.rounds.push_back({{0, 1}, false, 0, {}, {}, {0, 0}});
  }
}

TEST(ProofOfWindows, WhatIsNoTreeOfCasesIsRefused) {
  using Kind = ProofCase::Kind;
  const ProofCase cut{Kind::kMemberPhase, 0, 1};
  const ProofCase end;
  ProofCase windows{Kind::kWindows};
  EXPECT_EQ(ProblemOfCases(std::vector{cut, end, cut, end, end}), "");
  EXPECT_EQ(ProblemOfCases({}), "a case too few");
  EXPECT_EQ(ProblemOfCases(std::vector{cut, end}), "a case too few");
  EXPECT_EQ(ProblemOfCases(std::vector{cut, end, end, end}), "a case too many");
  EXPECT_EQ(ProblemOfCases(std::vector(80, cut)), "too many cuts in a row");
  EXPECT_EQ(ProblemOfCases(std::vector{windows}), "rounds that do not begin");
  windows.rounds.resize(1);
  EXPECT_EQ(ProblemOfCases(std::vector{windows}), "rounds that do not begin");
  windows.rounds[0].aims = true;
  EXPECT_EQ(ProblemOfCases(std::vector{windows}), "");
  windows.rounds[0].lambda = -1;
  EXPECT_EQ(ProblemOfCases(std::vector{windows}), "lambda -1");
  windows.rounds[0].lambda = 1;
  windows.rounds[0].tilts = {std::numeric_limits<float>::infinity()};
  EXPECT_EQ(ProblemOfCases(std::vector{windows}), "a number of a round that is none");
}

// A side that is left to nobody, or to the wrong means, is not shown.
TEST_P(ProofOfWindows, ASideThatIsNotShownIsRefused) {
  int told = 0;
  ForLooks(GetParam(), "sides of windows", 12, [&](Look& look, Stream&) {
    ProofWindows checker(look.made.network);
    for (std::size_t n = 0; n < look.cases.size(); ++n) {
      std::vector<ProofCase> cases = look.cases;
      if (cases[n].kind != ProofCase::Kind::kWindows) continue;
      cases[n] = {};
      ++told;
      EXPECT_GT(checker.Bound(look.Pair(), cases, look.value), look.value);
    }
  });
  EXPECT_GT(told, 3);
}

}  // namespace
}  // namespace lucid
