// The bytes of a proof file (docs/proof.md), for its writer and its reader. Little endian.
#pragma once

#include <cstdint>
#include <string_view>

namespace lucid::proof_format {

inline constexpr std::string_view kMagic = "LUCIDPRF";
// Proofs of two classes have the first version. Those of more may speak of mixtures and have the
// second one; a proof of theirs of the first version is one without mixtures.
inline constexpr std::uint32_t kVersion = 2, kMixedVersion = 3;
constexpr std::uint32_t VersionFor(std::int64_t classes) {
  return classes > 2 ? kMixedVersion : kVersion;
}
inline constexpr std::size_t kHeaderBytes = 88;  // magic, version, classes, error, two digests
inline constexpr std::size_t kBlockHeader = 8;   // packed and raw bytes; both 0 after the last
inline constexpr std::size_t kFooterBytes = 48;  // splits, closings, seal
inline constexpr std::size_t kSealBytes = 32;
// A block is packed when it has grown to the first; no block is larger than the second, so that a
// reader's memory has a limit that no file can move.
inline constexpr std::size_t kBlockGoal = 64 << 10;
inline constexpr std::size_t kBlockLimit = 16 << 20;

inline constexpr std::uint8_t kSplitRecord = 1, kClosingRecord = 2;
inline constexpr std::uint8_t kBandFlag = 0x80;   // beside a closing's kind
inline constexpr std::uint8_t kMixedFlag = 0x40;  // weights stand where `below` would
inline constexpr std::uint32_t kEveryMember = 0xFFFFFFFF;

}  // namespace lucid::proof_format
