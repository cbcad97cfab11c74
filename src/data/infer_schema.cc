#include "lucid/data/infer_schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/files.h"
#include "base/text.h"
#include "data/byte_source.h"
#include "data/csv.h"
#include "data/ignored_columns.h"
#include "data/staged_folder.h"
#include "lucid/base/digest.h"
#include "lucid/data/data_source.h"
#include "lucid/data/encoder.h"
#include "random/keyed_hash.h"

namespace lucid {
namespace {

constexpr std::int64_t kMostLooked = 100;  // a margin beyond it is reported as one more
constexpr std::int64_t kNever = 0;         // no number of units that leave changes it

// "2026-11-18", "18.11.2026" or "11/18/2026", perhaps with a time behind it: three whole numbers
// with one sign between them, of which the first or the last has four digits and the others one or
// two.
bool IsDate(std::string_view cell) {
  std::array<std::size_t, 3> digits{};
  std::size_t at = 0;
  for (std::size_t part = 0; part < 3; ++part) {
    if (part > 0) {
      const std::size_t sign = digits[0];
      if (at >= cell.size() || cell[at] != cell[sign]) return false;
      if (cell[at] != '-' && cell[at] != '.' && cell[at] != '/') return false;
      ++at;
    }
    for (; at < cell.size() && cell[at] >= '0' && cell[at] <= '9'; ++at) ++digits[part];
  }
  const auto few = [](std::size_t n) { return n == 1 || n == 2; };
  if (!few(digits[1])) return false;
  if (!((digits[0] == 4 && few(digits[2])) || (few(digits[0]) && digits[2] == 4))) return false;
  return at == cell.size() || cell[at] == ' ' || cell[at] == 'T';
}

// The file: cells by column, and whose row each is.
struct RawTable {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> columns;
  std::vector<std::int64_t> unit;  // of every row, numbered as they come
  std::vector<Digest> unit_keys;   // of every unit
  std::int64_t rows() const { return static_cast<std::int64_t>(unit.size()); }
};

Result<std::size_t> Find(const RawTable& table, const std::string& name, std::string_view what) {
  const auto found = std::ranges::find(table.names, name);
  if (found != table.names.end()) return static_cast<std::size_t>(found - table.names.begin());
  return InvalidInput(fmt::format("there is no column {} for the {}: the file has {}", Quoted(name),
                                  what, fmt::join(table.names, ", ")));
}

Result<RawTable> Read(const std::string& path, const std::string& unit) {
  LUCID_ASSIGN(auto source, OpenSource(path));
  CsvReader csv(std::move(source), path);
  csv.DetectSeparator();
  RawTable table;
  LUCID_ASSIGN(const bool header, csv.Next());
  if (!header) return InvalidInput(fmt::format("{}: the file is empty", path));
  for (const std::string_view name : csv.cells()) table.names.emplace_back(Trimmed(name));
  if (std::set(table.names.begin(), table.names.end()).size() != table.names.size()) {
    return csv.ErrorHere("two columns have one name");
  }
  table.columns.resize(table.names.size());
  std::optional<std::size_t> unit_column;
  if (!unit.empty()) {
    LUCID_ASSIGN(unit_column, Find(table, unit, "unit"));
  }
  std::map<Digest, std::int64_t> known;
  std::int64_t wrong = 0;
  Error first_wrong;
  while (true) {
    LUCID_ASSIGN(const bool more, csv.Next());
    if (!more) break;
    if (csv.blank() && table.names.size() > 1) continue;
    if (csv.cells().size() != table.names.size()) {
      if (wrong == 0) {
        first_wrong = csv.ErrorHere(
            fmt::format("{} cells, the header has {}", csv.cells().size(), table.names.size()));
      }
      ++wrong;
      continue;
    }
    std::string own;
    for (std::size_t c = 0; c < table.names.size(); ++c) {
      const std::string_view cell = Trimmed(csv.cells()[c]);
      table.columns[c].emplace_back(cell);
      own += fmt::format("{}:{},", cell.size(), cell);
    }
    const Digest key = Sha256Of(unit_column ? table.columns[*unit_column].back() : own);
    const auto next = static_cast<std::int64_t>(table.unit_keys.size());
    // Without a unit column equal rows are units of their own; their keys are equal.
    const auto [at, is_new] = known.try_emplace(key, next);
    if (is_new || !unit_column) table.unit_keys.push_back(key);
    table.unit.push_back(unit_column ? at->second : next);
  }
  if (wrong == 1) return first_wrong;
  if (wrong > 1) {
    return Error{first_wrong.kind,
                 fmt::format("{} (and {} more such lines)", first_wrong.message, wrong - 1)};
  }
  return table;
}

// How many units have each property: a unit with several rows counts once for each.
class UnitCounter {
 public:
  void Add(const std::string& property, std::int64_t unit) { units_[property].insert(unit); }
  std::int64_t Count(const std::string& property) const {
    const auto found = units_.find(property);
    return found == units_.end() ? 0 : static_cast<std::int64_t>(found->second.size());
  }
  const std::map<std::string, std::set<std::int64_t>>& all() const { return units_; }

 private:
  std::map<std::string, std::set<std::int64_t>> units_;
};

// The smallest number of units that change something.
class Margin {
 public:
  // A decision that holds because at least kUnitsToCount units have a property.
  void Needs(std::int64_t units) { Change(units - kUnitsToCount + 1); }
  void Change(std::int64_t leave) {
    if (leave >= 1) least_ = std::min(least_, leave);
  }
  std::int64_t least() const { return least_ == kNone ? kNever : least_; }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t least_ = kNone;
};

struct Range {
  double low = 0, high = 0;
  bool operator==(const Range&) const = default;
};

// Outward to multiples of half a power of ten, the smallest one that is at least the width: so
// coarse that a few units more or less seldom matter.
Range RoundedOutward(double low, double high) {
  if (!(high > low)) return {low, high};
  const double exponent = std::ceil(std::log10(high - low));
  const double scale = std::pow(10.0, std::abs(exponent));  // exact up to 10^22
  if (exponent >= 0) {
    return {std::floor(2 * low / scale) * scale / 2, std::ceil(2 * high / scale) * scale / 2};
  }
  return {std::floor(2 * low * scale) / (2 * scale), std::ceil(2 * high * scale) / (2 * scale)};
}

// What one unit has at most and at least, in order of the extremes.
struct Extremes {
  std::vector<double> lowest, highest;  // ascending, descending

  bool enough(std::int64_t gone_low = 0, std::int64_t gone_high = 0) const {
    return std::ssize(lowest) >= kUnitsToCount + gone_low &&
           std::ssize(highest) >= kUnitsToCount + gone_high;
  }
  // The range if so many of the most extreme units left.
  Range Without(std::int64_t gone_low, std::int64_t gone_high) const {
    return RoundedOutward(lowest[static_cast<std::size_t>(kUnitsToCount - 1 + gone_low)],
                          highest[static_cast<std::size_t>(kUnitsToCount - 1 + gone_high)]);
  }
};

struct Decided {
  std::optional<Column> column;  // none: left out
  std::string what;
  std::int64_t margin = kNever;
  double middle = 0;  // of a range, for what is missing
};

class ColumnRule {
 public:
  ColumnRule(std::string name, const std::vector<std::string>& cells,
             const std::vector<std::int64_t>& units)
      : name_(std::move(name)) {
    std::map<std::int64_t, std::pair<double, double>> extremes;
    std::set<std::int64_t> all;
    bool whole = true;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string& cell = cells[i];
      const std::int64_t unit = units[i];
      all.insert(unit);
      if (IsMissingCell(cell)) continue;
      values_.Add(cell, unit);
      if (!IsDate(cell)) no_date_.insert(unit);
      const Result<double> number = ParseNumber(cell);
      if (!number.ok()) {
        no_number_.insert(unit);
        continue;
      }
      whole = whole && *number == std::floor(*number);
      const auto [at, is_new] = extremes.try_emplace(unit, *number, *number);
      at->second = {std::min(at->second.first, *number), std::max(at->second.second, *number)};
    }
    units_ = static_cast<std::int64_t>(all.size());
    whole_ = whole;
    for (const auto& [unit, range] : extremes) {
      extremes_.lowest.push_back(range.first);
      extremes_.highest.push_back(range.second);
    }
    std::ranges::sort(extremes_.lowest);
    std::ranges::sort(extremes_.highest, std::greater{});
  }

  Decided Decide() const {
    if (std::ssize(no_date_) < kUnitsToCount && units_ >= kUnitsToCount) {
      return {std::nullopt, "left out: dates", kNever};
    }
    Margin margin;
    if (std::ssize(no_date_) >= kUnitsToCount) margin.Needs(std::ssize(no_date_));
    if (std::ssize(no_number_) < kUnitsToCount) return Numeric(margin);
    margin.Needs(std::ssize(no_number_));
    return Categorical(margin);
  }

 private:
  Decided Numeric(Margin margin) const {
    if (!extremes_.enough()) return {std::nullopt, "left out: too few numbers", kNever};
    if (whole_ && Sharing() < kUnitsToCount) {
      return {std::nullopt, "left out: an id, nobody shares a value", kNever};
    }
    // Who leaves may leave another one alone with its value.
    if (whole_) margin.Change((Sharing() - kUnitsToCount) / 2 + 1);
    const std::int64_t differing = Differing();
    if (differing < kUnitsToCount) return {std::nullopt, "left out: constant", kNever};
    margin.Needs(differing);
    const Range range = extremes_.Without(0, 0);
    if (!(range.high > range.low)) return {std::nullopt, "left out: constant", margin.least()};
    margin.Change(UnitsThatChange(range));
    Column column{name_, ColumnKind::kNumeric, -range.low, range.high - range.low, {}};
    return {column, fmt::format("numeric, {} to {}", range.low, range.high), margin.least(),
            (range.low + range.high) / 2};
  }

  // How many units have to leave before the range is another one. One unit may take an extreme of
  // each side with it.
  std::int64_t UnitsThatChange(const Range& range) const {
    for (std::int64_t gone = 1; gone <= kMostLooked; ++gone) {
      for (std::int64_t side = 0; side <= gone; ++side) {
        for (const auto& [low, high] : {std::pair(gone, side), std::pair(side, gone)}) {
          if (!extremes_.enough(low, high) || extremes_.Without(low, high) != range) return gone;
        }
      }
    }
    return kMostLooked + 1;
  }

  Decided Categorical(Margin margin) const {
    Column column{name_, ColumnKind::kCategorical, 0, 1, {}};
    for (const auto& [value, units] : values_.all()) {
      if (std::ssize(units) < kUnitsToCount || value == kOther) continue;
      column.categories.push_back(value);
      margin.Needs(std::ssize(units));
    }
    if (column.categories.empty()) {
      return {std::nullopt, "left out: no value that enough units have", kNever};
    }
    const std::int64_t differing = Differing();
    if (differing < kUnitsToCount) return {std::nullopt, "left out: constant", kNever};
    margin.Needs(differing);
    const std::size_t kept = column.categories.size();
    column.categories.emplace_back(kOther);
    return {column, fmt::format("categorical, {} categories and other", kept), margin.least()};
  }

  // Units that do not have the most common value (or not only).
  std::int64_t Differing() const {
    std::string common;
    std::int64_t most = 0;
    for (const auto& [value, units] : values_.all()) {
      if (std::ssize(units) > most) most = std::ssize(units), common = value;
    }
    std::set<std::int64_t> others;
    for (const auto& [value, units] : values_.all()) {
      if (value != common) others.insert(units.begin(), units.end());
    }
    return std::ssize(others);
  }
  // Units that share some value with another unit.
  std::int64_t Sharing() const {
    std::set<std::int64_t> sharing;
    for (const auto& [value, units] : values_.all()) {
      if (units.size() > 1) sharing.insert(units.begin(), units.end());
    }
    return std::ssize(sharing);
  }

  std::string name_;
  UnitCounter values_;
  std::set<std::int64_t> no_number_, no_date_;
  Extremes extremes_;
  std::int64_t units_ = 0;
  bool whole_ = true;
};

// The spelling that the schema's encoder takes.
std::string CellOf(const Decided& decided, const std::string& cell) {
  const Column& column = *decided.column;
  if (column.kind == ColumnKind::kNumeric) {
    const Result<double> number = ParseNumber(cell);
    if (IsMissingCell(cell) || !number.ok()) return fmt::format("{}", decided.middle);
    const double low = -column.offset, high = column.divisor - column.offset;
    const double least = std::min(low, high), most = std::max(low, high);
    return *number < least  ? fmt::format("{}", least)
           : *number > most ? fmt::format("{}", most)
                            : cell;
  }
  const bool kept = std::ranges::count(column.categories, cell) > 0;
  return kept ? cell : std::string(kOther);
}

class Inference {
 public:
  Inference(RawTable table, const std::string& csv, const InferOptions& options)
      : table_(std::move(table)), csv_(csv), options_(options) {}

  Result<InferredSchema> Run(const std::string& folder) {
    LUCID_ASSIGN(label_, Find(table_, options_.label, "label"));
    LUCID_TRY(FindIgnored());
    if (!options_.declared.empty()) {
      LUCID_ASSIGN(declared_, Schema::Load(options_.declared));
      from_data_ = declared_->origin() == SchemaOrigin::kFromData;
      only_declared_ = options_.only_declared || declared_->origin() == SchemaOrigin::kDeclared;
    }
    result_.rows = table_.rows();
    result_.units = static_cast<std::int64_t>(table_.unit_keys.size());
    LUCID_TRY(DecideClasses());
    for (std::size_t c = 0; c < table_.names.size(); ++c) DecideColumn(c);
    LUCID_TRY(MakeSchema());
    LUCID_TRY(CheckMargins());
    LUCID_TRY(CountMissing());
    LUCID_TRY(Write(folder));
    return std::move(result_);
  }

 private:
  const Column* Declared(const std::string& name) const {
    if (!declared_) return nullptr;
    const auto columns = declared_->columns();
    const auto found = std::ranges::find(columns, name, &Column::name);
    return found == columns.end() ? nullptr : &*found;
  }

  Status FindIgnored() {
    for (const std::string& name : options_.ignore) {
      LUCID_TRY(Find(table_, name, "list of those to ignore"));
      if (name == options_.label || name == options_.unit) {
        return InvalidInput(fmt::format("column {} is the {}: it cannot be ignored", Quoted(name),
                                        name == options_.label ? "label" : "unit"));
      }
      ignored_.insert(name);
    }
    if (options_.declared.empty()) return Ok();
    LUCID_ASSIGN(const std::vector<std::string> names, IgnoredColumns(options_.declared));
    ignored_.insert(names.begin(), names.end());
    return Ok();
  }

  Status DecideClasses() {
    Margin margin;
    UnitCounter counter;
    for (std::int64_t i = 0; i < table_.rows(); ++i) {
      counter.Add(table_.columns[label_][static_cast<std::size_t>(i)], table_.unit[i]);
    }
    if (const Column* column = Declared(options_.label)) {
      classes_ = column->categories;
    } else {
      from_data_ = true;
      for (const auto& [value, units] : counter.all()) {
        if (IsMissingCell(value) || std::ssize(units) < kUnitsToCount) continue;
        classes_.push_back(value);
        margin.Needs(std::ssize(units));
      }
    }
    if (classes_.size() < 2) {
      return InvalidInput(
          fmt::format("column {}: {} classes that at least {} units have, must be two or more",
                      Quoted(options_.label), classes_.size(), kUnitsToCount));
    }
    class_margin_ = margin.least();
    return Ok();
  }

  void DecideColumn(std::size_t c) {
    const std::string& name = table_.names[c];
    Decided decided;
    if (c == label_) {
      decided = {Column{name, ColumnKind::kLabel, 0, 1, classes_},
                 fmt::format("label, {} classes", classes_.size()), class_margin_};
    } else if (name == options_.unit) {
      decided = {Column{name, ColumnKind::kUnit, 0, 1, {}}, "unit", kNever};
    } else if (ignored_.contains(name)) {
      decided = {std::nullopt, "left out: ignored, as asked", kNever};
    } else if (const Column* column = Declared(name)) {
      decided = {*column, "declared", kNever, column->divisor / 2 - column->offset};
    } else if (only_declared_) {
      decided = {std::nullopt, "left out: not declared", kNever};
    } else {
      from_data_ = true;
      decided = ColumnRule(name, table_.columns[c], table_.unit).Decide();
    }
    result_.columns.push_back({name, decided.what, decided.margin});
    decided_.push_back(std::move(decided));
  }

  Status CheckMargins() const {
    std::vector<std::string> names;
    for (const ColumnDecision& column : result_.columns) {
      if (column.margin == 1) names.push_back(fmt::format("{} ({})", column.name, column.what));
    }
    if (names.empty()) return Ok();
    std::string where = "declare it in a schema.csv and give that with the option declared";
    if (!options_.proposal.empty()) {
      LUCID_TRY(WriteFileAtomically(options_.proposal, result_.schema.FileText()));
      where = fmt::format(
          "look at {}, make of it what you would declare for any data of this kind, and give that "
          "file with the option declared",
          options_.proposal);
    }
    return Mismatch(
        fmt::format("a single unit decides about {}: {}", fmt::join(names, "; "), where));
  }

  // Whether a cell of this column is missing where a value is needed.
  bool Lacks(std::size_t c, std::size_t row) const {
    return decided_[c].column && decided_[c].column->is_feature() &&
           IsMissingCell(table_.columns[c][row]);
  }

  Status CountMissing() {
    std::vector<std::string> found;
    for (std::size_t c = 0; c < decided_.size(); ++c) {
      std::int64_t cells = 0;
      for (std::size_t row = 0; row < table_.unit.size(); ++row) cells += Lacks(c, row) ? 1 : 0;
      result_.missing_cells += cells;
      if (cells > 0) found.push_back(fmt::format("{} ({})", Quoted(table_.names[c]), cells));
    }
    if (found.empty() || options_.missing != MissingCells::kRefuse) return Ok();
    return InvalidInput(fmt::format(
        "{} cells are missing, in the columns {}: of the option missing, fill makes numbers the "
        "middle of their range and categories '{}', and drop leaves the rows out",
        result_.missing_cells, fmt::join(found, ", "), kOther));
  }

  Status MakeSchema() {
    std::string text = "column,kind,offset,divisor,categories\n";
    for (const Decided& decided : decided_) {
      if (!decided.column) continue;
      const Column& c = *decided.column;
      const bool numeric = c.kind == ColumnKind::kNumeric;
      const std::string offset = numeric ? fmt::format("{}", c.offset == 0 ? 0.0 : c.offset) : "";
      const std::string divisor = numeric ? fmt::format("{}", c.divisor) : "";
      const std::string categories = fmt::format("{}", fmt::join(c.categories, "|"));
      AppendCsvRecord(text, std::array<std::string_view, 5>{c.name, KindName(c.kind), offset,
                                                            divisor, categories});
    }
    LUCID_ASSIGN(result_.schema, Schema::Parse(text, "the inferred schema"));
    result_.schema.set_origin(from_data_ ? SchemaOrigin::kFromData : declared_->origin());
    return Ok();
  }

  bool InTest(std::int64_t unit) const {
    const KeyedHash hash(options_.split_key, "split", 0);
    return static_cast<double>(hash(table_.unit_keys[static_cast<std::size_t>(unit)])) <
           std::ldexp(options_.test_share, 64);
  }

  Status Write(const std::string& folder) {
    std::string train, test, header;
    std::vector<std::string> cells;
    const auto append = [&](std::string& out) {
      const std::vector<std::string_view> views(cells.begin(), cells.end());
      AppendCsvRecord(out, views);
    };
    for (std::size_t c = 0; c < decided_.size(); ++c) {
      if (decided_[c].column) cells.push_back(table_.names[c]);
    }
    append(header);
    train = test = header;
    for (std::int64_t i = 0; i < table_.rows(); ++i) {
      const std::string& name = table_.columns[label_][static_cast<std::size_t>(i)];
      const auto label = std::ranges::find(classes_, name);
      if (label == classes_.end()) {
        ++result_.left_out;
        continue;
      }
      cells.clear();
      bool lacks = false;
      for (std::size_t c = 0; c < decided_.size(); ++c) {
        if (!decided_[c].column) continue;
        lacks = lacks || Lacks(c, static_cast<std::size_t>(i));
        const std::string& cell = table_.columns[c][static_cast<std::size_t>(i)];
        const ColumnKind kind = decided_[c].column->kind;
        cells.push_back(kind == ColumnKind::kLabel
                            ? fmt::format("{}", label - classes_.begin())
                            : (kind == ColumnKind::kUnit ? cell : CellOf(decided_[c], cell)));
      }
      if (lacks && options_.missing == MissingCells::kDrop) {
        ++result_.rows_with_missing;
        continue;
      }
      const bool to_test = InTest(table_.unit[i]);
      append(to_test ? test : train);
      if (!to_test) result_.train_records.push_back(i);
      ++(to_test ? result_.test_rows : result_.train_rows);
    }
    if (result_.train_rows < 2) return InvalidInput("fewer than two rows are left to train with");
    LUCID_ASSIGN(StagedFolder staged,
                 StagedFolder::Create(folder, options_.overwrite,
                                      options_.owner_only ? kOwnerOnly : kForEverybody));
    LUCID_TRY(staged.Write("schema.csv", result_.schema.FileText()));
    LUCID_TRY(staged.Write("train.csv", train));
    if (result_.test_rows > 0) LUCID_TRY(staged.Write("test.csv", test));
    LUCID_ASSIGN(const std::string source, SourceText());
    LUCID_TRY(staged.Write(kSourceFile, source));
    return staged.Publish();
  }

  Result<std::string> SourceText() const {
    std::error_code code;
    const std::filesystem::path path = std::filesystem::absolute(csv_, code);
    if (code) return IoError(fmt::format("cannot tell where '{}' is: {}", csv_, code.message()));
    DataSource source{path.lexically_normal().string(), {}, options_, {}};
    LUCID_ASSIGN(source.digest, Sha256OfFile(csv_));
    if (!options_.declared.empty()) {
      LUCID_ASSIGN(source.declared, ReadTextFile(options_.declared, std::size_t{64} << 20));
    }
    return EncodeSource(source);
  }

  const RawTable table_;
  const std::string& csv_;
  const InferOptions& options_;
  std::size_t label_ = 0;
  std::set<std::string> ignored_;
  std::optional<Schema> declared_;
  bool only_declared_ = false;  // columns that are not in declared_ are left out
  bool from_data_ = false;      // a row decided about a column, or may have decided about declared_
  std::vector<std::string> classes_;
  std::int64_t class_margin_ = kNever;
  std::vector<Decided> decided_;
  InferredSchema result_;
};

}  // namespace

std::string_view NameOf(MissingCells missing) {
  switch (missing) {
    case MissingCells::kFill:
      return "fill";
    case MissingCells::kDrop:
      return "drop";
    case MissingCells::kRefuse:
      break;
  }
  return "refuse";
}

Result<MissingCells> MissingCellsNamed(std::string_view name) {
  for (const MissingCells missing :
       {MissingCells::kFill, MissingCells::kDrop, MissingCells::kRefuse}) {
    if (NameOf(missing) == name) return missing;
  }
  return InvalidInput(fmt::format("missing cells '{}': use fill, drop or refuse", name));
}

Status InferOptions::Validate() const {
  if (label.empty()) return InvalidInput("no column is named for the classes");
  if (label == unit) return InvalidInput("label and unit are one column");
  if (only_declared && declared.empty()) {
    return InvalidInput("only declared columns are wanted, and none are declared");
  }
  if (!(test_share >= 0 && test_share < 1)) {
    return InvalidInput(fmt::format("the test share is {}, must be from 0 to below 1", test_share));
  }
  return Ok();
}

Result<InferredSchema> InferSchema(const std::string& csv, const InferOptions& options,
                                   const std::string& folder) {
  LUCID_TRY(options.Validate());
  LUCID_ASSIGN(RawTable table, Read(csv, options.unit));
  return Inference(std::move(table), csv, options).Run(folder);
}

}  // namespace lucid
