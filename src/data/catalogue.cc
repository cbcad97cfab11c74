#include "lucid/data/catalogue.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "base/text.h"
#include "data/download.h"

namespace lucid {
namespace {

constexpr std::string_view kCatalogueText =
#include "data/catalogue_toml.inc"
    ;

constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;  // a file is held in memory once

// Letters, digits, '_', '-' and '.', and not a path.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

Result<std::string> Text(const toml::table& table, std::string_view key) {
  const auto value = table[key].value<std::string>();
  if (!value || value->empty()) return InvalidInput(fmt::format("'{}' is missing", key));
  return *value;
}

// `otherwise`: what an absent key means; must be in [low, high] for the key to be optional.
Result<std::int64_t> Integer(const toml::table& table, std::string_view key, std::int64_t low,
                             std::int64_t high, std::int64_t otherwise) {
  const auto value = table.contains(key) ? table[key].value<std::int64_t>() : otherwise;
  if (!value || *value < low || *value > high) {
    return InvalidInput(fmt::format("'{}' must be an integer from {} to {}", key, low, high));
  }
  return *value;
}

Status CheckKeys(const toml::table& table, const std::set<std::string_view>& known) {
  for (const auto& [key, value] : table) {
    if (!known.contains(key.str())) {
      return InvalidInput(fmt::format("key {} is unknown", Quoted(key.str())));
    }
  }
  return Ok();
}

Result<CatalogueFile> ParseFile(const toml::table& table) {
  LUCID_TRY(CheckKeys(table, {"name", "url", "sha256", "bytes", "role", "skip_records"}));
  CatalogueFile file;
  LUCID_ASSIGN(file.name, Text(table, "name"));
  if (!IsPlainName(file.name)) {
    return InvalidInput(fmt::format("{} is not a plain file name", Quoted(file.name)));
  }
  LUCID_ASSIGN(file.url, Text(table, "url"));
  if (!file.url.starts_with("https://")) {
    return InvalidInput(fmt::format("url {} must begin 'https://'", Quoted(file.url)));
  }
  LUCID_TRY(CheckUrl(file.url));
  LUCID_ASSIGN(const std::string sha256, Text(table, "sha256"));
  LUCID_ASSIGN(file.sha256, Digest::FromHex(sha256));
  LUCID_ASSIGN(file.bytes, Integer(table, "bytes", 1, kMostBytes, 0));
  LUCID_ASSIGN(file.skip_records, Integer(table, "skip_records", 0, 1000, 0));
  LUCID_ASSIGN(const std::string role, Text(table, "role"));
  if (role == "train") {
    file.role = CatalogueFile::Role::kTrain;
  } else if (role == "test") {
    file.role = CatalogueFile::Role::kTest;
  } else if (role == "split") {
    file.role = CatalogueFile::Role::kSplit;
  } else {
    return InvalidInput(fmt::format("role {} is unknown (train, test or split)", Quoted(role)));
  }
  return file;
}

Status ParseFiles(const toml::table& table, CatalogueEntry& entry) {
  const toml::array* files = table["file"].as_array();
  if (files == nullptr || files->empty()) return InvalidInput("it has no [[dataset.file]]");
  bool splits = false;
  for (const toml::node& node : *files) {
    if (!node.is_table()) return InvalidInput("'file' must be a list of tables");
    LUCID_ASSIGN(CatalogueFile file, ParseFile(*node.as_table()));
    splits = splits || file.role == CatalogueFile::Role::kSplit;
    entry.files.push_back(std::move(file));
  }
  LUCID_ASSIGN(entry.test_every, Integer(table, "test_every", 0, 1000, 0));
  if (splits != (entry.test_every >= 2)) {
    return InvalidInput("'test_every' (2 or more) belongs to files with the role split");
  }
  return Ok();
}

Status ParseLabels(const toml::table& table, CatalogueEntry& entry) {
  const toml::table* labels = table["labels"].as_table();
  if (labels == nullptr) return InvalidInput("it has no [dataset.labels]");
  for (const auto& [spelling, node] : *labels) {
    const auto index = node.value<std::int64_t>();
    if (!index || *index < 0 || *index >= entry.schema.classes()) {
      return InvalidInput(fmt::format("label {} must have a class index from 0 to {}",
                                      Quoted(spelling.str()), entry.schema.classes() - 1));
    }
    entry.labels.emplace(spelling.str(), *index);
  }
  return Ok();
}

Status ParseColumns(const toml::table& table, CatalogueEntry& entry) {
  if (!table.contains("columns")) return Ok();
  const toml::array* columns = table["columns"].as_array();
  if (columns == nullptr) return InvalidInput("'columns' must be a list of names");
  for (const toml::node& node : *columns) {
    const auto name = node.value<std::string>();
    if (!name) return InvalidInput("'columns' must be a list of names");
    entry.columns.push_back(*name);
  }
  for (const Column& column : entry.schema.columns()) {
    if (std::ranges::count(entry.columns, column.name) != 1) {
      return InvalidInput(fmt::format("column {} of the schema must be one of 'columns', once",
                                      Quoted(column.name)));
    }
  }
  return Ok();
}

Result<CatalogueEntry> ParseEntry(const toml::table& table) {
  LUCID_TRY(CheckKeys(table, {"name", "title", "licence", "citation", "file", "test_every",
                              "labels", "schema", "columns", "drop_rows_with"}));
  CatalogueEntry entry;
  LUCID_ASSIGN(entry.name, Text(table, "name"));
  if (!IsPlainName(entry.name)) {
    return InvalidInput(fmt::format("{} is not a plain name", Quoted(entry.name)));
  }
  LUCID_ASSIGN(entry.title, Text(table, "title"));
  LUCID_ASSIGN(entry.licence, Text(table, "licence"));
  LUCID_ASSIGN(entry.citation, Text(table, "citation"));
  LUCID_ASSIGN(const std::string schema, Text(table, "schema"));
  LUCID_ASSIGN(entry.schema, Schema::Parse(schema, "schema"));
  if (entry.schema.label_index() + 1 != entry.schema.columns().size()) {
    return InvalidInput("the label must be the last column of the schema");
  }
  LUCID_TRY(ParseFiles(table, entry));
  LUCID_TRY(ParseLabels(table, entry));
  LUCID_TRY(ParseColumns(table, entry));
  entry.drop_rows_with = table["drop_rows_with"].value_or(std::string());
  return entry;
}

// toml++ reports a syntax error by an exception; it ends here.
Result<toml::table> ParseToml(std::string_view text, const std::string& source) {
  try {
    return toml::parse(text, source);
  } catch (const toml::parse_error& e) {
    return InvalidInput(
        fmt::format("{}:{}: {}", source, e.source().begin.line, Quoted(e.description())));
  }
}

}  // namespace

Result<std::vector<CatalogueEntry>> ParseCatalogue(std::string_view toml,
                                                   const std::string& source) {
  LUCID_ASSIGN(const toml::table document, ParseToml(toml, source));
  LUCID_TRY(CheckKeys(document, {"dataset"}));
  const toml::array* list = document["dataset"].as_array();
  if (list == nullptr) return InvalidInput(fmt::format("{}: no [[dataset]]", source));
  std::vector<CatalogueEntry> entries;
  for (const toml::node& node : *list) {
    const auto line = node.source().begin.line;
    if (!node.is_table()) {
      return InvalidInput(fmt::format("{}:{}: 'dataset' must be a list of tables", source, line));
    }
    Result<CatalogueEntry> entry = ParseEntry(*node.as_table());
    if (!entry.ok()) {
      return InvalidInput(fmt::format("{}:{}: data set: {}", source, line, entry.error().message));
    }
    if (std::ranges::find(entries, entry->name, &CatalogueEntry::name) != entries.end()) {
      return InvalidInput(
          fmt::format("{}:{}: data set {} is there twice", source, line, Quoted(entry->name)));
    }
    entries.push_back(std::move(*entry));
  }
  return entries;
}

Result<std::vector<CatalogueEntry>> LoadCatalogue() {
  return ParseCatalogue(kCatalogueText, "catalogue.toml");
}

Result<CatalogueEntry> FindInCatalogue(std::span<const CatalogueEntry> catalogue,
                                       std::string_view name) {
  std::string known;
  for (const CatalogueEntry& entry : catalogue) {
    if (entry.name == name) return entry;
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  return InvalidInput(
      fmt::format("no data set {} in the catalogue (it has {})", Quoted(name), known));
}

}  // namespace lucid
