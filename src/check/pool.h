// Where the search begins: points on N's decision boundary, scored against every member.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "lucid/base/progress.h"
#include "lucid/base/result.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

struct PoolPoint {
  std::vector<float> x;
  // N's label there and, for a point on the boundary, that of the other side; otherwise the same.
  std::int32_t label = 0, other = 0;
};

// A point for each of `starts`: three of four on the boundary between two points of different label
// (drawn from corners, faces and the inside of the box, then bisected), the fourth as drawn: where
// N has no boundary a member may still have one. Point i depends on (seed, i) only.
Result<std::vector<PoolPoint>> MakePool(const Network& network, std::uint64_t seed,
                                        std::int64_t starts, int threads,
                                        const std::stop_token& stop);

// A point and a member that may disagree there.
struct Candidate {
  double score = 0;  // about the confidence that can be hoped for
  std::int64_t member = 0, point = 0;
};

// Scores every point against every member for both of its labels: with h = f - g_i, h on the
// boundary (f is 0 there) and min(f, h) elsewhere. Ensures: for each class the `per_class` best of
// each member's `per_member` best, best first, the same for any number of threads. Float
// arithmetic: an estimate.
Result<std::vector<std::vector<Candidate>>> ScorePool(const Ensemble& ensemble,
                                                      std::span<const PoolPoint> pool,
                                                      std::size_t per_member, std::size_t per_class,
                                                      int threads, const ProgressCallback& progress,
                                                      const std::stop_token& stop);

}  // namespace lucid
