#include "audit/attacks.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lucid {
namespace {

// Class 1 where x_0 > boundary: linear, so crossings are known.
Labels Threshold(double boundary) {
  const Architecture architecture = Architecture::FromCanonical("2 > 2").value();
  return Labels::Of({architecture, {0, 0, 1, 0, 0, static_cast<float>(-boundary)}}).value();
}

Table Grid() {
  Table table;
  table.features = 2;
  for (int i = 0; i < 40; ++i) {
    table.x.push_back(static_cast<float>(i) / 39);
    table.x.push_back(static_cast<float>(i * 7 % 40) / 39);
    table.y.push_back(i >= 20);
  }
  return table;
}

TEST(Attacks, DisagreementsAreBetweenTheTwoBoundaries) {
  Stream stream(1, "test");
  const Labels network = Threshold(0.5), without = Threshold(0.51);
  const auto found = FindDisagreements(network, without, Grid(), 51, stream);
  ASSERT_GT(found.size(), 40);
  for (const std::vector<float>& x : found) {
    EXPECT_NE(network(x), without(x));
    EXPECT_GT(x[0], 0.5f);
    EXPECT_LE(x[0], 0.5101f);
  }
}

TEST(Attacks, EqualNetworksNeverDisagree) {
  Stream stream(1, "test");
  EXPECT_TRUE(FindDisagreements(Threshold(0.5), Threshold(0.5), Grid(), 51, stream).empty());
}

TEST(Attacks, TheDistinguisherTellsTheTwoWorldsApart) {
  Stream stream(1, "test");
  const Labels network = Threshold(0.5);
  const Table train = Grid();
  Target target{0, Threshold(0.51), {}};
  for (const Attack attack : {Attack::kDistinguisher, Attack::kAveraging}) {
    const auto score = [&](const Labels& world) {
      return Score(
          attack, target, network, train, [&](auto x) { return world(x); }, stream);
    };
    target.disagreements.clear();
    EXPECT_TRUE(std::isnan(score(network)));
    target.disagreements = FindDisagreements(network, target.without, train, 5, stream);
    EXPECT_EQ(score(network), 1);
    EXPECT_EQ(score(target.without), 0);
  }
}

TEST(Attacks, ScoresOfRowsAreWhatTheirNamesSay) {
  const Table train = Grid();
  const Labels network = Threshold(0.495);  // right on every row
  const Oracle ask = [&](auto x) { return network(x); };
  const auto score = [&](Attack attack, std::int64_t row) {
    Stream stream(2, "score");
    return Score(attack, {row, Threshold(0), {}}, network, train, ask, stream);
  };
  EXPECT_EQ(score(Attack::kGap, 0), 1);
  EXPECT_EQ(score(Attack::kNoise, 0), 1) << "ten deviations from the boundary";
  EXPECT_LT(score(Attack::kNoise, 20), 1) << "beside the boundary";
  EXPECT_LT(score(Attack::kBoundary, 20), score(Attack::kBoundary, 0));
  EXPECT_GE(score(Attack::kBoundary, 0), 0.49);
}

TEST(Attacks, AskNoMoreThanTheySay) {
  const Table train = Grid();
  const Labels network = Threshold(0.495);
  Stream stream(3, "count");
  Target target{20, Threshold(0.51), {}};
  target.disagreements = FindDisagreements(network, target.without, train, 9, stream);
  for (const Attack attack : AllAttacks()) {
    if (attack == Attack::kTiming) continue;
    std::int64_t asked = 0;
    const Oracle ask = [&](auto x) {
      ++asked;
      return network(x);
    };
    Score(attack, target, network, train, ask, stream);
    EXPECT_LE(asked, QueriesOf(attack, 9)) << NameOf(attack);
    EXPECT_GT(asked, 0);
  }
}

}  // namespace
}  // namespace lucid
