#include <algorithm>

#include "paper/lp.h"

namespace lucid {
namespace {

using Entry = std::pair<std::int64_t, std::uint8_t>;

// HiGHS's numbers; a solver with others would translate them at its seam.
constexpr std::uint8_t kNonbasicAtLower = 0, kBasic = 1;

std::vector<Entry> Sorted(std::span<const std::uint8_t> status,
                          std::span<const std::int64_t> tags) {
  std::vector<Entry> entries;
  entries.reserve(tags.size());
  for (std::size_t i = 0; i < tags.size(); ++i) {
    if (tags[i] != MilpModel::kNoTag) entries.emplace_back(tags[i], status[i]);
  }
  std::ranges::sort(entries);
  return entries;
}

void Append(const std::vector<Entry>& entries, std::span<const std::int64_t> tags,
            std::uint8_t otherwise, LpBasis& out) {
  for (const std::int64_t tag : tags) {
    const auto found = std::ranges::lower_bound(entries, tag, {}, &Entry::first);
    out.push_back(found != entries.end() && found->first == tag ? found->second : otherwise);
  }
}

}  // namespace

TaggedBasis WithTags(const LpBasis& basis, const MilpModel& model) {
  if (basis.empty()) return {};
  const std::span<const std::uint8_t> all(basis);
  const auto columns = static_cast<std::size_t>(model.columns());
  return {Sorted(all.first(columns), model.column_tags()),
          Sorted(all.subspan(columns), model.row_tags())};
}

LpBasis Translate(const TaggedBasis& basis, const MilpModel& model) {
  LpBasis out;
  if (basis.columns.empty()) return out;
  out.reserve(static_cast<std::size_t>(model.columns()) + static_cast<std::size_t>(model.rows()));
  Append(basis.columns, model.column_tags(), kNonbasicAtLower, out);
  Append(basis.rows, model.row_tags(), kBasic, out);
  return out;
}

}  // namespace lucid
