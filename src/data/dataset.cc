#include "lucid/data/dataset.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "base/hasher.h"
#include "data/table_reader.h"

namespace lucid {

Result<Table> LoadTable(const std::string& path, const Schema& schema, const LoadOptions& options,
                        bool label_required) {
  if (options.max_rows < 0) {
    return InvalidInput(fmt::format("max_rows is {}, must not be negative", options.max_rows));
  }
  LUCID_ASSIGN(auto source, OpenSource(path));
  LUCID_ASSIGN(TableReader reader,
               TableReader::Open(std::move(source), path, schema, options.clip, label_required));
  return ReadTable(std::move(reader), options.max_rows);
}

Result<Dataset> LoadDataset(const std::string& directory, const LoadOptions& options) {
  LUCID_ASSIGN(const DatasetFiles files, FindDatasetFiles(directory));
  Dataset dataset;
  dataset.directory = directory;
  LUCID_ASSIGN(dataset.schema, Schema::Load(files.schema));
  LUCID_ASSIGN(dataset.train, LoadTable(files.train, dataset.schema, options));
  dataset.test.features = dataset.train.features;
  if (!files.test.empty()) {
    LoadOptions all_rows = options;
    all_rows.max_rows = 0;
    LUCID_ASSIGN(dataset.test, LoadTable(files.test, dataset.schema, all_rows));
  }
  dataset.schema_digest = Sha256Of(dataset.schema.Canonical());
  dataset.train_digest = TableDigest(dataset.train);
  dataset.test_digest = TableDigest(dataset.test);
  return dataset;
}

Digest TableDigest(const Table& table) {
  static_assert(std::endian::native == std::endian::little, "the digest is of little-endian bytes");
  return Hasher()
      .Text("lucid-table-1")
      .Number(static_cast<std::uint64_t>(table.rows()))
      .Number(static_cast<std::uint64_t>(table.features))
      .Bytes(std::as_bytes(std::span(table.x)))
      .Bytes(std::as_bytes(std::span(table.y)))
      .Finish();
}

}  // namespace lucid
