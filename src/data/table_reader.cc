#include "data/table_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/text.h"

namespace lucid {
namespace {

// DIR/stem.csv or DIR/stem.csv.gz; empty if there is neither.
Result<std::string> FindTable(const std::string& directory, const std::string& stem) {
  const std::string plain = (std::filesystem::path(directory) / (stem + ".csv")).string();
  const std::string gzip = plain + ".gz";
  std::error_code ignored;
  const bool has_plain = std::filesystem::exists(plain, ignored);
  const bool has_gzip = std::filesystem::exists(gzip, ignored);
  if (has_plain && has_gzip) {
    return InvalidInput(fmt::format("both '{}' and '{}' exist: remove one", plain, gzip));
  }
  return has_plain ? plain : has_gzip ? gzip : std::string();
}

bool Has(std::span<const std::string_view> list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

// What is wrong with a header that is not `expected`, in the words a person would use.
std::string HeaderComplaint(std::span<const std::string_view> header,
                            std::span<const std::string_view> expected) {
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (Has(header.first(i), header[i])) {
      return fmt::format("column {} is in the header twice", Quoted(header[i]));
    }
  }
  for (const std::string_view name : expected) {
    if (!Has(header, name)) return fmt::format("column {} of the schema is missing", Quoted(name));
  }
  for (const std::string_view name : header) {
    if (!Has(expected, name)) {
      return fmt::format("column {} is not in the schema (a column of kind ignore is left out)",
                         Quoted(name));
    }
  }
  const auto [at, want] = std::ranges::mismatch(header, expected);
  return fmt::format("column {} stands where the schema has {}", Quoted(*at), Quoted(*want));
}

}  // namespace

Result<DatasetFiles> FindDatasetFiles(const std::string& directory) {
  std::error_code code;
  if (std::filesystem::is_regular_file(directory, code)) {
    return InvalidInput(
        fmt::format("'{}' is a file, expected a data directory: 'lucid data schema {} --label "
                    "COLUMN --out DIR' "
                    "makes one of it",
                    directory, directory));
  }
  if (!std::filesystem::is_directory(directory, code)) {
    return InvalidInput(fmt::format("'{}' is not a data directory: no such folder", directory));
  }
  DatasetFiles files;
  files.schema = (std::filesystem::path(directory) / "schema.csv").string();
  if (!std::filesystem::exists(files.schema, code)) {
    return InvalidInput(
        fmt::format("'{}' is not a data directory: it has no schema.csv", directory));
  }
  LUCID_ASSIGN(files.train, FindTable(directory, "train"));
  if (files.train.empty()) {
    return InvalidInput(fmt::format("'{}' has neither train.csv nor train.csv.gz", directory));
  }
  LUCID_ASSIGN(files.test, FindTable(directory, "test"));
  return files;
}

Result<TableReader> TableReader::Open(std::unique_ptr<ByteSource> source, const std::string& name,
                                      const Schema& schema, const LoadOptions& options,
                                      bool label_required, const CsvLimits& limits,
                                      const std::vector<std::string>& ignore) {
  CsvReader csv(std::move(source), name, limits);
  if (options.any_columns) csv.DetectSeparator();
  TableReader reader(std::move(csv),
                     Encoder(schema, options.clip || options.total || options.mend,
                             options.total || options.mend, options.mend),
                     options);
  LUCID_TRY(reader.ReadHeader(label_required, options.unit_required, ignore));
  return reader;
}

Status TableReader::ReadHeader(bool label_required, bool unit_required,
                               const std::vector<std::string>& ignore) {
  LUCID_ASSIGN(const bool has_header, csv_.Next());
  if (!has_header) return csv_.ErrorHere("the file is empty, expected a header");
  width_ = csv_.cells().size();
  std::vector<std::string_view> expected;
  for (std::size_t c = 0; c < schema().columns().size(); ++c) {
    const Column& column = schema().columns()[c];
    const bool required = column.is_feature() ||
                          (column.kind == ColumnKind::kLabel && label_required) ||
                          (column.kind == ColumnKind::kUnit && unit_required);
    // If the rows are there to be labelled, nobody reads the label column: it is like any other
    // column.
    const bool unread = any_columns_ && column.kind == ColumnKind::kLabel && !label_required;
    if (unread || (!required && !Has(csv_.cells(), column.name))) continue;
    if (column.kind == ColumnKind::kLabel) label_cell_ = expected.size();
    if (column.kind == ColumnKind::kUnit) unit_cell_ = expected.size();
    expected.push_back(column.name);
    columns_.push_back(c);
  }
  return FindColumns(expected, ignore);
}

Status TableReader::FindColumns(std::span<const std::string_view> expected,
                                const std::vector<std::string>& ignore) {
  std::vector<std::string_view> header(csv_.cells().begin(), csv_.cells().end());
  if (any_columns_) std::ranges::transform(header, header.begin(), Trimmed);
  std::vector<std::string_view> found = header;
  const auto is_ignored = [&](std::string_view name) {
    return any_columns_ ? !Has(expected, name) : std::ranges::find(ignore, name) != ignore.end();
  };
  std::erase_if(found, is_ignored);
  for (const std::string_view name : header) {
    if (is_ignored(name)) ignored_.emplace_back(name);
  }
  const bool same = any_columns_ ? std::ranges::is_permutation(found, expected)
                                 : std::ranges::equal(found, expected);
  if (!same) return csv_.ErrorHere(HeaderComplaint(found, expected));
  for (const std::string_view name : expected) {
    places_.push_back(static_cast<std::size_t>(std::ranges::find(header, name) - header.begin()));
  }
  return Ok();
}

Result<bool> TableReader::Next(std::span<float> x, std::int32_t& y) {
  while (true) {
    row_failed_ = false;
    LUCID_ASSIGN(const bool more, csv_.Next());
    if (!more) return false;
    const Status status = EncodeRecord(x, y);
    if (status.ok()) return true;
    row_failed_ = true;
    if (!total_) return status.error();
    ++dropped_;
  }
}

Status TableReader::EncodeRecord(std::span<float> x, std::int32_t& y) {
  if (csv_.cells().size() != width_) {
    if (csv_.blank()) return csv_.ErrorHere(fmt::format("blank line, expected {} cells", width_));
    return csv_.ErrorHere(fmt::format("{} cells, expected {}", csv_.cells().size(), width_));
  }
  cells_.clear();
  for (const std::size_t place : places_) {
    const std::string_view cell = csv_.cells()[place];
    cells_.push_back(any_columns_ ? Trimmed(cell) : cell);
  }
  if (has_unit() && unit().empty()) {
    return csv_.ErrorHere(fmt::format("column {}: a row of nobody", Quoted(schema().unit_name())));
  }
  const Result<std::int64_t> clipped = EncodeCells(x, y);
  if (!clipped.ok()) return csv_.ErrorHere(clipped.error().message);
  clipped_ += *clipped;
  return Ok();
}

Result<std::int64_t> TableReader::EncodeCells(std::span<float> x, std::int32_t& y) {
  features_.clear();
  y = -1;
  for (std::size_t c = 0; c < cells_.size(); ++c) {
    if (c == label_cell_) {
      LUCID_ASSIGN(y, encoder_.EncodeLabel(cells_[c]));
    } else if (c != unit_cell_) {
      features_.push_back(cells_[c]);
    }
  }
  return encoder_.EncodeRow(features_, x);
}

Error WithFurtherErrors(const Error& first, TableReader& reader) {
  constexpr std::size_t kShown = 5;
  std::vector<std::int64_t> lines;
  std::vector<float> x(static_cast<std::size_t>(reader.schema().features()));
  std::int32_t y = -1;
  while (true) {
    const Result<bool> more = reader.Next(x, y);
    if (more.ok() && !*more) break;
    if (more.ok()) continue;
    if (!reader.row_failed()) break;  // no record can be read behind it
    lines.push_back(reader.line());
  }
  if (lines.empty()) return first;
  const std::span shown(lines.data(), std::min(kShown, lines.size()));
  return {first.kind,
          fmt::format("{} (and {} more such rows: line {}{})", first.message, lines.size(),
                      fmt::join(shown, ", "), lines.size() > kShown ? ", ..." : "")};
}

Result<Table> ReadTable(TableReader reader, const RowVisitor& visit) {
  Table table;
  table.features = reader.schema().features();
  std::vector<float> x(static_cast<std::size_t>(table.features));
  std::int32_t y = -1;
  while (true) {
    const Result<bool> more = reader.Next(x, y);
    if (!more.ok())
      return reader.row_failed() ? WithFurtherErrors(more.error(), reader) : more.error();
    if (!*more) break;
    if (visit) visit(reader.cells());
    table.x.insert(table.x.end(), x.begin(), x.end());
    table.y.push_back(y);
    if (reader.has_unit()) table.unit_ids.emplace_back(reader.unit());
  }
  if (table.rows() == 0 && !reader.total()) {
    return reader.ErrorHere("the file has a header but no rows");
  }
  table.clipped = reader.clipped();
  table.dropped = reader.dropped();
  return table;
}

}  // namespace lucid
