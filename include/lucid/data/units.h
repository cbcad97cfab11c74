// Whose rows a table holds. Rows and units are named by what they are and not by where they stand,
// so that everything that follows is a function of the set of rows (docs/training.md, rule R).
#pragma once

#include <cstdint>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/data/dataset.h"

namespace lucid {

// A copy number tells equal rows of one unit apart: 0, 1, ... Equal rows are interchangeable, so it
// does not matter which of them has which number.
//
//   row key  = SHA-256(unit id, encoded features, label, copy number)
//   unit key = SHA-256(unit id); without a unit column every row is a unit, and its row key is its
//              unit key
struct TableKeys {
  std::vector<Digest> rows;      // one per row
  std::vector<Digest> units;     // of the unit of each row
  std::vector<Digest> contents;  // of each row without its copy number: equal rows have one

  static TableKeys Of(const Table& table);
};

// What one member leaves out.
struct Unit {
  std::int64_t row = 0;            // its name: the first of `rows`
  std::vector<std::int64_t> rows;  // all rows that go, ascending
  std::int64_t copies = 1;         // equal rows that this member stands for
};

// All units in the order of their names. With a unit column a member leaves out all rows of the
// unit. Without one, of m equal rows the one with copy number m - 1 goes: all m share one member.
std::vector<Unit> UnitsOf(const Table& table, const TableKeys& keys);

// SHA-256 over the sorted row keys: tables with the same rows in another order have one digest.
Digest TableDigest(const Table& table);
Digest TableDigest(const Table& table, const TableKeys& keys);
// SHA-256 over the row keys as they stand: what a row's number means.
Digest OrderDigest(const TableKeys& keys);
// What runs of format 1 call the digest of a table: of its bytes as they stand.
Digest BlankedTableDigest(const Table& table);

// Whether `digest` is of this table, by either of the two rules.
bool IsDigestOf(const Table& table, const Digest& digest);

// Keeps units in the order of a public hash of their keys while they are at most `rows` rows.
// Keeps, of each unit, at most `per_unit` rows in the order of a public hash of theirs. 0: all.
// What is kept depends on no position; the kept rows stand in their old order.
Table KeepRows(const Table& table, std::int64_t rows, std::int64_t per_unit);

}  // namespace lucid
