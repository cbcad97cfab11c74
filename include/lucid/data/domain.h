// The inputs a certificate speaks of, and a guard answers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/result.h"
#include "lucid/data/schema.h"

namespace lucid {

enum class DomainKind {
  kBox,  // [0,1]^d
  // Only encodings of records that the schema allows: binary values 0 or 1, one-hot groups with one
  // 1, quarter-circle pairs on their points (or (0, 0), not known), numbers in [0,1].
  kSchema,
};
std::string_view NameOf(DomainKind kind);  // "box", "schema"
Result<DomainKind> DomainNamed(std::string_view name);
// What may be asked unless somebody says otherwise: what records encode to, where that is less than
// the box. Less can leak there, and nobody has anything else to ask.
DomainKind DefaultDomain(const Schema& schema);

// All inputs of a kind, in float32, as Encoder gives them with -0 and values within kEncodingSlack
// moved into [0,1]. Immutable, thread-safe.
class Domain {
 public:
  static Domain Box(const Schema& schema);
  static Domain OfSchema(const Schema& schema);
  static Domain Of(DomainKind kind, const Schema& schema) {
    return kind == DomainKind::kBox ? Box(schema) : OfSchema(schema);
  }

  DomainKind kind() const { return kind_; }
  std::int64_t features() const { return static_cast<std::int64_t>(names_.size()); }

  // Ok if x is in the domain; else an error that names the feature, its value and the rule.
  // Requires: x.size() == features().
  Status Contains(std::span<const float> x) const;

  // Makes a box as small as the inputs of the domain in it allow: of each group, the hull of its
  // points in the box. False: there is none. Exact. Requires: both of size features().
  bool Shrink(std::span<double> lower, std::span<double> upper) const;
  // Where to halve a shrunk box along a feature with lower < upper: no input of the domain has this
  // value, unless the feature is free, and there are some on both sides.
  double CutOf(std::int64_t feature, double lower, double upper) const;

  // Makes each group's features those of another input of the domain. Then all inputs between the
  // two are in the domain.
  void CopyGroups(std::span<const float> from, std::span<float> x) const;
  // Makes each group's features those of its nearest point.
  void Project(std::span<double> x) const;
  void Project(std::span<float> x) const;
  // Whether the feature can take any value of [0,1], whatever the others are.
  bool IsFree(std::int64_t feature) const { return GroupOf(feature) == nullptr; }

  // Features first .. first + width - 1 take one of `points` together. Features of no group are
  // free in [0,1].
  struct Group {
    std::int64_t first = 0, width = 0;
    std::vector<std::vector<float>> points;
    std::string name;  // of the column
  };
  std::span<const Group> groups() const { return groups_; }

 private:
  const Group* GroupOf(std::int64_t feature) const;
  template <typename T>
  void ProjectAny(std::span<T> x) const;

  std::vector<std::string> names_;  // of the features
  DomainKind kind_ = DomainKind::kBox;
  std::vector<Group> groups_;
};

}  // namespace lucid
