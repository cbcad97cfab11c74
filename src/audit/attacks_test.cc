#include "audit/attacks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace lucid {
namespace {

// Class 1 where x_0 > boundary: linear, so crossings are known.
NetworkLabels Threshold(double boundary) {
  const Architecture architecture = Architecture::FromCanonical("2 > 2").value();
  return NetworkLabels::Of({architecture, {0, 0, 1, 0, 0, static_cast<float>(-boundary)}}).value();
}

Domain DomainOf(const char* columns) {
  const std::string text = std::string("column,kind,offset,divisor,categories\n") + columns;
  return Domain::OfSchema(*Schema::Parse(text + "label,label,,,0|1\n", "schema"));
}
Domain AllNumbers() { return DomainOf("a,numeric,0,1,\nb,numeric,0,1,\n"); }

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
  const NetworkLabels network = Threshold(0.5), without = Threshold(0.51);
  const auto found = FindDisagreements(network, without, Grid(), AllNumbers(), 51, stream);
  ASSERT_GT(found.size(), 40);
  for (const auto& [x, label] : found) {
    EXPECT_EQ(network(x), label);
    EXPECT_NE(without(x), label);
    EXPECT_GT(x[0], 0.5f);
    EXPECT_LE(x[0], 0.5101f);
  }
}

// A guard refuses what no record encodes to, in both worlds: such a question would tell nothing.
TEST(Attacks, DisagreementsAreInputsOfTheDomain) {
  Stream stream(2, "test");
  const Domain domain = DomainOf("a,numeric,0,1,\nb,binary,,,no|yes\n");
  Table table = Grid();
  for (std::size_t i = 1; i < table.x.size(); i += 2) table.x[i] = table.x[i] > 0.5F ? 1 : 0;
  const auto found = FindDisagreements(Threshold(0.5), Threshold(0.51), table, domain, 51, stream);
  ASSERT_FALSE(found.empty());
  for (const Disagreement& point : found) EXPECT_TRUE(domain.Contains(point.x).ok());
  const std::vector<float> x = {0.52F, 1};
  const Subject subject{x, 1, {}, {}, &domain};
  for (const AuditAttack attack : {AuditAttack::kNoise, AuditAttack::kBoundary}) {
    const auto score = Score(
        attack, subject,
        [&](std::span<const float> asked) -> Result<std::int32_t> {
          EXPECT_EQ(asked[1], 1);
          return asked[0] > 0.5F ? 1 : 0;
        },
        stream);
    EXPECT_TRUE(score.ok());
  }
}

TEST(Attacks, EqualNetworksNeverDisagree) {
  Stream stream(1, "test");
  EXPECT_TRUE(
      FindDisagreements(Threshold(0.5), Threshold(0.5), Grid(), AllNumbers(), 51, stream).empty());
}

TEST(Attacks, TheDistinguisherTellsTheTwoWorldsApart) {
  Stream stream(1, "test");
  const NetworkLabels network = Threshold(0.5), without = Threshold(0.51);
  const Table train = Grid();
  const auto disagreements = FindDisagreements(network, without, train, AllNumbers(), 5, stream);
  const Subject subject{train.row(0), train.y[0], disagreements};
  for (const AuditAttack attack : {AuditAttack::kDistinguisher, AuditAttack::kAveraging}) {
    EXPECT_TRUE(NeedsDisagreements(attack));
    const auto score = [&](const NetworkLabels& world) {
      return Score(
                 attack, subject, [&](auto x) { return world(x); }, stream)
          .value();
    };
    EXPECT_EQ(score(network), 1);
    EXPECT_EQ(score(without), 0);
  }
}

TEST(Attacks, ScoresOfRowsAreWhatTheirNamesSay) {
  const Table train = Grid();
  const NetworkLabels network = Threshold(0.495);  // right on every row
  const Oracle ask = [&](auto x) { return network(x); };
  const auto score = [&](AuditAttack attack, std::int64_t row) {
    Stream stream(2, "score");
    EXPECT_FALSE(NeedsDisagreements(attack));
    return Score(attack, {train.row(row), train.y[row]}, ask, stream).value();
  };
  EXPECT_EQ(score(AuditAttack::kGap, 0), 1);
  EXPECT_EQ(score(AuditAttack::kNoise, 0), 1) << "ten deviations from the boundary";
  EXPECT_LT(score(AuditAttack::kNoise, 20), 1) << "beside the boundary";
  EXPECT_LT(score(AuditAttack::kBoundary, 20), score(AuditAttack::kBoundary, 0));
  EXPECT_GE(score(AuditAttack::kBoundary, 0), 0.49);
}

TEST(Attacks, AskNoMoreThanTheySay) {
  const Table train = Grid();
  const NetworkLabels network = Threshold(0.495);
  Stream stream(3, "count");
  const auto disagreements =
      FindDisagreements(network, Threshold(0.51), train, AllNumbers(), 9, stream);
  const TellingInput telling{{train.row(20).begin(), train.row(20).end()}, {1, -1}};
  const Subject subject{train.row(20), train.y[20], disagreements, std::span(&telling, 1)};
  for (const AuditAttack attack : AllAttacks()) {
    if (attack == AuditAttack::kTiming || attack == AuditAttack::kWhiteBox) continue;
    std::int64_t asked = 0;
    const Oracle ask = [&](auto x) {
      ++asked;
      return network(x);
    };
    ASSERT_TRUE(Score(attack, subject, ask, stream).ok());
    EXPECT_LE(asked, QueriesOf(attack, 9)) << NameOf(attack);
    EXPECT_GT(asked, 0);
  }
}

TEST(Attacks, AnAccessThatFailsEndsThem) {
  const Table train = Grid();
  Stream stream(4, "fail");
  const auto disagreements =
      FindDisagreements(Threshold(0.5), Threshold(0.51), train, AllNumbers(), 9, stream);
  const TellingInput telling{{train.row(20).begin(), train.row(20).end()}, {1, -1}};
  const Subject subject{train.row(20), train.y[20], disagreements, std::span(&telling, 1)};
  const Oracle ask = [](auto) -> Result<std::int32_t> { return IoError("the server is away"); };
  for (const AuditAttack attack : AllAttacks()) {
    if (attack == AuditAttack::kTiming || attack == AuditAttack::kWhiteBox) continue;
    const auto score = Score(attack, subject, ask, stream);
    ASSERT_FALSE(score.ok()) << NameOf(attack);
    EXPECT_EQ(score.error().message, "the server is away");
  }
}

}  // namespace
}  // namespace lucid
