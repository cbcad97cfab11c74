// The rows of one CSV file of a data directory, checked against the schema and encoded. What loads
// and what describes a table are two loops over this.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
  // Reads the header and compares it with the schema: the same columns in the same order (in any,
  // with options.any_columns); the label may be absent unless `label_required`, the unit unless
  // `options.unit_required`.
  // `ignore`: columns that may stand anywhere and are not read.
  static Result<TableReader> Open(std::unique_ptr<ByteSource> source, const std::string& name,
                                  const Schema& schema, const LoadOptions& options,
                                  bool label_required, const CsvLimits& limits = {},
                                  const std::vector<std::string>& ignore = {});

  // Encodes the next row into `x` (schema.features() values) and `y` (-1 without a label column);
  // false at the end. Errors name file, line, column, value and rule; with LoadOptions::total such
  // a row is dropped instead.
  Result<bool> Next(std::span<float> x, std::int32_t& y);

  // The raw cells of the row, those of the label and the unit included if the file has them.
  // In the order of the schema. Valid until the next row.
  std::span<const std::string_view> cells() const { return cells_; }
  std::span<const std::size_t> columns() const { return columns_; }  // of the schema, per cell
  // Columns of the file that are not read.
  const std::vector<std::string>& ignored() const { return ignored_; }
  // The unit that the row belongs to; empty without a unit column. Valid until the next row.
  std::string_view unit() const { return unit_cell_ ? cells_[*unit_cell_] : ""; }
  bool has_unit() const { return unit_cell_.has_value(); }
  const Schema& schema() const { return encoder_.schema(); }
  const std::string& name() const { return csv_.name(); }
  std::int64_t clipped() const { return clipped_; }
  std::int64_t dropped() const { return dropped_; }
  bool total() const { return total_; }
  std::int64_t line() const { return csv_.line(); }
  // Whether the last error of Next() was of one row: the rows behind it can be read.
  bool row_failed() const { return row_failed_; }
  Error ErrorHere(std::string_view what) const { return csv_.ErrorHere(what); }

 private:
  TableReader(CsvReader csv, Encoder encoder, const LoadOptions& options)
      : csv_(std::move(csv)),
        encoder_(std::move(encoder)),
        total_(options.total),
        any_columns_(options.any_columns) {}
  Status ReadHeader(bool label_required, bool unit_required,
                    const std::vector<std::string>& ignore);
  Status FindColumns(std::span<const std::string_view> expected,
                     const std::vector<std::string>& ignore);
  Status EncodeRecord(std::span<float> x, std::int32_t& y);
  Result<std::int64_t> EncodeCells(std::span<float> x, std::int32_t& y);

  CsvReader csv_;
  Encoder encoder_;
  std::vector<std::size_t> columns_;
  std::optional<std::size_t> label_cell_, unit_cell_;
  bool total_, any_columns_, row_failed_ = false;
  std::size_t width_ = 0;            // cells of a record
  std::vector<std::size_t> places_;  // in a record, of the columns in the order of the schema
  std::vector<std::string> ignored_;
  std::int64_t clipped_ = 0, dropped_ = 0;
  std::vector<std::string_view> cells_;
  std::vector<std::string_view> features_;  // the cells without the label and the unit
};

// Reads on after an error of Next() and adds the lines of further rows that do not encode to the
// first one's message.
Error WithFurtherErrors(const Error& first, TableReader& reader);

using RowVisitor = std::function<void(std::span<const std::string_view> cells)>;

// All rows. `visit` sees the raw cells of each. A file without rows is an error unless `total`.
Result<Table> ReadTable(TableReader reader, const RowVisitor& visit = {});

}  // namespace lucid
