// Raw cells to features: the one place where a value of a data set becomes an input of a network.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/data/schema.h"

namespace lucid {

// A cell that says that the value is not known: empty, "?", "NA" or "NaN".
bool IsMissingCell(std::string_view cell);

// Computes in double and rounds to float32 once. Immutable after construction, thread-safe. Errors
// name the column, the value and the rule, in one line: "column 'age': 'x' is not a number".
class Encoder {
 public:
  // `clip`: values outside [0,1] become 0 or 1 instead of an error. `other`: a value that is not
  // among a column's categories becomes kOther where that is one of them. `fill`: a number that is
  // missing (IsMissingCell) becomes 0.5.
  explicit Encoder(Schema schema, bool clip = false, bool other = false, bool fill = false);

  const Schema& schema() const { return schema_; }

  // Encodes one row. `cells`: the raw cells of the feature columns, in the order of the schema,
  // without the label and the unit. Requires: out.size() == schema().features(). Ensures, if ok:
  // every value of `out` is written, finite, and in [0,1] up to kEncodingSlack; the result is how
  // many were clipped. After an error `out` is unspecified.
  Result<std::int64_t> EncodeRow(std::span<const std::string_view> cells,
                                 std::span<float> out) const;

  // What the values of one feature column become, in the order of its categories; of a
  // quarter-circle column also the value that is not known, last. Of a number: nothing, they are
  // too many. `feature`: counts feature columns. Requires: it is one of them.
  std::vector<std::vector<float>> EncodingsOf(std::size_t feature) const;

  // A label cell is the index of a class, a decimal integer in [0, classes), or, where no class is
  // called like a number, its name.
  Result<std::int32_t> EncodeLabel(std::string_view cell) const;

 private:
  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using CategoryIndex = std::unordered_map<std::string, std::size_t, TextHash, std::equal_to<>>;

  // What one feature column needs beyond its Column, worked out once.
  struct Plan {
    std::size_t column = 0;  // index into schema_.columns()
    std::size_t width = 0;   // encoded values
    CategoryIndex index;
    std::vector<std::array<float, 2>> circle;  // (cos, sin) of every category of a quarter circle
  };

  Result<std::int64_t> EncodeCell(const Plan& plan, std::string_view cell,
                                  std::span<float> out) const;
  Result<std::int64_t> EncodeNumber(const Column& column, std::string_view cell, float& out) const;

  Schema schema_;
  bool clip_, other_, fill_;
  std::vector<Plan> plans_;
  CategoryIndex class_names_;  // empty where a class is called like a number
};

}  // namespace lucid
