#include "train/row_ranking.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "random/stream.h"

namespace lucid {
namespace {

Table RandomTable(std::int64_t rows, std::int64_t features) {
  Stream stream(4, "ranking");
  Table table;
  table.features = features;
  for (std::int64_t i = 0; i < rows * features; ++i) {
    table.x.push_back(stream.Below(2) == 0 ? 0.0f : static_cast<float>(stream.Uniform()));
  }
  table.y.assign(static_cast<std::size_t>(rows), 0);
  return table;
}

std::vector<std::int32_t> Without(std::vector<std::int32_t> rows, std::int32_t row) {
  std::erase(rows, row);
  return rows;
}

std::vector<std::int32_t> Ranked(const Table& table) {
  return RankRows(table, TableKeys::Of(table));
}

TEST(RankRows, IsAPermutation) {
  std::vector<std::int32_t> ranked = Ranked(RandomTable(200, 70));
  std::sort(ranked.begin(), ranked.end());
  for (std::int32_t i = 0; i < 200; ++i) ASSERT_EQ(ranked[i], i);
}

// The property that keeps a leave-one-out network ignorant of its row.
TEST(RankRows, WhatIsInARowMovesNoOtherRow) {
  const Table table = RandomTable(100, 6);
  const std::vector<std::int32_t> before = Ranked(table);
  for (std::int32_t row : {0, 17, 99}) {
    Table changed = table;
    for (int k = 0; k < 6; ++k) changed.x[row * 6 + k] = 1 - changed.x[row * 6 + k];
    EXPECT_EQ(Without(Ranked(changed), row), Without(before, row)) << row;
  }
}

TEST(RankRows, WhereARowStandsMovesNothing) {
  const Table table = RandomTable(50, 12);
  Table reversed = table;
  for (std::int64_t i = 0; i < 50; ++i) {
    std::ranges::copy(table.row(49 - i), reversed.x.begin() + i * 12);
  }
  std::vector<std::int32_t> ranked = Ranked(reversed);
  for (std::int32_t& row : ranked) row = 49 - row;
  EXPECT_EQ(ranked, Ranked(table));
}

TEST(RankRows, AlikeRowsStandSideBySideAndUnitsTogether) {
  Table table;
  table.features = 2;
  for (int i = 0; i < 10; ++i) {
    table.x.insert(table.x.end(), {i % 2 == 0 ? 0.9f : 0.1f, i % 2 == 0 ? 0.8f : 0.2f});
    table.y.push_back(0);
  }
  std::vector<std::int32_t> ranked = Ranked(table);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ranked[i] % 2, i < 5 ? 1 : 0) << i;
  for (int i = 0; i < 10; ++i) table.unit_ids.push_back(i < 4 ? "a" : "b" + std::to_string(i));
  ranked = Ranked(table);
  const auto first = std::ranges::find_if(ranked, [](std::int32_t row) { return row < 4; });
  for (int i = 0; i < 4; ++i) EXPECT_LT(first[i], 4) << "the rows of unit a follow one another";
}

}  // namespace
}  // namespace lucid
