#include "data/table_reader.h"

#include <fmt/format.h>

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

// What is wrong with a header that is not `expected`, in the words a person would use.
std::string HeaderComplaint(std::span<const std::string_view> header,
                            std::span<const std::string_view> expected) {
  const auto in = [](std::span<const std::string_view> list, std::string_view name) {
    return std::ranges::find(list, name) != list.end();
  };
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (in(header.first(i), header[i])) {
      return fmt::format("column {} is in the header twice", Quoted(header[i]));
    }
  }
  for (const std::string_view name : expected) {
    if (!in(header, name)) return fmt::format("column {} of the schema is missing", Quoted(name));
  }
  for (const std::string_view name : header) {
    if (!in(expected, name)) return fmt::format("column {} is not in the schema", Quoted(name));
  }
  const auto [at, want] = std::ranges::mismatch(header, expected);
  return fmt::format("column {} stands where the schema has {}", Quoted(*at), Quoted(*want));
}

}  // namespace

Result<DatasetFiles> FindDatasetFiles(const std::string& directory) {
  std::error_code code;
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
                                      bool label_required, const CsvLimits& limits) {
  TableReader reader(CsvReader(std::move(source), name, limits),
                     Encoder(schema, options.clip || options.total, options.total), options.total);
  LUCID_TRY(reader.ReadHeader(label_required, options.unit_required));
  return reader;
}

Status TableReader::ReadHeader(bool label_required, bool unit_required) {
  LUCID_ASSIGN(const bool has_header, csv_.Next());
  if (!has_header) return csv_.ErrorHere("the file is empty, expected a header");
  std::vector<std::string_view> expected;
  for (std::size_t c = 0; c < schema().columns().size(); ++c) {
    const Column& column = schema().columns()[c];
    const bool required = column.is_feature() ||
                          (column.kind == ColumnKind::kLabel && label_required) ||
                          (column.kind == ColumnKind::kUnit && unit_required);
    if (!required && std::ranges::find(csv_.cells(), column.name) == csv_.cells().end()) continue;
    if (column.kind == ColumnKind::kLabel) label_cell_ = expected.size();
    if (column.kind == ColumnKind::kUnit) unit_cell_ = expected.size();
    expected.push_back(column.name);
    columns_.push_back(c);
  }
  if (!std::ranges::equal(csv_.cells(), expected)) {
    return csv_.ErrorHere(HeaderComplaint(csv_.cells(), expected));
  }
  return Ok();
}

Result<bool> TableReader::Next(std::span<float> x, std::int32_t& y) {
  while (true) {
    LUCID_ASSIGN(const bool more, csv_.Next());
    if (!more) return false;
    const Status status = EncodeRecord(x, y);
    if (status.ok()) return true;
    if (!total_) return status.error();
    ++dropped_;
  }
}

Status TableReader::EncodeRecord(std::span<float> x, std::int32_t& y) {
  const std::size_t columns = columns_.size();
  if (csv_.cells().size() != columns) {
    if (csv_.blank()) return csv_.ErrorHere(fmt::format("blank line, expected {} cells", columns));
    return csv_.ErrorHere(fmt::format("{} cells, expected {}", csv_.cells().size(), columns));
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
  for (std::size_t c = 0; c < csv_.cells().size(); ++c) {
    if (c == label_cell_) {
      LUCID_ASSIGN(y, encoder_.EncodeLabel(csv_.cells()[c]));
    } else if (c != unit_cell_) {
      features_.push_back(csv_.cells()[c]);
    }
  }
  return encoder_.EncodeRow(features_, x);
}

Result<Table> ReadTable(TableReader reader, const RowVisitor& visit) {
  Table table;
  table.features = reader.schema().features();
  std::vector<float> x(static_cast<std::size_t>(table.features));
  std::int32_t y = -1;
  while (true) {
    LUCID_ASSIGN(const bool more, reader.Next(x, y));
    if (!more) break;
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
