// Splits a set of members into sets of similar ones (Algorithm 1, line "partition").
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "ensemble/members.h"
#include "lucid/base/result.h"

namespace lucid {

struct ClusterOptions {
  int max_clusters = 8;     // the elbow is looked for among 2 .. max_clusters
  int max_iterations = 20;  // of Lloyd's algorithm, per number of clusters
  std::uint64_t seed = 0;
  int threads = 1;  // 0: all cores; the result does not depend on it
};

// k-means (L2 over all parameters, k-means++ starts) with k chosen by the elbow method.
// Requires: subset.size() >= 2. Ensures: at least two non-empty, disjoint, ascending subsets whose
// union is `subset`, ordered by their first member; also when all members are equal (then it is
// halved). A function of members, subset and options except `threads`. Errors: kInvalidInput for a
// smaller subset or options below 2 clusters or 1 iteration; kInterrupted when stopped.
// Cost: bounded. Above 2^22 parameters in all (and 256 members) k and the first centres come from a
// random sample of that size, and Lloyd's rounds over all members are cut: 36,000 members of 3,752
// parameters take about 3 s on one core. Copies of at most the sample are held in memory.
Result<std::vector<Subset>> SplitBySimilarity(const Members& members, const Subset& subset,
                                              const ClusterOptions& options,
                                              std::stop_token stop = {});

}  // namespace lucid
