// The rows of one CSV file of a data directory, checked against the schema and encoded. What loads
// and what describes a table are two loops over this.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_source.h"
#include "data/csv.h"
#include "lucid/base/result.h"
#include "lucid/data/dataset.h"
#include "lucid/data/encoder.h"
#include "lucid/data/schema.h"

namespace lucid {

// The files of a data directory. `test` is empty if there is none.
struct DatasetFiles {
  std::string schema;
  std::string train;
  std::string test;
};
Result<DatasetFiles> FindDatasetFiles(const std::string& directory);

class TableReader {
 public:
  // Reads the header and compares it with the schema: the same columns in the same order; the label
  // may be absent unless `label_required`.
  static Result<TableReader> Open(std::unique_ptr<ByteSource> source, const std::string& name,
                                  const Schema& schema, bool clip, bool label_required,
                                  const CsvLimits& limits = {});

  // Encodes the next row into `x` (schema.features() values) and `y` (-1 without a label column);
  // false at the end. Errors name file, line, column, value and rule.
  Result<bool> Next(std::span<float> x, std::int32_t& y);

  // The raw cells of the row, the label's included if the file has it.
  std::span<const std::string_view> cells() const { return csv_.cells(); }
  const Schema& schema() const { return encoder_.schema(); }
  const std::string& name() const { return csv_.name(); }
  std::int64_t clipped() const { return clipped_; }
  Error ErrorHere(std::string_view what) const { return csv_.ErrorHere(what); }

 private:
  TableReader(CsvReader csv, Encoder encoder)
      : csv_(std::move(csv)), encoder_(std::move(encoder)) {}
  Status ReadHeader(bool label_required);
  Result<std::int64_t> EncodeCells(std::span<float> x, std::int32_t& y);

  CsvReader csv_;
  Encoder encoder_;
  std::size_t columns_ = 0;
  bool has_label_ = false;
  std::int64_t clipped_ = 0;
  std::vector<std::string_view> features_;  // the cells without the label
};

using RowVisitor = std::function<void(std::span<const std::string_view> cells)>;

// All rows, or the first `max_rows` (0: all). `visit` sees the raw cells of each. A file without
// rows is an error.
Result<Table> ReadTable(TableReader reader, std::int64_t max_rows = 0,
                        const RowVisitor& visit = {});

}  // namespace lucid
