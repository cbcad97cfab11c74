// A partition of the domain into boxes with a bound each: what the spatial guard looks up.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"

namespace lucid {

// For every class c and every x of the certificate's domain, Bound(c, x) is proved: if N gives x
// class c and a member i has g_i(x) <= member_error, then f(x) <= Bound(c, x). Whoever trusts it
// does so because a certificate names its digest. Immutable, thread-safe.
class SpatialBounds {
 public:
  // A node of a class's tree, the first child right behind its parent.
  struct Node {
    std::int32_t feature = -1;  // -1: a leaf
    std::int32_t second = 0;    // child of x[feature] > value; the first is that of <=
    double value = 0;           // where the box is cut, or the leaf's bound (may be +inf)
    bool operator==(const Node&) const = default;
  };
  using Tree = std::vector<Node>;

  // The bytes of a file with a tree per class. docs/certificate.md has every one of them.
  static std::string Encode(std::int64_t features, std::span<const Tree> trees);
  // Refuses a changed byte, trees that are none, cuts outside of [0,1], bounds below 0 and NaN.
  static Result<SpatialBounds> Parse(std::string_view bytes, const std::string& source);
  static Result<SpatialBounds> Load(const std::string& path);

  // Requires: x.size() == features(), x in [0,1]^d, 0 <= label < classes(). A comparison per level.
  double Bound(std::int32_t label, std::span<const float> x) const;

  std::int64_t features() const { return features_; }
  std::int64_t classes() const { return static_cast<std::int64_t>(trees_.size()); }
  std::int64_t leaves(std::int32_t label) const;
  const Tree& tree(std::int32_t label) const { return trees_[label]; }
  // The digest of the file's bytes, by which the certificate names the file.
  const Digest& digest() const { return digest_; }

 private:
  SpatialBounds() = default;
  std::int64_t features_ = 0;
  std::vector<Tree> trees_;
  Digest digest_;
};

}  // namespace lucid
