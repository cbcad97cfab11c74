#include "lucid/data/encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/text.h"
#include "lucid/data/dataset.h"

namespace lucid {
namespace {

// (cos a, sin a) with a = (pi/2) i / (n-1). The order of the operations is part of the format: it
// gives the published tensors bit for bit. A single category has nothing to be told apart from: a =
// 0.
std::array<float, 2> OnQuarterCircle(std::size_t i, std::size_t n) {
  const double a =
      n == 1 ? 0 : std::numbers::pi / 2 * static_cast<double>(i) / static_cast<double>(n - 1);
  return {static_cast<float>(std::cos(a)), static_cast<float>(std::sin(a))};
}

Error InColumn(const Column& column, std::string_view what) {
  return InvalidInput(fmt::format("column {}: {}", Quoted(column.name), what));
}

// "nurse, cook, clerk, ..."
std::string SomeOf(const std::vector<std::string>& categories) {
  constexpr std::size_t kShown = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, categories.size()); ++i) {
    text += (i == 0 ? "" : ", ") + Quoted(categories[i]);
  }
  return text + (categories.size() > kShown ? ", ..." : "");
}

}  // namespace

bool IsMissingCell(std::string_view cell) {
  return cell.empty() || cell == "?" || cell == "NA" || cell == "NaN";
}

Encoder::Encoder(Schema schema, bool clip, bool other, bool fill)
    : schema_(std::move(schema)), clip_(clip), other_(other), fill_(fill) {
  const auto columns = schema_.columns();
  const std::vector<std::string>& names = schema_.label().categories;
  if (std::ranges::none_of(names, [](const auto& name) { return ParseNumber(name).ok(); })) {
    for (std::size_t i = 0; i < names.size(); ++i) class_names_.emplace(names[i], i);
  }
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (!columns[c].is_feature()) continue;
    Plan plan;
    plan.column = c;
    plan.width = static_cast<std::size_t>(columns[c].width());
    const std::size_t n = columns[c].categories.size();
    for (std::size_t i = 0; i < n; ++i) {
      plan.index.emplace(columns[c].categories[i], i);
      if (columns[c].kind == ColumnKind::kQuarterCircle) {
        plan.circle.push_back(OnQuarterCircle(i, n));
      }
    }
    plans_.push_back(std::move(plan));
  }
}

Result<std::int64_t> Encoder::EncodeRow(std::span<const std::string_view> cells,
                                        std::span<float> out) const {
  if (cells.size() != plans_.size()) {
    return InvalidInput(
        fmt::format("{} cells, expected {} (one per feature column)", cells.size(), plans_.size()));
  }
  if (out.size() != static_cast<std::size_t>(schema_.features())) {
    return InternalError(
        fmt::format("room for {} encoded values, expected {}", out.size(), schema_.features()));
  }
  std::int64_t clipped = 0;
  std::size_t at = 0;
  for (std::size_t c = 0; c < plans_.size(); ++c) {
    LUCID_ASSIGN(const std::int64_t n,
                 EncodeCell(plans_[c], cells[c], out.subspan(at, plans_[c].width)));
    clipped += n;
    at += plans_[c].width;
  }
  return clipped;
}

Result<std::int64_t> Encoder::EncodeCell(const Plan& plan, std::string_view cell,
                                         std::span<float> out) const {
  const Column& column = schema_.columns()[plan.column];
  if (column.kind == ColumnKind::kNumeric) return EncodeNumber(column, cell, out[0]);

  if (column.kind == ColumnKind::kQuarterCircle && cell == kMissing) {
    std::ranges::fill(out, 0.0f);
    return 0;
  }
  auto found = plan.index.find(cell);
  if (found == plan.index.end() && other_) found = plan.index.find(kOther);
  if (found == plan.index.end()) {
    return InColumn(column, fmt::format("{} is not one of its {} categories ({})", Quoted(cell),
                                        column.categories.size(), SomeOf(column.categories)));
  }
  const std::size_t i = found->second;
  switch (column.kind) {
    case ColumnKind::kBinary:
      out[0] = static_cast<float>(i);
      return 0;
    case ColumnKind::kQuarterCircle:
      std::ranges::copy(plan.circle[i], out.begin());
      return 0;
    case ColumnKind::kCategorical:
      std::ranges::fill(out, 0.0f);
      out[i] = 1.0f;
      return 0;
    case ColumnKind::kNumeric:
    case ColumnKind::kLabel:
    case ColumnKind::kUnit:
      break;
  }
  return InternalError(fmt::format("column {} has no encoding", Quoted(column.name)));
}

std::vector<std::vector<float>> Encoder::EncodingsOf(std::size_t feature) const {
  const Plan& plan = plans_[feature];
  const Column& column = schema_.columns()[plan.column];
  std::vector<std::string> cells = column.categories;
  if (column.kind == ColumnKind::kQuarterCircle) cells.emplace_back(kMissing);
  std::vector<std::vector<float>> encodings;
  for (const std::string& cell : cells) {
    std::vector<float> encoding(plan.width);
    if (EncodeCell(plan, cell, encoding).ok()) encodings.push_back(std::move(encoding));
  }
  return encodings;
}

Result<std::int64_t> Encoder::EncodeNumber(const Column& column, std::string_view cell,
                                           float& out) const {
  if (fill_ && IsMissingCell(cell)) {
    out = 0.5F;
    return 0;
  }
  const Result<double> raw = ParseNumber(cell);
  if (!raw.ok()) return InColumn(column, raw.error().message);
  // Finite over finite and not 0: may overflow to infinity, which has a side, but is never NaN.
  const double value = (*raw + column.offset) / column.divisor;
  const bool inside = value >= -kEncodingSlack && value <= 1 + kEncodingSlack;
  if (!inside && !clip_) {
    return InColumn(column,
                    fmt::format("{} is {:.6g} after scaling, outside [0,1]", Quoted(cell), value));
  }
  out = static_cast<float>(inside ? value : std::clamp(value, 0.0, 1.0));
  return inside ? 0 : 1;
}

Result<std::int32_t> Encoder::EncodeLabel(std::string_view cell) const {
  std::int32_t index = -1;
  const char* end = cell.data() + cell.size();
  const auto [stop, code] = std::from_chars(cell.data(), end, index);
  if (code == std::errc() && stop == end && index >= 0 && index < schema_.classes()) return index;
  if (const auto named = class_names_.find(cell); named != class_names_.end()) {
    return static_cast<std::int32_t>(named->second);
  }
  return InColumn(
      schema_.label(),
      fmt::format("{} is not a class index from 0 to {}{}", Quoted(cell), schema_.classes() - 1,
                  class_names_.empty() ? ""
                                       : fmt::format(" and no class is called so ({})",
                                                     SomeOf(schema_.label().categories))));
}

}  // namespace lucid
