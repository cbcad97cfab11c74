// What a MemberIndex knows about the members, sorted, and its file: RUN/index.safetensors.
//
//   metadata  format, architecture (canonical), run_key, network, ensemble (digests)
//   order     I64 [classes, members]  each class's members, the largest bound first
//   upper     F32 [classes, members]  their bounds in that order, rounded up; inf: not known
//   seal      U8  [32]                SHA-256 of every byte before it
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/base/digest.h"
#include "lucid/base/result.h"
#include "lucid/ensemble/ensemble.h"

namespace lucid {

// The members of one class. Invariants: `order` is a permutation of [0, members); `upper` descends
// (members with equal bounds by their number), is >= 0 and not NaN.
struct RankedMembers {
  std::vector<std::int32_t> order;
  std::vector<float> upper;
  bool operator==(const RankedMembers&) const = default;
};

struct MemberTable {
  std::string architecture;  // canonical
  // network: Network::digest(). The others are those of the run's manifest.
  Digest run_key, network_digest, ensemble_digest;
  std::vector<RankedMembers> classes;  // at least 2, of equal length >= 1
  bool operator==(const MemberTable&) const = default;
};

// A table of this run that has no classes yet.
MemberTable TableFor(const Ensemble& ensemble);

// Ensures: every upper of the result is at or above the one given, and >= 0. Requires: no NaN, at
// most 2^31 - 1 members.
RankedMembers Rank(std::span<const double> upper);

std::string EncodeMemberTable(const MemberTable& table);
// Accepts exactly what EncodeMemberTable writes. Errors name the source and what is wrong.
Result<MemberTable> ParseMemberTable(std::string_view bytes, const std::string& source);

// kMismatch unless the table is of this run.
Status CheckTable(const MemberTable& table, const Ensemble& ensemble, const std::string& source);

}  // namespace lucid
