#include "lucid/data/data_source.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/files.h"
#include "base/number_text.h"
#include "base/text.h"
#include "data/byte_source.h"
#include "data/csv.h"

namespace lucid {
namespace {

constexpr std::string_view kFormat = "lucid-source-1";
constexpr CsvLimits kLimits{
    .file_bytes = 64 << 20, .record_bytes = 64 << 20, .cell_bytes = 64 << 20};

Result<std::uint64_t> Whole(const std::string& text, const CsvReader& csv) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return csv.ErrorHere(fmt::format("{} is not a whole number", Quoted(text)));
}

// Takes in one line of the file. A key that nobody knows is of a later version: what it says could
// change everything.
Status Take(const std::string& key, const std::string& value, const CsvReader& csv,
            DataSource& source) {
  InferOptions& options = source.options;
  if (key == "file") {
    source.file = value;
  } else if (key == "sha256") {
    LUCID_ASSIGN(source.digest, Digest::FromHex(value));
  } else if (key == "label") {
    options.label = value;
  } else if (key == "unit") {
    options.unit = value;
  } else if (key == "test_share") {
    options.test_share = std::strtod(value.c_str(), nullptr);
  } else if (key == "split_key") {
    LUCID_ASSIGN(options.split_key, Whole(value, csv));
  } else if (key == "ignore") {
    options.ignore.push_back(value);
  } else if (key == "only_declared") {
    options.only_declared = value == "yes";
  } else if (key == "missing") {
    LUCID_ASSIGN(options.missing, MissingCellsNamed(value));
  } else if (key == "declared") {
    source.declared = value;
  } else {
    return csv.ErrorHere(fmt::format("{} is no key of this version", Quoted(key)));
  }
  return Ok();
}

}  // namespace

std::string EncodeSource(const DataSource& source) {
  const InferOptions& options = source.options;
  std::string text;
  const auto line = [&text](std::string_view key, std::string_view value) {
    AppendCsvRecord(text, std::array<std::string_view, 2>{key, value});
  };
  line("format", kFormat);
  line("file", source.file);
  line("sha256", source.digest.Hex());
  line("label", options.label);
  line("unit", options.unit);
  line("test_share", HexText(options.test_share));
  line("split_key", std::to_string(options.split_key));
  line("missing", NameOf(options.missing));
  line("only_declared", options.only_declared ? "yes" : "no");
  for (const std::string& column : options.ignore) line("ignore", column);
  line("declared", source.declared);
  return text;
}

Result<std::optional<DataSource>> LoadSource(const std::string& folder) {
  const std::string path = PathIn(folder, kSourceFile);
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return std::optional<DataSource>();
  LUCID_ASSIGN(auto bytes, OpenSource(path));
  CsvReader csv(std::move(bytes), path, kLimits);
  DataSource source;
  bool is_first = true;
  while (true) {
    LUCID_ASSIGN(const bool more, csv.Next());
    if (!more) break;
    if (csv.cells().size() != 2) return csv.ErrorHere("two cells are expected");
    const std::string key(csv.cells()[0]), value(csv.cells()[1]);
    if (is_first) {
      is_first = false;
      if (key == "format" && value == kFormat) continue;
      return csv.ErrorHere("the record of another version, or none");
    }
    LUCID_TRY(Take(key, value, csv, source));
  }
  if (source.file.empty() || source.options.label.empty()) {
    return InvalidInput(fmt::format("{}: names no file or no label: damaged", path));
  }
  return std::optional(std::move(source));
}

Result<std::string> WithoutUnitOfRecord(const std::string& csv, const std::string& unit,
                                        std::int64_t record) {
  std::optional<std::size_t> column;
  std::string who, rest;
  // The unit's name is known when its record was read: the first pass looks for it.
  for (const bool writes : {false, true}) {
    LUCID_ASSIGN(auto source, OpenSource(csv));
    CsvReader reader(std::move(source), csv);
    reader.DetectSeparator();
    std::size_t width = 0;
    bool found = false;
    for (std::int64_t at = -1;; ++at) {
      LUCID_ASSIGN(const bool more, reader.Next());
      if (!more) break;
      const auto cells = reader.cells();
      if (at < 0) {
        width = cells.size();
        for (std::size_t c = 0; c < width; ++c) {
          if (!unit.empty() && Trimmed(cells[c]) == unit) column = c;
        }
        if (!unit.empty() && !column) {
          return InvalidInput(fmt::format("{}: there is no column {}", csv, Quoted(unit)));
        }
      }
      if (reader.blank() && width > 1) {
        --at;
        continue;
      }
      if (column && *column >= cells.size()) return reader.ErrorHere("too few cells");
      if (at == record) {
        found = true;
        if (column) who = Trimmed(cells[*column]);
      }
      const bool gone = at >= 0 && (column ? Trimmed(cells[*column]) == who : at == record);
      if (writes && !gone) AppendCsvRecord(rest, cells);
    }
    if (!found) return InvalidInput(fmt::format("{}: there is no record {}", csv, record));
  }
  return rest;
}

}  // namespace lucid
