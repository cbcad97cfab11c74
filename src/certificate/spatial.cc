#include "lucid/certificate/spatial.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/files.h"

namespace lucid {
namespace {

constexpr std::string_view kMagic = "LUCIDSPA";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kNodeBytes = 16, kSealBytes = 32;
constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

// Whether these nodes are one tree in preorder. `second` of every inner node lies behind its first
// child's subtree, and nothing is left over.
bool IsTree(const SpatialBounds::Tree& tree, std::int64_t features) {
  // Ends of the subtrees that are open, innermost last: where the second child has to begin.
  std::vector<std::int32_t> seconds;
  const auto size = static_cast<std::int32_t>(tree.size());
  for (std::int32_t at = 0; at < size; ++at) {
    const SpatialBounds::Node& node = tree[at];
    if (node.feature >= 0) {
      const bool fits = node.feature < features && node.value >= 0 && node.value <= 1 &&
                        node.second > at + 1 && node.second < size;
      if (!fits) return false;
      seconds.push_back(node.second);
      continue;
    }
    if (node.feature != -1 || node.second != 0 || !(node.value >= 0)) return false;
    if (at + 1 == size) return seconds.empty();
    // A leaf ends first children until one whose second comes next.
    if (seconds.empty() || seconds.back() != at + 1) return false;
    seconds.pop_back();
  }
  return false;
}

}  // namespace

std::string SpatialBounds::Encode(std::int64_t features, std::span<const Tree> trees) {
  std::string bytes(kMagic);
  PutBytes(bytes, kVersion);
  PutBytes(bytes, static_cast<std::uint32_t>(features));
  PutBytes(bytes, static_cast<std::uint32_t>(trees.size()));
  for (const Tree& tree : trees) {
    PutBytes(bytes, static_cast<std::uint32_t>(tree.size()));
    for (const Node& node : tree) {
      PutBytes(bytes, node.feature);
      PutBytes(bytes, node.second);
      PutBytes(bytes, node.value);
    }
  }
  const Digest seal = Sha256Of(bytes);
  bytes.append(reinterpret_cast<const char*>(seal.bytes.data()), seal.bytes.size());
  return bytes;
}

Result<SpatialBounds> SpatialBounds::Parse(std::string_view bytes, const std::string& source) {
  const auto refuse = [&](std::string_view why) {
    return InvalidInput(fmt::format("{}: {}", source, why));
  };
  if (!bytes.starts_with(kMagic)) return refuse("not a file of spatial bounds");
  if (bytes.size() < kMagic.size() + kSealBytes) return refuse("truncated");
  const std::string_view content = bytes.substr(0, bytes.size() - kSealBytes);
  Digest seal;
  ByteCursor(bytes.substr(content.size())).Take(seal.bytes);
  if (seal != Sha256Of(content)) {
    return refuse("the seal at its end is not that of its content: truncated or damaged");
  }
  ByteCursor cursor(content.substr(kMagic.size()));
  if (cursor.Take<std::uint32_t>() != kVersion) return refuse("of another version");
  SpatialBounds bounds;
  bounds.features_ = cursor.Take<std::uint32_t>();
  const auto classes = cursor.Take<std::uint32_t>();
  for (std::uint32_t c = 0; c < classes && cursor.ok(); ++c) {
    const std::size_t nodes = cursor.Take<std::uint32_t>();
    cursor.Require(nodes <= cursor.left() / kNodeBytes);
    if (!cursor.ok()) break;
    Tree& tree = bounds.trees_.emplace_back(nodes);
    for (Node& node : tree) {
      node.feature = cursor.Take<std::int32_t>();
      node.second = cursor.Take<std::int32_t>();
      node.value = cursor.Take<double>();
    }
    if (!IsTree(tree, bounds.features_)) {
      return refuse(fmt::format("class {}: its boxes are no partition", c));
    }
  }
  if (!cursor.ok() || cursor.left() > 0 || classes == 0) return refuse("its sizes do not fit");
  bounds.digest_ = Sha256Of(bytes);
  return bounds;
}

Result<SpatialBounds> SpatialBounds::Load(const std::string& path) {
  LUCID_ASSIGN(const std::string bytes, ReadTextFile(path, kMaxBytes));
  return Parse(bytes, path);
}

double SpatialBounds::Bound(std::int32_t label, std::span<const float> x) const {
  const Node* nodes = trees_[label].data();
  const Node* node = nodes;
  while (node->feature >= 0) {
    node = x[node->feature] <= node->value ? node + 1 : nodes + node->second;
  }
  return node->value;
}

std::int64_t SpatialBounds::leaves(std::int32_t label) const {
  return std::ranges::count(trees_[label], -1, &Node::feature);
}

}  // namespace lucid
