#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "base/files.h"
#include "base/text.h"
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
  if (!from.empty() && !url) {
    return ReadTextFile((std::filesystem::path(from) / file.name).string(),
                        static_cast<std::uint64_t>(file.bytes));
  }
  DownloadOptions download;
  download.max_bytes = file.bytes;
  download.progress = options.progress;
  download.stop = options.stop;
  const std::string slash = from.ends_with('/') ? "" : "/";
  Result<std::string> bytes = Download(url ? from + slash + file.name : file.url, download);
  if (!bytes.ok() && bytes.error().kind == ErrorKind::kIo) {
    return IoError(bytes.error().message + " (--from FOLDER takes files you have already)");
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

// Appends the rows of one upstream file to the tables: blanks around cells dropped, blank lines
// skipped, labels (always the last cell) turned into class indices.
Status Convert(const CatalogueEntry& entry, const CatalogueFile& file, std::string_view bytes,
               Tables& tables) {
  using Role = CatalogueFile::Role;
  CsvReader csv(MemorySource(bytes), file.name);
  std::vector<std::string_view> cells;
  for (std::int64_t record = 0, row = 0;; ++record) {
    LUCID_ASSIGN(const bool more, csv.Next());
    if (!more) return Ok();
    if (record < file.skip_records || csv.blank()) continue;
    cells.resize(csv.cells().size());
    std::ranges::transform(csv.cells(), cells.begin(), Trim);
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
    LUCID_ASSIGN(const std::string bytes, GetBytes(file, options));
    LUCID_TRY(CheckBytes(file, bytes));
    LUCID_TRY(Convert(entry, file, bytes, tables));
  }
  LUCID_TRY(folder.Write("schema.csv", entry.schema.Canonical()));
  LUCID_TRY(folder.Write("train.csv", tables.train));
  LUCID_TRY(folder.Write("test.csv", tables.test));
  LUCID_TRY(folder.Write("SOURCE.txt", SourceNote(entry)));
  LUCID_TRY(LoadDataset(folder.path()));
  if (options.stop.stop_requested()) return Interrupted("fetch stopped on request");
  return folder.Publish();
}

}  // namespace lucid
