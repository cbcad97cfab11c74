// A data set ready for a network: features in [0,1]^d as float32, class labels, and the digests of
// what it came from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/data/schema.h"

namespace lucid {

// Rows of encoded features (row-major) with a label each. Invariant: x.size() == rows * features,
// every label in [0, classes), every value finite and in [0,1] up to kEncodingSlack; unit_ids is
// empty or has an entry per row.
struct Table {
  std::int64_t features = 0;
  std::vector<float> x;
  std::vector<std::int32_t> y;
  std::vector<std::string> unit_ids;  // whose row it is; empty: every row is a unit of its own
  std::int64_t clipped = 0;           // values that LoadOptions::clip moved to 0 or 1
  std::int64_t dropped = 0;           // rows that LoadOptions::total left out

  bool has_units() const { return !unit_ids.empty(); }
  std::int64_t rows() const { return static_cast<std::int64_t>(y.size()); }
  std::span<const float> row(std::int64_t i) const {
    return std::span(x).subspan(static_cast<std::size_t>(i * features),
                                static_cast<std::size_t>(features));
  }
};

// Cosines of a quarter circle come out as far as -1.6e-16 instead of 0; that and no more is let
// through below 0 and above 1 (the double, before it is rounded to float32).
inline constexpr double kEncodingSlack = 1e-15;

struct Dataset {
  std::string directory;  // as the user named it, for messages and the manifest
  Schema schema;
  Table train;
  Table test;            // empty if the folder has no test file
  Digest schema_digest;  // of Schema::Canonical()
  Digest train_digest;   // of the rows of the training table in any order (TableDigest)
  Digest train_order;    // of the rows as they stand (OrderDigest)
  Digest test_digest;
  std::int64_t max_rows = 0, rows_per_unit = 0;  // as in the LoadOptions it was loaded with

  std::int64_t features() const { return train.features; }
  std::int64_t classes() const { return schema.classes(); }
};

struct LoadOptions {
  bool clip = false;  // clip values outside [0,1] instead of refusing them
  // Keep only so many rows of the training file (0: all), chosen by a public hash of their units:
  // KeepRows.
  std::int64_t max_rows = 0;
  std::int64_t rows_per_unit = 0;  // keep only so many rows of each unit (0: all): KeepRows
  bool unit_required = false;      // a file without the schema's unit column is an error
  // A file as people have it: columns in any order, with others between them that are ignored,
  // separated by ',', ';' or tabs; blanks around cells are dropped.
  bool any_columns = false;
  // Cells become what InferSchema makes of them: values outside [0,1] are clipped, unknown
  // categories are kOther where the schema has it, and a missing number is the middle, 0.5.
  bool mend = false;
  // No row is an error, and no rows are none: private training must not fail because of somebody's
  // row. Values outside [0,1] are clipped, unknown categories become kOther where the schema has
  // it, and a row that still does not encode is dropped: by a rule about that row alone. (A file
  // that is no CSV, or has other columns than the schema, is an error all the same.)
  bool total = false;
};

// Reads DIR/schema.csv, DIR/train.csv[.gz] and, if there, DIR/test.csv[.gz]. A file that is there
// both plain and gzip'ed is an error. Errors name file, line, column, value and rule; the line is
// the first one of the record. Memory: the encoded tables and one block of text.
Result<Dataset> LoadDataset(const std::string& directory, const LoadOptions& options = {});

// Reads and encodes one CSV file by a schema. `label_required`: a file without the label column is
// an error; otherwise labels are -1 where the column is absent.
Result<Table> LoadTable(const std::string& path, const Schema& schema,
                        const LoadOptions& options = {}, bool label_required = true);

}  // namespace lucid
