// What is in a data directory, for people: counts, ranges, categories, repeated rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/data/dataset.h"
#include "lucid/data/schema.h"

namespace lucid {

struct ColumnSummary {
  double min = 0;  // raw values; numeric columns only
  double max = 0;
  std::int64_t distinct = 0;         // different values that occur, without '?'
  std::int64_t missing = 0;          // '?' in quarter-circle columns
  std::vector<std::int64_t> counts;  // rows per category or class, in the order of the schema
};

struct TableSummary {
  std::string path;
  std::int64_t rows = 0;
  std::int64_t duplicate_rows = 0;  // rows equal in every cell to an earlier row of the file
  std::int64_t clipped = 0;
  float encoded_min = 0;
  float encoded_max = 0;
  Digest digest;                       // TableDigest
  std::vector<ColumnSummary> columns;  // as Schema::columns()
};

struct DatasetSummary {
  Schema schema;
  Digest schema_digest;
  TableSummary train;
  std::optional<TableSummary> test;
  std::int64_t test_rows_in_train = 0;  // test rows equal in every cell to a training row
};

// One pass over the files of LoadDataset, with the same checks and the same errors.
Result<DatasetSummary> DescribeDataset(const std::string& directory,
                                       const LoadOptions& options = {});

}  // namespace lucid
