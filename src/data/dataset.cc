#include "lucid/data/dataset.h"

#include <fmt/format.h>

#include <utility>

#include "base/hasher.h"
#include "data/ignored_columns.h"
#include "data/table_reader.h"
#include "lucid/data/units.h"

namespace lucid {

namespace {

Result<Table> Load(const std::string& path, const Schema& schema, const LoadOptions& options,
                   bool label_required, const std::vector<std::string>& ignore) {
  if (options.max_rows < 0 || options.rows_per_unit < 0) {
    return InvalidInput(fmt::format("max_rows is {} and rows_per_unit {}, must not be negative",
                                    options.max_rows, options.rows_per_unit));
  }
  LUCID_ASSIGN(auto source, OpenSource(path));
  LUCID_ASSIGN(TableReader reader, TableReader::Open(std::move(source), path, schema, options,
                                                     label_required, {}, ignore));
  LUCID_ASSIGN(Table table, ReadTable(std::move(reader)));
  if (options.max_rows == 0 && options.rows_per_unit == 0) return table;
  table = KeepRows(table, options.max_rows, options.rows_per_unit);
  if (table.rows() > 0 || options.max_rows == 0) return table;
  return InvalidInput(fmt::format("{}: no unit has as few as {} rows", path, options.max_rows));
}

}  // namespace

Result<Table> LoadTable(const std::string& path, const Schema& schema, const LoadOptions& options,
                        bool label_required) {
  return Load(path, schema, options, label_required, {});
}

Result<Dataset> LoadDataset(const std::string& directory, const LoadOptions& options) {
  LUCID_ASSIGN(const DatasetFiles files, FindDatasetFiles(directory));
  Dataset dataset;
  dataset.directory = directory;
  dataset.max_rows = options.max_rows;
  dataset.rows_per_unit = options.rows_per_unit;
  LUCID_ASSIGN(dataset.schema, Schema::Load(files.schema));
  LoadOptions training = options;
  training.unit_required = true;
  LUCID_ASSIGN(const std::vector<std::string> ignore, IgnoredColumns(files.schema));
  LUCID_ASSIGN(dataset.train, Load(files.train, dataset.schema, training, true, ignore));
  dataset.test.features = dataset.train.features;
  if (!files.test.empty()) {
    const LoadOptions testing{.clip = options.clip, .total = options.total};
    LUCID_ASSIGN(dataset.test, Load(files.test, dataset.schema, testing, true, ignore));
  }
  dataset.schema_digest = Sha256Of(dataset.schema.Canonical());
  const TableKeys keys = TableKeys::Of(dataset.train);
  dataset.train_digest = TableDigest(dataset.train, keys);
  dataset.train_order = OrderDigest(keys);
  dataset.test_digest = TableDigest(dataset.test);
  return dataset;
}

}  // namespace lucid
