#include "native/region_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attack/attack.h"
#include "native/engine.h"
#include "native/region_state.h"
#include "pair/moment_bounder.h"
#include "pair/test_support.h"
#include "support/oracle.h"

namespace lucid {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kOracleRounding = 1e-12;  // the vertices of the oracle are rounded to double
constexpr double kGap = 1e-3, kAbsoluteGap = 1e-6;

Architecture Dense(std::int64_t inputs, const std::vector<std::int64_t>& widths,
                   std::int64_t classes) {
  std::vector<HiddenLayer> hidden;
  hidden.reserve(widths.size());
  for (const std::int64_t width : widths) hidden.push_back({.units = width});
  return Hidden(hidden, inputs, classes);
}

struct Problem {
  Problem(std::uint64_t seed, std::int64_t inputs, const std::vector<std::int64_t>& widths,
          std::int64_t classes, double distance, int count = 3)
      : Problem(seed, Dense(inputs, widths, classes), distance, count) {}
  Problem(std::uint64_t seed, const Architecture& architecture, double distance, int count) {
    Stream stream(seed, "region search");
    network = RandomNetwork(architecture, stream);
    Balance(network, stream);
    networks = RandomMembers(network, count, distance, stream);
  }
  void Repeat(std::int64_t copies) {
    network = Repeated(network, copies);
    for (Network& member : networks) member = Repeated(member, copies);
  }

  Network network;
  std::vector<Network> networks;
};

struct Answer {
  RegionSearchSummary summary;
  double lower = 0;
};

RegionSearchOptions Options() {
  RegionSearchOptions options;
  options.gap = kGap;
  options.absolute_gap = kAbsoluteGap;
  options.threads = 1;
  return options;
}

AttackResult AttackOf(const Problem& problem, std::int32_t label) {
  AttackOptions options;
  options.threads = 1;
  options.pool = 200;
  options.local_searches = 100;
  return Attack(problem.network, MemoryMembers(problem.networks), label, {}, options).value();
}

// Ends after so many rounds: on any machine at the same place.
constexpr int kRounds = 150;

Answer Search(const Problem& problem, std::int32_t label, RegionSearchOptions options,
              const AttackResult& known, const std::string& state = "", int rounds = kRounds) {
  const MemoryMembers members(problem.networks);
  WitnessKeeper witnesses(problem.network, members, label, known.beta_lower, known.witness);
  const double error = LargestError(members, 1).value();
  std::stop_source source;
  if (!options.stop.stop_possible()) {
    options.stop = source.get_token();
    options.save_every = 0;
    options.save = [&](const std::string&) {
      if (--rounds <= 0) source.request_stop();
      return Ok();
    };
  }
  const auto summary =
      SearchRegions(problem.network, members, label, error, options, witnesses, state);
  EXPECT_TRUE(summary.ok()) << summary.error().message;
  return summary.ok() ? Answer{*summary, witnesses.beta_lower()} : Answer{};
}

double TrueBeta(const Problem& problem, std::int32_t label) {
  const double error = LargestError(MemoryMembers(problem.networks), 1).value();
  return static_cast<double>(
      BruteForceBeta(problem.network, problem.networks, label, 0, error).beta);
}

// What ends by itself is within the gap; what is stopped has a bound all the same.
void ExpectSoundAndWithinTheGap(const Answer& answer, double beta, double gap) {
  EXPECT_GE(answer.summary.verdict.upper(), beta - kOracleRounding) << "UNSOUND";
  EXPECT_LE(answer.lower, beta + kOracleRounding) << "a witness of nothing";
  if (!answer.summary.verdict.finished()) return;
  EXPECT_LE(answer.summary.verdict.upper(),
            std::max(beta / (1 - gap), beta + kAbsoluteGap) + kOracleRounding);
}

// Up to three inputs, `copies` of each, so that boxes or phases are cut.
void CompareWithBruteForce(std::uint64_t first, std::uint64_t count, std::int64_t copies,
                           double gap, RegionSearchOptions options = Options()) {
  int leaking = 0, cut = 0, finished = 0, two_classes = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const std::int64_t classes = seed % 3 == 0 ? 3 : 2;
    Problem problem(seed, copies > 1 ? 3 : static_cast<std::int64_t>(1 + seed / 2 % 3),
                    seed % 4 == 0 ? std::vector<std::int64_t>{3, 3} : std::vector<std::int64_t>{4},
                    classes, seed % 5 == 0 ? 0.4 : 0.05);
    const auto label = static_cast<std::int32_t>(seed % 2);
    const double beta = TrueBeta(problem, label);
    problem.Repeat(copies);
    options.gap = gap;
    const Answer answer = Search(problem, label, options, AttackOf(problem, label));
    ExpectSoundAndWithinTheGap(answer, beta, gap);
    if (problem.network.architecture.inputs() > kFewInputs) EXPECT_EQ(answer.summary.dropped, 0);
    leaking += beta > 0.001;
    cut += answer.summary.regions > 1;
    two_classes += classes == 2;
    finished += classes == 2 && answer.summary.verdict.finished();
  }
  EXPECT_GT(3 * leaking, static_cast<int>(count)) << "the test has become easy";
  EXPECT_GT(4 * cut, static_cast<int>(count)) << "the test has become easy";
  EXPECT_GE(2 * finished, two_classes) << "most are not within the gap";
}

TEST(RegionSearch, EqualsBruteForceOnTinyNetworksWhereBoxesAreCut) {
  CompareWithBruteForce(0, 60, 1, kGap);
}

TEST(RegionSearch, EqualsBruteForceOnTinyNetworksWherePhasesAreCut) {
  CompareWithBruteForce(100, 30, 4, 0.02);
}

TEST(RegionSearch, EqualsBruteForceWhereMomentsAreTriedAtOnce) {
  RegionSearchOptions options = Options();
  options.closer_after = 1;
  CompareWithBruteForce(100, 30, 4, 0.02, options);
}

// Nothing is known, and nothing is looked for: the target is half of the truth, so that only the
// bounds themselves can keep the result above it.
TEST(RegionSearch, BoundsAloneAreNeverBelowTheTruth) {
  int leaking = 0, finished = 0;
  for (std::uint64_t seed = 400; seed < 430; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const std::vector<std::int64_t> widths =
        seed % 4 < 2 ? std::vector<std::int64_t>{4} : std::vector<std::int64_t>{3, 3};
    Problem problem(seed, 3, widths, seed % 3 == 0 ? 3 : 2, seed % 2 == 0 ? 0.3 : 0.05);
    const auto label = static_cast<std::int32_t>(seed % 2);
    const double beta = TrueBeta(problem, label);
    if (!(beta > 0.001)) continue;
    ++leaking;
    for (const std::int64_t copies : {1, 4}) {
      if (copies > 1) problem.Repeat(copies);
      RegionSearchOptions options = Options();
      options.gap = 0;
      options.absolute_gap = beta / 2;
      options.improve_witnesses = false;
      for (const std::int64_t closer_after : {1, 1000}) {
        options.closer_after = closer_after;
        const Answer answer = Search(problem, label, options, {}, "", 40);
        EXPECT_GE(answer.summary.verdict.upper(), beta - kOracleRounding)
            << "UNSOUND, copies " << copies;
        finished += answer.summary.verdict.finished();
      }
    }
  }
  EXPECT_GT(leaking, 10) << "the test has become easy";
  EXPECT_EQ(finished, 0) << "half of the truth was proved";
}

// Where kinks of N or a member run through a box, cutting it leaves a part of them in every piece:
// only the phases end that. (Boxes alone finish 3 of these 20.) `lucid bound` always names a
// domain.
TEST(RegionSearch, AFewOpenNeuronsAreSettledByTheirPhases) {
  std::string schema = "column,kind,offset,divisor,categories\nlabel,label,,,0|1\n";
  for (int j = 0; j < 7; ++j) schema += "x" + std::to_string(j) + ",numeric,0,1,\n";
  const Domain box = Domain::Box(*Schema::Parse(schema, "schema"));
  for (const Domain* domain : {static_cast<const Domain*>(nullptr), &box}) {
    int finished = 0;
    for (std::uint64_t seed = 500; seed < 520; ++seed) {
      const Problem problem(seed, 7, {20}, 2, 0.05);
      RegionSearchOptions options = Options();
      options.gap = 0.01;
      options.domain = domain;
      finished +=
          Search(problem, 0, options, AttackOf(problem, 0), "", 100).summary.verdict.finished();
    }
    EXPECT_GE(finished, 10) << (domain == nullptr ? "no domain" : "a box");
  }
}

// 14 inputs, nearly all neurons open: in as many rounds moments prove more.
TEST(RegionSearch, MomentsProveMore) {
  if (!MomentBounder::Fits(Problem(300, 14, {16, 16}, 2, 0.05, 2).network.architecture)) {
    GTEST_SKIP() << "this machine has no AVX2";
  }
  double with = 0, without = 0;
  for (std::uint64_t seed = 300; seed < 304; ++seed) {
    const Problem problem(seed, 14, {16, 16}, 2, 0.05, 2);
    RegionSearchOptions options = Options();
    options.gap = 0.05;
    const AttackResult known = AttackOf(problem, 0);
    if (!(known.beta_lower > 0.001)) continue;
    options.closer_after = 1000000;
    without +=
        Search(problem, 0, options, known, "", 60).summary.verdict.upper() / known.beta_lower;
    options.closer_after = 20;
    with += Search(problem, 0, options, known, "", 60).summary.verdict.upper() / known.beta_lower;
  }
  EXPECT_LT(with, 0.95 * without);
}

// In as many rounds windows prove more, and no less than what leaks.
TEST(RegionSearch, WindowsProveMore) {
  using enum HiddenLayer::Kind;
  const Architecture architecture =
      Hidden({{kConv, 3, 2, 1}, {kConv, 3, 2, 1}, {kDense, 2}}, 13, 2);
  double with = 0, without = 0;
  int leaking = 0, reports = 0;
  for (std::uint64_t seed = 330; seed < 342 && leaking < 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Problem problem(seed, architecture, 0.05, 2);
    RegionSearchOptions options = Options();
    options.gap = 0.05;
    const AttackResult known = AttackOf(problem, 0);
    if (!(known.beta_lower > 0.001)) continue;
    ++leaking;
    for (const std::int64_t closer_after : {1000000, 5}) {
      options.closer_after = closer_after;
      const double upper = Search(problem, 0, options, known, "", 5).summary.verdict.upper();
      (closer_after == 5 ? with : without) += upper / known.beta_lower;
    }
    // Targets that stay below the leak. Windows are asked for 1.1 times as much first: less than
    // the leak, or more, of which they say nothing about inputs in between.
    for (const double part : {0.8, 0.97}) {
      RegionSearchOptions below = options;
      below.gap = 0.001;
      below.improve_witnesses = false;
      below.closer_after = 1;
      below.report = [&](double, double upper, std::int64_t, std::int64_t) {
        EXPECT_GE(upper, known.beta_lower) << "UNSOUND";
        ++reports;
      };
      const AttackResult frozen{part * known.beta_lower, {}};
      EXPECT_GE(Search(problem, 0, below, frozen, "", 2).summary.verdict.upper(), known.beta_lower)
          << "UNSOUND";
      // Stopped by its first report, in the middle of a look.
      std::stop_source source;
      below.stop = source.get_token();
      below.report = [&](double, double, std::int64_t, std::int64_t) { source.request_stop(); };
      const Answer stopped = Search(problem, 0, below, frozen);
      EXPECT_FALSE(stopped.summary.verdict.finished());
      EXPECT_GE(stopped.summary.verdict.upper(), known.beta_lower) << "UNSOUND";
    }
  }
  EXPECT_EQ(leaking, 3) << "the test has become easy";
  EXPECT_GT(reports, 3) << "the test has become easy";
  EXPECT_LT(with, 0.95 * without);
}

// The target stays 15 % below a leak that is known: whoever cuts that off ends below it.
TEST(RegionSearch, APlantedLeakIsNeverCutOff) {
  int leaking = 0;
  for (std::uint64_t seed = 200; seed < 230; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const bool phases = seed % 2 == 0;
    Problem problem(seed, phases ? 12 : 5, {8, 8}, static_cast<std::int64_t>(2 + seed % 3 / 2),
                    seed % 3 == 0 ? 0.3 : 0.03);
    const AttackResult best = AttackOf(problem, 0);
    if (!(best.beta_lower > 0.001)) continue;
    ++leaking;
    AttackResult frozen;
    frozen.beta_lower = 0.8 * best.beta_lower;
    RegionSearchOptions options = Options();
    options.gap = 0.05;
    options.improve_witnesses = false;
    if (seed % 8 < 4) options.closer_after = 2;
    const Answer answer = Search(problem, 0, options, frozen, "", 30);
    EXPECT_GE(answer.summary.verdict.upper(), best.beta_lower) << "UNSOUND";
  }
  EXPECT_GT(leaking, 10) << "the test has become easy";
}

TEST(RegionSearch, OneThreadAndFourGiveTheSameBits) {
  std::int64_t regions = 0;
  for (const std::int64_t inputs : {4, 12}) {
    for (std::uint64_t seed = 300; seed < 304; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << inputs << " inputs");
      const Problem problem(seed, inputs, {6, 6}, 2, 0.03, 20);
      RegionSearchOptions options = Options();
      options.gap = 0.02;
      options.closer_after = seed % 2 == 0 ? 5 : 1000;
      options.report = [](double, double, std::int64_t, std::int64_t) {};  // while others work
      const AttackResult known = AttackOf(problem, 1);
      const Answer one = Search(problem, 1, options, known, "", 20);
      options.threads = 4;
      const Answer four = Search(problem, 1, options, known, "", 20);
      EXPECT_EQ(one.summary.verdict.upper(), four.summary.verdict.upper());
      EXPECT_EQ(one.lower, four.lower);
      EXPECT_EQ(one.summary.regions, four.summary.regions);
      EXPECT_EQ(one.summary.bounds, four.summary.bounds);
      EXPECT_EQ(one.summary.verdict.finished(), four.summary.verdict.finished());
      regions += one.summary.regions;
    }
  }
  EXPECT_GT(regions, 100) << "the test has become easy";
}

// Many regions that wait, and something leaks.
Problem Large() { return Problem(400, 6, {12, 12}, 2, 0.1, 3); }

TEST(RegionSearch, WithoutMemoryRegionsAreGivenUpAndTheBoundHolds) {
  const Problem problem = Large();
  const AttackResult known = AttackOf(problem, 0);
  ASSERT_GT(known.beta_lower, 0.01);
  RegionSearchOptions options = Options();
  options.gap = 1e-4;
  const Answer whole = Search(problem, 0, options, known);
  EXPECT_EQ(whole.summary.dropped, 0);
  options.memory = std::int64_t{1} << 16;
  const Answer tight = Search(problem, 0, options, known);
  EXPECT_GT(tight.summary.dropped, 0) << "the test has become easy";
  EXPECT_GE(tight.summary.verdict.upper(), whole.lower) << "UNSOUND";
  EXPECT_GE(tight.summary.verdict.upper(), known.beta_lower) << "UNSOUND";
  EXPECT_FALSE(tight.summary.verdict.finished()) << "what was dropped is not within the gap";
  EXPECT_TRUE(std::isfinite(tight.summary.verdict.upper()));
}

TEST(RegionSearch, AContinuedSearchKeepsToItsMemory) {
  const Problem problem = Large();
  const MemoryMembers members(problem.networks);
  WitnessKeeper witnesses(problem.network, members, 0, 0, std::nullopt);
  RegionSearchOptions options = Options();
  options.gap = 1e-4;
  options.save_every = 0;
  std::stop_source source;
  options.stop = source.get_token();
  std::string state;
  int rounds = 100;
  options.save = [&](const std::string& now) {
    state = now;
    if (--rounds <= 0) source.request_stop();
    return Ok();
  };
  const double error = LargestError(members, 1).value();
  ASSERT_TRUE(SearchRegions(problem.network, members, 0, error, options, witnesses, "").ok());
  RegionSearchOptions less = Options();
  less.gap = 1e-4;
  less.memory = static_cast<std::int64_t>(state.size() / 2);
  AttackResult known;
  known.beta_lower = witnesses.beta_lower();
  const Answer answer = Search(problem, 0, less, known, state, 3);
  EXPECT_GT(answer.summary.dropped, 0);
  EXPECT_GE(answer.summary.verdict.upper(), witnesses.beta_lower()) << "UNSOUND";
}

TEST(RegionSearch, AGapOfOneIsReachedAtOnce) {
  for (std::uint64_t seed = 800; seed < 805; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Problem problem(seed, 4, {5, 5}, 2, 0.1);
    RegionSearchOptions options = Options();
    options.gap = 1;
    const AttackResult known = AttackOf(problem, 0);
    const Answer answer = Search(problem, 0, options, known);
    EXPECT_GE(answer.summary.verdict.upper(), known.beta_lower) << "UNSOUND";
    EXPECT_TRUE(answer.summary.verdict.finished() || !(answer.lower > 0));
    // Without a witness there is no scale; it goes on until one is found.
    const Answer blind = Search(problem, 0, options, {}, "", 5);
    EXPECT_GE(blind.summary.verdict.upper(), known.beta_lower) << "UNSOUND";
    EXPECT_EQ(blind.summary.verdict.finished(),
              blind.lower > 0 || blind.summary.verdict.upper() <= kAbsoluteGap);
  }
}

TEST(RegionSearch, OutOfTimeOrStoppedAtOnceItGivesTheCeiling) {
  std::stop_source stopped;
  stopped.request_stop();
  for (const std::int64_t inputs : {3, 12}) {
    const Problem problem(500, inputs, {5}, 3, 0.1);
    const NetworkFacts facts = FactsOf(problem.network, UnitBox(inputs));
    for (std::int32_t label = 0; label < 3; ++label) {
      const double ceiling = std::max(LargestConfidence(facts.point, facts.bounds, label), 0.0);
      RegionSearchOptions late = Options();
      late.deadline = Clock::now() - std::chrono::seconds(1);
      RegionSearchOptions stop = Options();
      stop.stop = stopped.get_token();
      for (const RegionSearchOptions& options : {late, stop}) {
        const Answer answer = Search(problem, label, options, {}, "", 40);
        EXPECT_FALSE(answer.summary.verdict.finished());
        EXPECT_EQ(answer.summary.verdict.upper(), ceiling);
      }
    }
  }
}

TEST(RegionSearch, StoppedAnywhereItsBoundHoldsAndContinuedItEndsTheSame) {
  struct Shape {
    std::int64_t inputs, closer_after;
  };
  for (const auto [inputs, closer_after] : {Shape{6, 1000}, Shape{12, 1000}, Shape{12, 10}}) {
    SCOPED_TRACE(testing::Message() << inputs << " inputs, moments after " << closer_after);
    const Problem problem(inputs == 6 ? 400 : 601, inputs, {8, 8}, 2, 0.1, 4);
    const AttackResult known = AttackOf(problem, 0);
    RegionSearchOptions options = Options();
    options.gap = 0.02;
    options.save_every = 0;
    options.closer_after = closer_after;
    struct Saved {
      std::string state;
      double lower;
    };
    std::vector<Saved> saved;
    const MemoryMembers members(problem.networks);
    WitnessKeeper witnesses(problem.network, members, 0, known.beta_lower, known.witness);
    options.save = [&](const std::string& state) {
      saved.push_back({state, witnesses.beta_lower()});
      return Ok();
    };
    const double error = LargestError(members, 1).value();
    const RegionSearchSummary whole =
        SearchRegions(problem.network, members, 0, error, options, witnesses, "").value();
    const double lower = witnesses.beta_lower();
    ASSERT_TRUE(whole.verdict.finished());
    ASSERT_GE(saved.size(), 3U) << "the test has become easy";
    options.save = nullptr;
    for (const std::size_t at : {std::size_t{0}, saved.size() / 3, saved.size() - 2}) {
      SCOPED_TRACE(testing::Message() << "from round " << at);
      AttackResult then;
      then.beta_lower = saved[at].lower;
      RegionState state;
      const SearchTask task{0, 4, error, problem.network.digest(), UnitBox(inputs)};
      ASSERT_TRUE(
          DecodeRegionState(saved[at].state, problem.network.architecture, task, state).ok());
      EXPECT_EQ(EncodeRegionState(state, task).size(), saved[at].state.size());
      const Answer rest = Search(problem, 0, options, then, saved[at].state, 1 << 20);
      EXPECT_TRUE(rest.summary.verdict.finished());
      EXPECT_GE(rest.summary.verdict.upper(), lower) << "UNSOUND";
      EXPECT_LE(rest.summary.verdict.upper(), whole.verdict.upper() / (1 - options.gap));
      EXPECT_GE(rest.summary.verdict.upper(), whole.verdict.upper() * (1 - options.gap));
      // Stopped before it can go on, it still has the bound of what is open.
      RegionSearchOptions now = options;
      now.deadline = Clock::now();
      const Answer none = Search(problem, 0, now, then, saved[at].state);
      EXPECT_GE(none.summary.verdict.upper(), lower) << "UNSOUND";
      EXPECT_TRUE(std::isfinite(none.summary.verdict.upper()));
    }
  }
}

TEST(RegionSearch, AStateOfAnotherSearchOrADamagedOneIsAnError) {
  const Problem problem(1, 2, {3}, 2, 0.1);
  const MemoryMembers members(problem.networks);
  RegionSearchOptions late = Options();
  late.deadline = Clock::now() - std::chrono::seconds(1);
  const auto search = [&](std::int32_t label, double error, const std::string& state) {
    WitnessKeeper witnesses(problem.network, members, label, 0, std::nullopt);
    return SearchRegions(problem.network, members, label, error, late, witnesses, state);
  };
  const std::string left = search(0, 0, "").value().left;
  ASSERT_FALSE(left.empty());
  ASSERT_TRUE(search(0, 0, left).ok());
  for (const auto& found : {search(1, 0, left), search(0, 1e-9, left), search(0, 0, "no state")}) {
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().kind, ErrorKind::kMismatch);
  }
  const auto damaged = search(0, 0, left.substr(0, left.size() - 1));
  ASSERT_FALSE(damaged.ok());
  EXPECT_NE(damaged.error().message.find("damaged"), std::string::npos);
}

// With no time for the screen everything is left; with time, what was left is finished.
TEST(RegionSearch, AScreenThatRanOutOfTimeGoesOn) {
  const Problem problem(3, 3, {4}, 3, 0.1);
  const AttackResult known = AttackOf(problem, 1);
  RegionSearchOptions late = Options();
  late.deadline = Clock::now() - std::chrono::seconds(1);
  const Answer none = Search(problem, 1, late, known, "", 40);
  ASSERT_FALSE(none.summary.left.empty());
  EXPECT_EQ(none.summary.bounds, 0);
  const Answer rest = Search(problem, 1, Options(), known, none.summary.left);
  const Answer whole = Search(problem, 1, Options(), known);
  EXPECT_EQ(rest.summary.verdict.upper(), whole.summary.verdict.upper());
  EXPECT_EQ(rest.summary.bounds, whole.summary.bounds);
}

TEST(RegionSearch, NeverReportsLessThanItProves) {
  const Problem problem = Large();
  const AttackResult known = AttackOf(problem, 0);
  RegionSearchOptions options = Options();
  std::vector<std::pair<double, double>> reports;
  options.report = [&](double lower, double upper, std::int64_t regions, std::int64_t) {
    reports.emplace_back(lower, upper);
    EXPECT_GE(regions, 1);
  };
  const Answer answer = Search(problem, 0, options, known);
  for (const auto& [lower, upper] : reports) {
    EXPECT_GE(upper, answer.lower) << "UNSOUND";
    EXPECT_GE(upper, answer.summary.verdict.upper());
    EXPECT_LE(lower, answer.lower);
  }
  EXPECT_GE(reports.size(), 1U);
}

TEST(RegionSearch, MembersThatEqualNCostNothing) {
  Problem problem(2, 4, {5, 5}, 2, 0.0, 3);
  const Answer answer = Search(problem, 0, Options(), {});
  EXPECT_TRUE(answer.summary.verdict.finished());
  EXPECT_LE(answer.summary.verdict.upper(), kAbsoluteGap);
  EXPECT_EQ(answer.summary.regions, 1);
  EXPECT_EQ(answer.summary.pairs, 3);
}

TEST(BoundEachMember, IsAtOrAboveEveryMembersOwnBeta) {
  int leaking = 0;
  for (std::uint64_t seed = 700; seed < 730; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Problem problem(seed, 2, {4, 3}, static_cast<std::int64_t>(2 + seed % 2), 0.1, 4);
    const MemoryMembers members(problem.networks);
    const double error = LargestError(members, 1).value();
    {
      const std::vector<double> upper =
          UpperOfMembers(BoundEachMember(problem.network, members, 0, error, 1).value(),
                         members.count(), problem.network.architecture.classes());
      ASSERT_EQ(upper.size(), problem.networks.size());
      for (std::size_t i = 0; i < upper.size(); ++i) {
        const std::vector<Network> one = {problem.networks[i]};
        const auto beta =
            static_cast<double>(BruteForceBeta(problem.network, one, 0, 0, error).beta);
        EXPECT_GE(upper[i], beta - kOracleRounding) << "UNSOUND";
        leaking += beta > 0.001;
      }
    }
  }
  EXPECT_GT(leaking, 40);
}

}  // namespace
}  // namespace lucid
