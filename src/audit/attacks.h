// The attacker: what it knows of a row, what it asks, how sure it is.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "baselines/labels.h"
#include "lucid/audit/audit.h"
#include "random/stream.h"

namespace lucid {

// A training row under attack.
struct Target {
  std::int64_t row = 0;
  Labels without;  // N_-i
  // Inputs side by side at which N and N_-i give different labels; empty if none was found.
  std::vector<std::vector<float>> disagreements;
};

// Looks for `count` inputs between two crossings of one segment: N's and N_-i's. Segments join
// training rows of different labels; the one whose crossings are farthest apart is taken.
std::vector<std::vector<float>> FindDisagreements(const Labels& network, const Labels& without,
                                                  const Table& train, std::int64_t count,
                                                  Stream& stream);

using Oracle = std::function<std::int32_t(std::span<const float> x)>;

// What the attacker thinks after asking: higher means "in". NaN: it has nothing to ask. Requires:
// not kTiming.
double Score(Attack attack, const Target& target, const Labels& network, const Table& train,
             const Oracle& ask, Stream& stream);
// The most queries that Score asks.
std::int64_t QueriesOf(Attack attack, std::int64_t duplicates);

}  // namespace lucid
