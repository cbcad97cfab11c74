// How raw columns become numbers in [0,1] (schema.csv of a data directory).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/result.h"

namespace lucid {

enum class ColumnKind {
  kNumeric,        // (raw + offset) / divisor                       1 value
  kBinary,         // index of the category, 0 or 1                  1 value
  kQuarterCircle,  // cos a, sin a with a = (pi/2) i / (n-1)         2 values; '?' gives (0, 0)
  kCategorical,    // one-hot in the order of the categories         n values
  kLabel,          // class index; categories name the classes
  kUnit,           // whose row it is (a person's id); never an input    0 values
};

std::string_view KindName(ColumnKind kind);  // as schema.csv spells it: "quarter-circle", ...

// The cell of a quarter-circle column whose value is not known.
inline constexpr std::string_view kMissing = "?";

// The category that stands for all that a column does not list.
inline constexpr std::string_view kOther = "other";

struct Column {
  std::string name;
  ColumnKind kind = ColumnKind::kNumeric;
  double offset = 0;
  double divisor = 1;
  std::vector<std::string> categories;

  std::int64_t width() const;  // encoded values (0 for the label and the unit)
  bool is_feature() const { return kind != ColumnKind::kLabel && kind != ColumnKind::kUnit; }
  bool operator==(const Column&) const = default;
};

// Who decided what a schema.csv says. A line of the file may tell it.
enum class SchemaOrigin {
  kUnmarked,  // no line: somebody wrote the file
  kFromData,  // "# declared = false": it was made by looking at the rows
  kDeclared,  // "# declared = true": somebody would give the same for any data of this kind
};

class Schema {
 public:
  // Parses the text of a schema.csv. `source` names it in messages. Accepts only what can be
  // encoded: exactly one label with at least two classes, at least one feature, at most one unit,
  // no name twice. A line that begins with "# " is a comment, or tells the origin.
  static Result<Schema> Parse(std::string_view text, const std::string& source);
  static Result<Schema> Load(const std::string& path);

  // The label is one of them, and so is the unit if there is one.
  std::span<const Column> columns() const { return columns_; }
  std::int64_t features() const { return features_; }  // encoded values per row
  std::int64_t classes() const;
  const Column& label() const { return columns_[label_]; }
  std::size_t label_index() const { return label_; }
  // The column that says whose row it is. Without it every row is a unit of its own.
  std::optional<std::size_t> unit_index() const { return unit_; }
  std::string unit_name() const { return unit_ ? columns_[*unit_].name : "row"; }
  std::vector<std::string> feature_names() const;  // "age", "workclass_cos", "workclass_sin", ...

  SchemaOrigin origin() const { return origin_; }
  void set_origin(SchemaOrigin origin) { origin_ = origin; }

  // The schema as schema.csv text in one fixed spelling: what its digest is of, and what a manifest
  // stores. Parse(Canonical()) gives an equal schema. It does not tell the origin.
  std::string Canonical() const;
  // The same with a line that tells the origin.
  std::string FileText() const;

  // Where a schema came from is no part of what it says.
  bool operator==(const Schema& other) const { return columns_ == other.columns_; }

 private:
  std::vector<Column> columns_;
  SchemaOrigin origin_ = SchemaOrigin::kUnmarked;
  std::int64_t features_ = 0;
  std::size_t label_ = 0;
  std::optional<std::size_t> unit_;
};

}  // namespace lucid
