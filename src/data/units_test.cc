#include "lucid/data/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace lucid {
namespace {

using testing::ElementsAre;

Table TableOf(const std::vector<float>& x, const std::vector<std::string>& units = {}) {
  Table table;
  table.features = 1;
  table.x = x;
  table.y.assign(x.size(), 0);
  table.unit_ids = units;
  return table;
}

TEST(Units, EqualRowsHaveDifferentKeysAndShareOneMember) {
  const Table table = TableOf({0.5f, 0.25f, 0.5f, 0.5f});
  const TableKeys keys = TableKeys::Of(table);
  EXPECT_EQ(std::set(keys.rows.begin(), keys.rows.end()).size(), 4U);
  EXPECT_EQ(keys.rows, keys.units);
  const std::vector<Unit> units = UnitsOf(table, keys);
  ASSERT_EQ(units.size(), 2U);
  EXPECT_EQ(units[0].row, 0);
  EXPECT_EQ(units[0].copies, 3);
  EXPECT_THAT(units[0].rows, ElementsAre(0));
  // Without the row that goes, the others keep their keys.
  const TableKeys rest = TableKeys::Of(TableOf({0.25f, 0.5f, 0.5f}));
  EXPECT_THAT(rest.rows, ElementsAre(keys.rows[1], keys.rows[2], keys.rows[3]));
}

TEST(Units, AUnitIsAllItsRowsAndDependsOnItsNameOnly) {
  const Table table = TableOf({0.5f, 0.25f, 0.5f, 0.5f}, {"a", "b", "a", "b"});
  const TableKeys keys = TableKeys::Of(table);
  EXPECT_EQ(keys.units[0], keys.units[2]);
  EXPECT_NE(keys.units[0], keys.units[1]);
  EXPECT_NE(keys.rows[0], keys.rows[3]) << "equal rows of two units";
  const std::vector<Unit> units = UnitsOf(table, keys);
  ASSERT_EQ(units.size(), 2U);
  EXPECT_THAT(units[0].rows, ElementsAre(0, 2));
  EXPECT_THAT(units[1].rows, ElementsAre(1, 3));
  EXPECT_EQ(units[1].row, 1);
}

TEST(Units, MinusZeroIsZero) {
  EXPECT_EQ(TableKeys::Of(TableOf({-0.0f})).rows, TableKeys::Of(TableOf({0.0f})).rows);
}

TEST(TableDigest, DoesNotKnowTheOrderAndKnowsEverythingElse) {
  const Digest digest = TableDigest(TableOf({0.5f, 0.25f, 0.5f}));
  EXPECT_EQ(TableDigest(TableOf({0.5f, 0.5f, 0.25f})), digest);
  EXPECT_NE(TableDigest(TableOf({0.5f, 0.25f})), digest);
  EXPECT_NE(TableDigest(TableOf({0.5f, 0.25f, 0.25f})), digest);
  EXPECT_NE(TableDigest(TableOf({0.5f, 0.25f, 0.5f}, {"a", "b", "c"})), digest);
  const Digest order = OrderDigest(TableKeys::Of(TableOf({0.5f, 0.25f, 0.5f})));
  EXPECT_NE(OrderDigest(TableKeys::Of(TableOf({0.25f, 0.5f, 0.5f}))), order);
  EXPECT_TRUE(IsDigestOf(TableOf({0.5f}), BlankedTableDigest(TableOf({0.5f}))));
}

TEST(KeepRows, DependsOnNoPosition) {
  std::vector<float> x;
  std::vector<std::string> units;
  for (int i = 0; i < 60; ++i) {
    x.push_back(static_cast<float>(i) / 64);
    units.push_back("p" + std::to_string(i % 20));
  }
  const auto reversed = [](auto list) {
    std::reverse(list.begin(), list.end());
    return list;
  };
  for (const auto& [rows, per_unit] : {std::pair{13, 0}, std::pair{0, 2}, std::pair{9, 1}}) {
    const Table kept = KeepRows(TableOf(x, units), rows, per_unit);
    const Table again = KeepRows(TableOf(reversed(x), reversed(units)), rows, per_unit);
    EXPECT_EQ(reversed(again.x), kept.x);
    EXPECT_EQ(reversed(again.unit_ids), kept.unit_ids);
    EXPECT_TRUE(std::ranges::is_sorted(kept.x)) << "the rows stand in their old order";
  }
  EXPECT_EQ(KeepRows(TableOf(x), 13, 0).rows(), 13);
  EXPECT_EQ(KeepRows(TableOf(x, units), 13, 0).rows(), 12) << "units of three rows, whole";
  EXPECT_EQ(KeepRows(TableOf(x, units), 0, 2).rows(), 40);
}

// What is kept of a unit is a rule about this unit alone.
TEST(KeepRows, RowsPerUnitDoNotDependOnOtherUnits) {
  const Table both = KeepRows(TableOf({0.1f, 0.2f, 0.3f, 0.4f}, {"a", "a", "a", "b"}), 0, 1);
  const Table one = KeepRows(TableOf({0.1f, 0.2f, 0.3f}, {"a", "a", "a"}), 0, 1);
  EXPECT_EQ(both.x[0], one.x[0]);
}

}  // namespace
}  // namespace lucid
