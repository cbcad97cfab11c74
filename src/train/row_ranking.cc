#include "train/row_ranking.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace lucid {
namespace {

// Which features are above each of a few thresholds, the coarsest first: rows with the same key are
// active in much the same neurons.
using Key = std::array<std::uint64_t, 3>;

Key KeyOf(std::span<const float> x) {
  constexpr float kThresholds[] = {0.5f, 0.0f, 0.25f};
  Key key{};
  for (std::size_t level = 0; level < key.size(); ++level) {
    for (std::size_t k = 0; k < std::min<std::size_t>(x.size(), 64); ++k) {
      key[level] = key[level] << 1 | static_cast<std::uint64_t>(x[k] > kThresholds[level]);
    }
  }
  return key;
}

}  // namespace

std::vector<std::int32_t> RankRows(const Table& table) {
  std::vector<Key> keys;
  keys.reserve(table.y.size());
  for (std::int64_t i = 0; i < table.rows(); ++i) keys.push_back(KeyOf(table.row(i)));
  std::vector<std::int32_t> ranked(keys.size());
  std::iota(ranked.begin(), ranked.end(), 0);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](std::int32_t a, std::int32_t b) { return keys[a] < keys[b]; });
  return ranked;
}

}  // namespace lucid
