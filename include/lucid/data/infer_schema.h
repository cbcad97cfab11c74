// From one plain CSV to a data directory, by one closed rule that no single unit decides.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/data/schema.h"

namespace lucid {

// Every decision of the rule is about whether at least so many units have a property.
inline constexpr std::int64_t kUnitsToCount = 10;

// What becomes of cells that are missing (IsMissingCell) in a column that is used.
enum class MissingCells {
  kFill,    // a number is the middle of its range, a category is kOther
  kDrop,    // the row is left out
  kRefuse,  // an error that names the columns and how many there are
};
std::string_view NameOf(MissingCells missing);  // "fill", "drop", "refuse"
Result<MissingCells> MissingCellsNamed(std::string_view name);

struct InferOptions {
  std::string label;            // the column of the classes
  std::string unit;             // the column that says whose row it is; empty: every row is a unit
  std::string declared;         // a schema.csv whose columns are taken as they are; empty: none
  double test_share = 0.2;      // of the units
  std::uint64_t split_key = 0;  // public: the split is a keyed hash of the unit
  std::vector<std::string> ignore;  // columns to leave out, beside those of kind `ignore` declared
  // Columns that are not in `declared` are left out: nothing is decided by the data. It is always
  // so where the file says "# declared = true".
  bool only_declared = false;
  MissingCells missing = MissingCells::kFill;
  bool owner_only = false;  // the files have mode 0600
  // If a single unit would decide about a column, a whole schema is written to this file, for
  // people to look at and to declare. Empty: none is written.
  std::string proposal;
  bool overwrite = false;

  Status Validate() const;
};

// What became of a column, and by how much.
struct ColumnDecision {
  std::string name;
  std::string what;  // "numeric, 0 to 100", "categorical, 5 categories and other", "left out: ..."
  // The smallest number of units that would have to leave before the decision changes; 0: none
  // could, or the column was declared.
  std::int64_t margin = 0;
};

struct InferredSchema {
  Schema schema;
  std::vector<ColumnDecision> columns;  // of the file, in order
  std::int64_t rows = 0, units = 0;     // of the file
  std::int64_t train_rows = 0, test_rows = 0;
  std::int64_t left_out = 0;           // rows whose class is missing or too few units have
  std::int64_t missing_cells = 0;      // of the columns that are used
  std::int64_t rows_with_missing = 0;  // that were left out: MissingCells::kDrop
  // Which record of the file each training row is; 0: the first behind the header.
  std::vector<std::int64_t> train_records;
};

// The rule, applied whatever a check says:
//   * cells are separated by commas, semicolons or tabs, and blanks around them are dropped;
//   * a cell that is empty, "?", "NA" or "NaN" is missing;
//   * a column in which fewer than kUnitsToCount units have something that is neither a number nor
//     missing is numeric, otherwise categorical;
//   * a category is kept if kUnitsToCount units have it, all others (and missing ones) are `other`;
//   * a range ends at the next round number beyond the extreme of the kUnitsToCount-th unit; values
//     outside are clipped, and what is missing is in the middle;
//   * a column is left out if fewer than kUnitsToCount units differ from the most common value, if
//     no category is kept, if all but fewer than kUnitsToCount units have dates, or if its values
//     are whole numbers that fewer than kUnitsToCount units share with another unit (an id);
//   * a class is kept if kUnitsToCount units have it; rows of others are left out.
// Writes schema.csv, train.csv and test.csv to `folder`, and source.csv, which says from what they
// were made (lucid/data/data_source.h). The schema's origin is kFromData where a
// row decided about anything that it says. Errors: as CSV; kMismatch names the
// columns that a single unit decides and asks for their declaration; fewer than two classes;
// missing cells with MissingCells::kRefuse; kIo.
Result<InferredSchema> InferSchema(const std::string& csv, const InferOptions& options,
                                   const std::string& folder);

}  // namespace lucid
