#include "lucid/data/summary.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/hasher.h"
#include "base/text.h"
#include "data/ignored_columns.h"
#include "data/table_reader.h"
#include "lucid/data/units.h"

namespace lucid {
namespace {

using RowSet = std::unordered_set<Digest, DigestHash>;

Digest RowDigest(std::span<const std::string_view> cells) {
  Hasher hasher;
  for (const std::string_view cell : cells) hasher.Text(cell);
  return hasher.Finish();
}

// What the raw cells of one column hold.
class ColumnTally {
 public:
  explicit ColumnTally(const Column& column) : column_(column) {}

  void Add(std::string_view cell) {
    if (column_.kind == ColumnKind::kNumeric) {
      if (const Result<double> value = ParseNumber(cell); value.ok()) numbers_.insert(*value);
    } else if (const auto found = counts_.find(cell); found != counts_.end()) {
      ++found->second;
    } else {
      counts_.emplace(cell, 1);
    }
  }

  // `label_counts`: rows per class; a label cell is an index, not one of the categories.
  ColumnSummary Summary(const std::vector<std::int64_t>& label_counts) const {
    ColumnSummary summary;
    if (column_.kind == ColumnKind::kNumeric) {
      const auto [min, max] = std::ranges::minmax(numbers_);
      summary.min = min;
      summary.max = max;
      summary.distinct = static_cast<std::int64_t>(numbers_.size());
      return summary;
    }
    if (column_.kind == ColumnKind::kUnit) {
      summary.distinct = static_cast<std::int64_t>(counts_.size());
      return summary;
    }
    if (column_.kind == ColumnKind::kLabel) {
      summary.counts = label_counts;
    } else {
      for (const std::string& category : column_.categories) {
        summary.counts.push_back(CountOf(category));
      }
    }
    if (column_.kind == ColumnKind::kQuarterCircle) summary.missing = CountOf(kMissing);
    summary.distinct = std::ranges::count_if(summary.counts, [](auto count) { return count > 0; });
    return summary;
  }

 private:
  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::int64_t CountOf(std::string_view cell) const {
    const auto found = counts_.find(cell);
    return found == counts_.end() ? 0 : found->second;
  }

  const Column& column_;
  std::unordered_set<double> numbers_;
  std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>> counts_;
};

// `seen`: gets the rows of the file. `known`: how often one of these occurs is counted in
// `repeats`.
Result<TableSummary> SummarizeTable(const std::string& path, const Schema& schema,
                                    const LoadOptions& options,
                                    const std::vector<std::string>& ignore, RowSet& seen,
                                    const RowSet& known, std::int64_t& repeats) {
  TableSummary summary;
  summary.path = path;
  std::vector<ColumnTally> tallies(schema.columns().begin(), schema.columns().end());
  LUCID_ASSIGN(auto source, OpenSource(path));
  LUCID_ASSIGN(TableReader reader,
               TableReader::Open(std::move(source), path, schema, options, true, {}, ignore));
  const std::vector<std::size_t> columns(reader.columns().begin(), reader.columns().end());
  const auto visit = [&](std::span<const std::string_view> cells) {
    for (std::size_t c = 0; c < cells.size(); ++c) tallies[columns[c]].Add(cells[c]);
    const Digest row = RowDigest(cells);
    if (known.contains(row)) ++repeats;
    if (!seen.insert(row).second) ++summary.duplicate_rows;
  };
  LUCID_ASSIGN(const Table table, ReadTable(std::move(reader), visit));

  summary.rows = table.rows();
  summary.clipped = table.clipped;
  summary.digest = TableDigest(table);
  const auto [min, max] = std::ranges::minmax(table.x);
  summary.encoded_min = min;
  summary.encoded_max = max;
  std::vector<std::int64_t> classes(static_cast<std::size_t>(schema.classes()));
  for (const std::int32_t y : table.y) ++classes[static_cast<std::size_t>(y)];
  for (const ColumnTally& tally : tallies) summary.columns.push_back(tally.Summary(classes));
  return summary;
}

}  // namespace

Result<DatasetSummary> DescribeDataset(const std::string& directory, const LoadOptions& options) {
  LUCID_ASSIGN(const DatasetFiles files, FindDatasetFiles(directory));
  DatasetSummary summary;
  LUCID_ASSIGN(summary.schema, Schema::Load(files.schema));
  summary.schema_digest = Sha256Of(summary.schema.Canonical());
  RowSet train_rows, test_rows;
  std::int64_t none = 0;
  LUCID_ASSIGN(const std::vector<std::string> ignore, IgnoredColumns(files.schema));
  LUCID_ASSIGN(summary.train, SummarizeTable(files.train, summary.schema, options, ignore,
                                             train_rows, RowSet(), none));
  if (!files.test.empty()) {
    LUCID_ASSIGN(summary.test, SummarizeTable(files.test, summary.schema, options, ignore,
                                              test_rows, train_rows, summary.test_rows_in_train));
  }
  return summary;
}

}  // namespace lucid
