#include "lucid/data/units.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "base/hasher.h"

namespace lucid {
namespace {

std::span<const std::byte> BytesOf(const Digest& digest) {
  return std::as_bytes(std::span(digest.bytes));
}

// The digest of everything in a row but its copy number. -0 counts as 0. `x` is for the features.
Digest ContentOf(const Table& table, std::int64_t row, std::vector<float>& x) {
  x.assign(table.row(row).begin(), table.row(row).end());
  for (float& value : x) value += 0.0F;
  Hasher hasher;
  hasher.Text("lucid-row-1").Number(table.has_units());
  if (table.has_units()) hasher.Text(table.unit_ids[static_cast<std::size_t>(row)]);
  return hasher.Number(static_cast<std::uint64_t>(table.features))
      .Bytes(std::as_bytes(std::span(x)))
      .Number(static_cast<std::uint64_t>(table.y[static_cast<std::size_t>(row)]))
      .Finish();
}

Table Subset(const Table& table, const std::vector<char>& kept) {
  Table result;
  result.features = table.features;
  result.clipped = table.clipped;
  result.dropped = table.dropped;
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    if (kept[static_cast<std::size_t>(i)] == 0) continue;
    result.x.insert(result.x.end(), table.row(i).begin(), table.row(i).end());
    result.y.push_back(table.y[static_cast<std::size_t>(i)]);
    if (table.has_units()) result.unit_ids.push_back(table.unit_ids[static_cast<std::size_t>(i)]);
  }
  return result;
}

Digest Shuffled(const char* purpose, const Digest& key) {
  return Hasher().Text(purpose).Bytes(BytesOf(key)).Finish();
}

}  // namespace

TableKeys TableKeys::Of(const Table& table) {
  static_assert(std::endian::native == std::endian::little, "keys are of little-endian bytes");
  TableKeys keys;
  const auto rows = static_cast<std::size_t>(table.rows());
  keys.contents.reserve(rows);
  keys.rows.reserve(rows);
  keys.units.reserve(rows);
  std::unordered_map<Digest, std::uint64_t, DigestHash> left(rows);  // copies without a number yet
  std::vector<float> x;
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    keys.contents.push_back(ContentOf(table, i, x));
    ++left[keys.contents.back()];
  }
  for (std::size_t i = 0; i < rows; ++i) {
    // The first of m equal rows is copy m - 1, the one that a member leaves out.
    const std::uint64_t copy = --left[keys.contents[i]];
    keys.rows.push_back(Hasher().Bytes(BytesOf(keys.contents[i])).Number(copy).Finish());
    keys.units.push_back(table.has_units()
                             ? Hasher().Text("lucid-unit-1").Text(table.unit_ids[i]).Finish()
                             : keys.rows.back());
  }
  return keys;
}

std::vector<Unit> UnitsOf(const Table& table, const TableKeys& keys) {
  // With a unit column, rows of one unit have one key. Without one, equal rows have one content.
  const std::vector<Digest>& names = table.has_units() ? keys.units : keys.contents;
  std::unordered_map<Digest, std::size_t, DigestHash> place(names.size());
  std::vector<Unit> units;
  for (std::int64_t i = 0; i < table.rows(); ++i) {
    const Digest& name = names[static_cast<std::size_t>(i)];
    const auto [found, fresh] = place.emplace(name, units.size());
    if (fresh) {
      units.push_back({i, {i}, 1});
    } else if (table.has_units()) {
      units[found->second].rows.push_back(i);
    } else {
      ++units[found->second].copies;
    }
  }
  return units;
}

Digest TableDigest(const Table& table) { return TableDigest(table, TableKeys::Of(table)); }

Digest TableDigest(const Table& table, const TableKeys& keys) {
  std::vector<Digest> sorted = keys.rows;
  std::ranges::sort(sorted);
  Hasher hasher;
  hasher.Text("lucid-table-2")
      .Number(static_cast<std::uint64_t>(table.features))
      .Number(sorted.size());
  for (const Digest& key : sorted) hasher.Bytes(BytesOf(key));
  return hasher.Finish();
}

Digest OrderDigest(const TableKeys& keys) {
  Hasher hasher;
  hasher.Text("lucid-order-1").Number(keys.rows.size());
  for (const Digest& key : keys.rows) hasher.Bytes(BytesOf(key));
  return hasher.Finish();
}

Digest BlankedTableDigest(const Table& table) {
  return Hasher()
      .Text("lucid-table-1")
      .Number(static_cast<std::uint64_t>(table.rows()))
      .Number(static_cast<std::uint64_t>(table.features))
      .Bytes(std::as_bytes(std::span(table.x)))
      .Bytes(std::as_bytes(std::span(table.y)))
      .Finish();
}

bool IsDigestOf(const Table& table, const Digest& digest) {
  return TableDigest(table) == digest || BlankedTableDigest(table) == digest;
}

Table KeepRows(const Table& table, std::int64_t rows, std::int64_t per_unit) {
  const TableKeys keys = TableKeys::Of(table);
  // All rows, those of one unit together, units and rows of a unit by their hashes.
  std::vector<Digest> unit_hash, row_hash;
  for (std::size_t i = 0; i < keys.rows.size(); ++i) {
    unit_hash.push_back(Shuffled("lucid-keep-units-1", keys.units[i]));
    row_hash.push_back(Shuffled("lucid-keep-rows-1", keys.rows[i]));
  }
  std::vector<std::size_t> order(keys.rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return std::tie(unit_hash[a], row_hash[a]) < std::tie(unit_hash[b], row_hash[b]);
  });
  std::vector<char> kept(order.size());
  std::int64_t total = 0;
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && unit_hash[order[end]] == unit_hash[order[first]]) ++end;
    const std::size_t most = per_unit > 0 ? static_cast<std::size_t>(per_unit) : order.size();
    const std::size_t last = std::min(end, first + most);
    total += static_cast<std::int64_t>(last - first);
    if (rows > 0 && total > rows) break;
    for (std::size_t i = first; i < last; ++i) kept[order[i]] = 1;
    first = end;
  }
  return Subset(table, kept);
}

}  // namespace lucid
