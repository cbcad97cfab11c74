#include "audit/games.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

namespace lucid {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr float kRow[] = {0.25f, 0.5f};

AuditRow RowOf(AuditAttack attack, double claimed) {
  AuditRow row;
  row.attack = attack;
  row.claimed = claimed;
  return row;
}

// `rounds` rounds on one row of label 1.
Game GameOf(std::int64_t rounds, const Oracle& in, const Oracle& out) {
  return {rounds,
          [](auto, Side) {
            return Subject{kRow, 1};
          },
          [=](auto, Side side) { return side == Side::kIn ? in : out; }};
}

std::int32_t One(std::span<const float>) { return 1; }
std::int32_t Zero(std::span<const float>) { return 0; }

TEST(Games, AnAccessThatGivesTheRowAwayBreaksItsClaim) {
  const Game game = GameOf(200, One, Zero);
  const AuditRow row = *Play(game, RowOf(AuditAttack::kGap, 1), 0, {}).value();
  EXPECT_EQ(row.trials, 200);
  EXPECT_EQ(row.auc, 1);
  EXPECT_EQ(row.advantage, 1);
  EXPECT_GT(row.epsilon_lower, 1);
  EXPECT_FALSE(row.holds);
  EXPECT_TRUE(std::isnan(row.welch_t));
  EXPECT_TRUE(Play(game, RowOf(AuditAttack::kGap, kNan), 0, {}).value()->holds)
      << "nothing is claimed";
}

TEST(Games, EqualWorldsGiveNothingAway) {
  const AuditRow row = *Play(GameOf(200, One, One), RowOf(AuditAttack::kGap, 0), 0, {}).value();
  EXPECT_EQ(row.auc, 0.5);
  EXPECT_EQ(row.epsilon_lower, 0);
  EXPECT_EQ(row.e_value, 1);
  EXPECT_TRUE(row.holds);
}

// At epsilon 0 three guesses of four are found out by bets, before the bound on epsilon is.
TEST(Games, AtEpsilonZeroAnAttackerWhoIsBetterThanACoinBreaksTheClaim) {
  Stream stream(9, "answers");
  const Oracle in = [&](auto) { return stream.Below(4) > 0 ? 1 : 0; };
  const Oracle out = [&](auto) { return stream.Below(4) > 0 ? 0 : 1; };
  const AuditRow row = *Play(GameOf(200, in, out), RowOf(AuditAttack::kGap, 0), 0, {}).value();
  EXPECT_GE(row.e_value, 1 / kRowRisk);
  EXPECT_FALSE(row.holds);
  EXPECT_TRUE(Play(GameOf(200, in, out), RowOf(AuditAttack::kGap, 1.1), 0, {}).value()->holds)
      << "ln 3 is allowed";
}

// Otherwise a difference could come from the questions.
TEST(Games, BothWorldsAreAskedTheSame) {
  std::vector<std::vector<float>> asked_in, asked_out;
  const auto recorder = [](std::vector<std::vector<float>>& into) {
    return [&into](std::span<const float> x) {
      into.emplace_back(x.begin(), x.end());
      return 1;
    };
  };
  const Game game = GameOf(3, recorder(asked_in), recorder(asked_out));
  ASSERT_TRUE(Play(game, RowOf(AuditAttack::kNoise, kNan), 7, {}).ok());
  EXPECT_EQ(asked_in.size(), 60);
  EXPECT_EQ(asked_in, asked_out);
  EXPECT_NE(asked_in[0], asked_in[20]) << "rounds differ";
}

TEST(Games, WithoutDisagreementsThereIsNothingToPlay) {
  const auto row = Play(GameOf(10, One, Zero), RowOf(AuditAttack::kDistinguisher, 0), 0, {});
  ASSERT_TRUE(row.ok());
  EXPECT_FALSE(row->has_value());
}

TEST(Games, EndWithTheAccessAndOnRequest) {
  const Oracle away = [](auto) -> Result<std::int32_t> { return IoError("away"); };
  EXPECT_EQ(Play(GameOf(10, One, away), RowOf(AuditAttack::kGap, 0), 0, {}).error().message,
            "away");
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = Play(GameOf(10, One, One), RowOf(AuditAttack::kGap, 0), 0, stop.get_token());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
}

// The clock is the test's own, so that a busy machine changes nothing: an answer takes 100 to 150
// us, and to a noised input `extra` more.
TEST(Games, TimeThatDependsOnTheInputIsSeen) {
  const TimedInputs inputs{{{1, 0}, {1, 1}}, {{0, 0}, {0, 1}}};
  const auto row_at = [&](double extra) {
    Stream jitter(5, "jitter");
    double now = 0;
    const Oracle ask = [&](std::span<const float> x) {
      now += 100 + 50 * jitter.Uniform() + (x[0] > 0 ? extra : 0);
      return 0;
    };
    return TimeAccess(inputs, ask, 200, RowOf(AuditAttack::kTiming, 1), 3, {}, [&] {
             return std::chrono::duration<double, std::micro>(now);
           }).value();
  };
  const AuditRow leaky = row_at(60);
  EXPECT_EQ(leaky.trials, 200);
  EXPECT_EQ(leaky.auc, 1);
  EXPECT_GT(leaky.welch_t, 10);
  EXPECT_TRUE(std::isnan(leaky.claimed));
  EXPECT_TRUE(std::isnan(leaky.epsilon_lower));
  // Two uniform times of which one is 1/5 of their width longer: 1 - (4/5)^2 / 2 = 0.68.
  EXPECT_NEAR(row_at(10).auc, 0.68, 0.18);
  EXPECT_GT(row_at(10).welch_t, 3);
  // 6 standard deviations of the AUC of 200 against 200 equal samples: 6 * 0.029.
  EXPECT_NEAR(row_at(0).auc, 0.5, 0.18);
}

// What users get reads a real clock.
TEST(Games, TheClockIsThatOfTheMachine) {
  const auto before = SteadyTime();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  while (std::chrono::steady_clock::now() < end) {
  }
  EXPECT_GE(SteadyTime() - before, std::chrono::milliseconds(2));
}

// An access whose every second answer is slow, whatever is asked, tells nothing.
TEST(Games, TheOrderOfTimedInputsTellsNothing) {
  const TimedInputs inputs{{{1, 0}}, {{0, 0}}};
  std::vector<bool> asked;  // whether noised
  const Oracle ask = [&](std::span<const float> x) {
    asked.push_back(x[0] > 0);
    return 0;
  };
  ASSERT_TRUE(TimeAccess(inputs, ask, 1000, RowOf(AuditAttack::kTiming, 1), 3, {}).ok());
  int noised_first = 0;
  for (std::size_t i = 2; i < asked.size(); i += 2) {  // after the untimed pair
    ASSERT_NE(asked[i], asked[i + 1]) << "one of each";
    noised_first += asked[i];
  }
  // Six standard deviations of 1,000 fair coins.
  EXPECT_NEAR(noised_first, 500, 95);
}

}  // namespace
}  // namespace lucid
