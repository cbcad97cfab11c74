#include "train/row_ranking.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>
#include <unordered_map>

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

std::vector<std::int32_t> RankRows(const Table& table, const TableKeys& keys) {
  std::vector<Key> own;
  // The smallest key of each unit's rows. Without a unit column every row is a unit of its own.
  std::unordered_map<Digest, Key, DigestHash> smallest;
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    own.push_back(KeyOf(table.row(i)));
    if (!table.has_units()) continue;
    const auto [place, fresh] =
        smallest.emplace(keys.units[static_cast<std::size_t>(i)], own.back());
    if (!fresh) place->second = std::min(place->second, own.back());
  }
  for (std::size_t i = 0; table.has_units() && i < own.size(); ++i) {
    own[i] = smallest.at(keys.units[i]);
  }
  std::vector<std::int32_t> ranked(own.size());
  std::iota(ranked.begin(), ranked.end(), 0);
  std::ranges::sort(ranked, [&](std::int32_t a, std::int32_t b) {
    return std::tie(own[a], keys.units[a], keys.rows[a]) <
           std::tie(own[b], keys.units[b], keys.rows[b]);
  });
  return ranked;
}

}  // namespace lucid
