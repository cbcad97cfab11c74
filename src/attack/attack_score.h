// The confidence of one class at many points, for many networks: the attack's bulk arithmetic.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "ensemble/members.h"
#include "lucid/base/result.h"

namespace lucid {

// Points go through a network in strips; one unit's values at the points of a strip lie side by
// side.
inline constexpr std::int64_t kAttackStrip = 64;
struct alignas(64) StripValues {
  std::array<float, kAttackStrip> at;
};

// Points in that order: [strip][input]. The last strip may have places for which there is no point;
// their values are 0.
class PointBatch {
 public:
  // Requires: points.size() is a multiple of inputs.
  PointBatch(std::span<const float> points, std::int64_t inputs);
  std::int64_t size() const { return size_; }
  std::int64_t strips() const { return (size_ + kAttackStrip - 1) / kAttackStrip; }
  const StripValues* strip(std::int64_t s) const { return values_.data() + s * inputs_; }

 private:
  std::int64_t size_, inputs_;
  std::vector<StripValues> values_;
};

// Computes output[label] - max of the other outputs in float32: every product and every sum rounded
// once, in one fixed order, so the bits do not depend on the machine's vectors. Holds scratch
// memory: one object per thread.
class PointScorer {
 public:
  PointScorer(const Architecture& architecture, std::int32_t label);
  // Requires: parameters.size() == architecture.parameters(), out.size() == points.size().
  void Score(std::span<const float> parameters, const PointBatch& points, std::span<float> out);

 private:
  struct PlacedLayer {
    Layer shape;
    std::vector<std::int32_t> offsets;  // TapOffset(k)
  };
  std::int32_t label_;
  std::vector<PlacedLayer> layers_;
  std::vector<StripValues> front_, back_;
};

// A member and its confidence at a point. Ordered: the least confident first, then by number.
struct MemberScore {
  float g = 0;
  std::int64_t member = -1;
  bool operator==(const MemberScore&) const = default;
  std::partial_ordering operator<=>(const MemberScore& other) const {
    const std::partial_ordering by_g = g <=> other.g;
    return std::is_neq(by_g) ? by_g : member <=> other.member;
  }
};

// For every point the (up to) `keep` least confident of all members, ascending. Memory: keep *
// points per thread. kInterrupted when stopped.
Result<std::vector<std::vector<MemberScore>>> ScoreMembers(const Members& members,
                                                           std::int32_t label,
                                                           const PointBatch& points,
                                                           std::size_t keep, int threads,
                                                           std::stop_token stop);

}  // namespace lucid
