#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "data/byte_source.h"
#include "data/csv.h"
#include "data/download.h"
#include "data/staged_folder.h"
#include "lucid/data/catalogue.h"
#include "lucid/data/dataset.h"

namespace lucid {
namespace {

Result<std::string> GetBytes(const CatalogueFile& file, const FetchOptions& options) {
  if (options.stop.stop_requested()) return Interrupted("fetch stopped on request");
  const std::string& from = options.from;
  const bool url = from.find("://") != std::string::npos;
  // Packed, a file may be a little longer than the text inside.
  constexpr std::int64_t kPackedSlack = 4096;
  const std::int64_t limit = file.bytes + (file.name.ends_with(".gz") ? kPackedSlack : 0);
  if (!from.empty() && !url) {
    return ReadTextFile((std::filesystem::path(from) / file.name).string(),
                        static_cast<std::uint64_t>(limit));
  }
  DownloadOptions download;
  download.max_bytes = limit;
  download.progress = options.progress;
  download.stop = options.stop;
  const std::string slash = from.ends_with('/') ? "" : "/";
  Result<std::string> bytes = Download(url ? from + slash + file.name : file.url, download);
  if (!bytes.ok() && bytes.error().kind == ErrorKind::kIo) {
    return IoError(bytes.error().message +
                   " (the option from takes a folder of files that you have)");
  }
  return bytes;
}

Status CheckBytes(const CatalogueFile& file, std::string_view bytes) {
  const Digest digest = Sha256Of(bytes);
  if (digest == file.sha256) return Ok();
  return Mismatch(
      fmt::format("'{}' is not the file of the catalogue: {} bytes with SHA-256 {}, "
                  "expected {} bytes with {}",
                  file.name, bytes.size(), digest.Hex(), file.bytes, file.sha256.Hex()));
}

std::string_view Trim(std::string_view cell) {
  const std::size_t first = cell.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return cell.substr(first, cell.find_last_not_of(' ') + 1 - first);
}

struct Tables {
  std::string train;
  std::string test;
};

// The text of a file: unpacked if it is packed, with line ends that CSV knows.
Result<std::string> TextOf(const CatalogueFile& file, std::string bytes) {
  if (file.name.ends_with(".gz")) {
    std::string text(static_cast<std::size_t>(file.bytes) + 1, '\0');  // one more: too long
    const auto source = GunzipSource(MemorySource(bytes));
    std::size_t size = 0;
    while (size < text.size()) {
      Result<std::size_t> more = source->Read(std::span(text).subspan(size));
      if (!more.ok()) return InvalidInput(fmt::format("'{}': {}", file.name, more.error().message));
      if (*more == 0) break;
      size += *more;
    }
    text.resize(size);
    bytes = std::move(text);
  }
  LUCID_TRY(CheckBytes(file, bytes));
  // Old Macs end a line with a carriage return alone.
  if (bytes.find('\n') == std::string::npos) std::ranges::replace(bytes, '\r', '\n');
  return bytes;
}

// For every column of the schema, which cell of a row it is.
std::vector<std::size_t> CellsOf(const CatalogueEntry& entry) {
  std::vector<std::size_t> cells;
  for (const Column& column : entry.schema.columns()) {
    const auto found = std::ranges::find(entry.columns, column.name);
    cells.push_back(entry.columns.empty()
                        ? cells.size()
                        : static_cast<std::size_t>(found - entry.columns.begin()));
  }
  return cells;
}

// Appends the rows of one upstream file to the tables: blanks around cells dropped, blank lines
// skipped, columns in the order of the schema, labels turned into class indices.
Status Convert(const CatalogueEntry& entry, const CatalogueFile& file, std::string_view bytes,
               Tables& tables) {
  using Role = CatalogueFile::Role;
  CsvReader csv(MemorySource(bytes), file.name);
  const std::vector<std::size_t> picked = CellsOf(entry);
  const std::size_t width = entry.columns.empty() ? picked.size() : entry.columns.size();
  std::vector<std::string_view> row_cells, cells(picked.size());
  for (std::int64_t record = 0, row = 0;; ++record) {
    LUCID_ASSIGN(const bool more, csv.Next());
    if (!more) return Ok();
    if (record < file.skip_records || csv.blank()) continue;
    if (csv.cells().size() != width) {
      return csv.ErrorHere(fmt::format("{} cells, expected {}", csv.cells().size(), width));
    }
    row_cells.assign(csv.cells().begin(), csv.cells().end());
    std::ranges::transform(row_cells, row_cells.begin(), Trim);
    if (!entry.drop_rows_with.empty() &&
        std::ranges::find(row_cells, entry.drop_rows_with) != row_cells.end()) {
      continue;
    }
    std::ranges::transform(picked, cells.begin(), [&](std::size_t i) { return row_cells[i]; });
    const auto label = entry.labels.find(std::string(cells.back()));
    if (label == entry.labels.end()) {
      return csv.ErrorHere(fmt::format("label {} is not in the catalogue", Quoted(cells.back())));
    }
    const std::string index = std::to_string(label->second);
    cells.back() = index;
    const bool test = file.role == Role::kTest ||
                      (file.role == Role::kSplit && row % entry.test_every == entry.test_every - 1);
    AppendCsvRecord(test ? tables.test : tables.train, cells);
    ++row;
  }
}

std::string SourceNote(const CatalogueEntry& entry) {
  std::string note = fmt::format("{}\n\nLicence: {}\nCitation: {}\n\nMade by LUCID from:\n",
                                 entry.title, entry.licence, entry.citation);
  for (const CatalogueFile& file : entry.files) {
    note += fmt::format("{}  sha256 {}\n", file.url, file.sha256.Hex());
  }
  return note;
}

}  // namespace

Status FetchDataset(const CatalogueEntry& entry, const std::string& directory,
                    const FetchOptions& options) {
  LUCID_ASSIGN(StagedFolder folder, StagedFolder::Create(directory, options.overwrite));
  Tables tables;
  std::vector<std::string_view> names;
  for (const Column& column : entry.schema.columns()) names.push_back(column.name);
  AppendCsvRecord(tables.train, names);
  AppendCsvRecord(tables.test, names);
  for (const CatalogueFile& file : entry.files) {
    LUCID_ASSIGN(std::string bytes, GetBytes(file, options));
    LUCID_ASSIGN(const std::string text, TextOf(file, std::move(bytes)));
    LUCID_TRY(Convert(entry, file, text, tables));
  }
  // Its ranges and categories are those of these rows.
  Schema schema = entry.schema;
  schema.set_origin(SchemaOrigin::kFromData);
  LUCID_TRY(folder.Write("schema.csv", schema.FileText()));
  LUCID_TRY(folder.Write("train.csv", tables.train));
  LUCID_TRY(folder.Write("test.csv", tables.test));
  LUCID_TRY(folder.Write("SOURCE.txt", SourceNote(entry)));
  LUCID_TRY(LoadDataset(folder.path()));
  if (options.stop.stop_requested()) return Interrupted("fetch stopped on request");
  return folder.Publish();
}

}  // namespace lucid
