#include "lucid/data/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/number_text.h"
#include "base/text.h"
#include "data/csv.h"
#include "data/ignored_columns.h"

namespace lucid {
namespace {

constexpr std::array<std::pair<std::string_view, ColumnKind>, 6> kKinds = {{
    {"numeric", ColumnKind::kNumeric},
    {"binary", ColumnKind::kBinary},
    {"quarter-circle", ColumnKind::kQuarterCircle},
    {"categorical", ColumnKind::kCategorical},
    {"label", ColumnKind::kLabel},
    {"unit", ColumnKind::kUnit},
}};

constexpr std::array<std::string_view, 5> kHeader = {"column", "kind", "offset", "divisor",
                                                     "categories"};
constexpr char kBetweenCategories = '|';
constexpr std::string_view kComment = "# ", kOriginLine = "# declared";
constexpr std::string_view kFromDataLine = "# declared = false",
                           kDeclaredLine = "# declared = true";
// A list of categories may be as long as a record.
constexpr CsvLimits kLimits = {
    .file_bytes = 64u << 20, .record_bytes = 4u << 20, .cell_bytes = 4u << 20};

Result<ColumnKind> ParseKind(std::string_view text) {
  for (const auto& [name, kind] : kKinds) {
    if (name == text) return kind;
  }
  return InvalidInput(
      fmt::format("kind {} is unknown (numeric, binary, quarter-circle, "
                  "categorical, label, unit or ignore)",
                  Quoted(text)));
}

Status ParseScale(std::string_view offset, std::string_view divisor, Column& column) {
  const Result<double> a = ParseNumber(offset), b = ParseNumber(divisor);
  if (!a.ok()) return InvalidInput("offset " + a.error().message);
  if (!b.ok()) return InvalidInput("divisor " + b.error().message);
  if (*b == 0) return InvalidInput(fmt::format("divisor {} must not be 0", Quoted(divisor)));
  column.offset = *a + 0.0;  // -0 and 0 are one offset and have one spelling
  column.divisor = *b;
  return Ok();
}

Status ParseCategories(std::string_view text, Column& column) {
  std::set<std::string_view> seen;
  while (true) {
    const std::size_t end = std::min(text.find(kBetweenCategories), text.size());
    const std::string_view category = text.substr(0, end);
    if (category.empty()) return InvalidInput("a category is empty");
    if (!seen.insert(category).second) {
      return InvalidInput(fmt::format("category {} is there twice", Quoted(category)));
    }
    if (category == kMissing && column.kind == ColumnKind::kQuarterCircle) {
      return InvalidInput("'?' is not a category: it marks a missing value");
    }
    column.categories.emplace_back(category);
    if (end == text.size()) return Ok();
    text.remove_prefix(end + 1);
  }
}

Status CheckCategoryCount(const Column& column) {
  const std::size_t n = column.categories.size();
  if (column.kind == ColumnKind::kBinary && n != 2) {
    return InvalidInput(fmt::format("a binary column has exactly 2 categories, not {}", n));
  }
  if (column.kind == ColumnKind::kLabel && n < 2) {
    return InvalidInput(fmt::format("a label has at least 2 classes, not {}", n));
  }
  return Ok();
}

// One line of schema.csv behind the header. Errors are without the place.
Result<Column> ParseColumn(std::span<const std::string_view> cells) {
  Column column;
  column.name = cells[0];
  if (column.name.empty()) return InvalidInput("the column has no name");
  LUCID_ASSIGN(column.kind, ParseKind(cells[1]));
  if (column.kind == ColumnKind::kNumeric) {
    LUCID_TRY(ParseScale(cells[2], cells[3], column));
    if (!cells[4].empty()) return InvalidInput("a numeric column has no categories");
    return column;
  }
  if (!cells[2].empty() || !cells[3].empty()) {
    return InvalidInput(
        fmt::format("a {} column has no offset and no divisor", KindName(column.kind)));
  }
  if (column.kind == ColumnKind::kUnit) {
    if (!cells[4].empty()) return InvalidInput("a unit column has no categories");
    return column;
  }
  LUCID_TRY(ParseCategories(cells[4], column));
  LUCID_TRY(CheckCategoryCount(column));
  return column;
}

Result<Column> ReadColumn(const CsvReader& csv) {
  if (csv.cells().size() != kHeader.size()) {
    return csv.ErrorHere(
        fmt::format("{} cells, expected {} (column,kind,offset,divisor,categories)",
                    csv.cells().size(), kHeader.size()));
  }
  // A manifest is JSON and keeps the schema: what is not text cannot be kept.
  if (!std::ranges::all_of(csv.cells(), IsUtf8)) {
    return csv.ErrorHere(
        fmt::format("column {}: not UTF-8; convert the files (iconv -f latin1 -t utf-8)",
                    Quoted(csv.cells()[0])));
  }
  Result<Column> column = ParseColumn(csv.cells());
  if (!column.ok()) {
    return csv.ErrorHere(
        fmt::format("column {}: {}", Quoted(csv.cells()[0]), column.error().message));
  }
  return column;
}

bool IsComment(const CsvReader& csv) {
  return csv.cells().size() == 1 && csv.cells()[0].starts_with(kComment);
}

Status ReadComment(const CsvReader& csv, SchemaOrigin& origin) {
  const std::string_view line = csv.cells()[0];
  if (!line.starts_with(kOriginLine)) return Ok();
  if (origin != SchemaOrigin::kUnmarked) {
    return csv.ErrorHere("a second line that says whether the schema is declared");
  }
  if (line != kFromDataLine && line != kDeclaredLine) {
    return csv.ErrorHere(
        fmt::format("{} must be '{}' or '{}'", Quoted(line), kDeclaredLine, kFromDataLine));
  }
  origin = line == kDeclaredLine ? SchemaOrigin::kDeclared : SchemaOrigin::kFromData;
  return Ok();
}

bool IsIgnored(const CsvReader& csv) {
  return csv.cells().size() == kHeader.size() && csv.cells()[1] == kIgnoreKind;
}

Status CheckIgnored(const CsvReader& csv) {
  const auto cells = csv.cells();
  if (cells[0].empty()) return csv.ErrorHere("column '': the column has no name");
  for (std::size_t c = 2; c < cells.size(); ++c) {
    if (cells[c].empty()) continue;
    return csv.ErrorHere(fmt::format("column {}: a column that is ignored has nothing but its name",
                                     Quoted(cells[0])));
  }
  return Ok();
}

}  // namespace

std::string_view KindName(ColumnKind kind) {
  for (const auto& [name, value] : kKinds) {
    if (value == kind) return name;
  }
  return "unknown";
}

std::int64_t Column::width() const {
  switch (kind) {
    case ColumnKind::kNumeric:
    case ColumnKind::kBinary:
      return 1;
    case ColumnKind::kQuarterCircle:
      return 2;
    case ColumnKind::kCategorical:
      return static_cast<std::int64_t>(categories.size());
    case ColumnKind::kLabel:
    case ColumnKind::kUnit:
      break;
  }
  return 0;
}

Result<Schema> Schema::Parse(std::string_view text, const std::string& source) {
  CsvReader csv(MemorySource(text), source, kLimits);
  LUCID_ASSIGN(const bool has_header, csv.Next());
  if (!has_header) return csv.ErrorHere("the schema is empty");
  if (!std::ranges::equal(csv.cells(), kHeader)) {
    return csv.ErrorHere("the header must be 'column,kind,offset,divisor,categories'");
  }
  Schema schema;
  std::set<std::string, std::less<>> names;
  bool has_label = false;
  while (true) {
    LUCID_ASSIGN(const bool more, csv.Next());
    if (!more) break;
    if (IsComment(csv)) {
      LUCID_TRY(ReadComment(csv, schema.origin_));
      continue;
    }
    if (IsIgnored(csv)) {
      LUCID_TRY(CheckIgnored(csv));
      if (names.emplace(csv.cells()[0]).second) continue;
      return csv.ErrorHere(fmt::format("column {} is there twice", Quoted(csv.cells()[0])));
    }
    LUCID_ASSIGN(Column column, ReadColumn(csv));
    if (!names.insert(column.name).second) {
      return csv.ErrorHere(fmt::format("column {} is there twice", Quoted(column.name)));
    }
    if (column.kind == ColumnKind::kLabel) {
      if (has_label) {
        return csv.ErrorHere(fmt::format("column {}: a second label ({} is the first)",
                                         Quoted(column.name), Quoted(schema.label().name)));
      }
      has_label = true;
      schema.label_ = schema.columns_.size();
    }
    if (column.kind == ColumnKind::kUnit) {
      if (schema.unit_) {
        return csv.ErrorHere(fmt::format("column {}: a second unit ({} is the first)",
                                         Quoted(column.name), Quoted(schema.unit_name())));
      }
      schema.unit_ = schema.columns_.size();
    }
    schema.features_ += column.width();
    schema.columns_.push_back(std::move(column));
  }
  if (!has_label) return csv.ErrorHere("no column of kind 'label'");
  if (schema.features_ == 0) return csv.ErrorHere("no feature column, only the label");
  return schema;
}

Result<Schema> Schema::Load(const std::string& path) {
  LUCID_ASSIGN(const std::string text, ReadTextFile(path, kLimits.file_bytes));
  return Parse(text, path);
}

Result<std::vector<std::string>> IgnoredColumns(const std::string& schema_path) {
  LUCID_ASSIGN(const std::string text, ReadTextFile(schema_path, kLimits.file_bytes));
  CsvReader csv(MemorySource(text), schema_path, kLimits);
  std::vector<std::string> names;
  while (true) {
    LUCID_ASSIGN(const bool more, csv.Next());
    if (!more) return names;
    if (IsIgnored(csv)) names.emplace_back(csv.cells()[0]);
  }
}

std::int64_t Schema::classes() const {
  return columns_.empty() ? 0 : static_cast<std::int64_t>(label().categories.size());
}

std::vector<std::string> Schema::feature_names() const {
  std::vector<std::string> names;
  for (const Column& column : columns_) {
    switch (column.kind) {
      case ColumnKind::kNumeric:
      case ColumnKind::kBinary:
        names.push_back(column.name);
        break;
      case ColumnKind::kQuarterCircle:
        names.push_back(column.name + "_cos");
        names.push_back(column.name + "_sin");
        break;
      case ColumnKind::kCategorical:
        for (const std::string& category : column.categories) {
          names.push_back(column.name + "_" + category);
        }
        break;
      case ColumnKind::kLabel:
      case ColumnKind::kUnit:
        break;
    }
  }
  return names;
}

std::string Schema::Canonical() const {
  std::string text;
  AppendCsvRecord(text, kHeader);
  for (const Column& column : columns_) {
    const bool numeric = column.kind == ColumnKind::kNumeric;
    const std::string offset = numeric ? ShortestText(column.offset) : "";
    const std::string divisor = numeric ? ShortestText(column.divisor) : "";
    const std::string categories = fmt::format("{}", fmt::join(column.categories, "|"));
    const std::array<std::string_view, 5> cells = {column.name, KindName(column.kind), offset,
                                                   divisor, categories};
    AppendCsvRecord(text, cells);
  }
  return text;
}

std::string Schema::FileText() const {
  std::string text = Canonical();
  if (origin_ == SchemaOrigin::kUnmarked) return text;
  return text.append(origin_ == SchemaOrigin::kDeclared ? kDeclaredLine : kFromDataLine)
      .append("\n");
}

}  // namespace lucid
