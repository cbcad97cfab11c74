// The bytes of a proof file (docs/proof.md), for its writer and its reader. Little endian.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace lucid::proof_format {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

inline constexpr std::string_view kMagic = "LUCIDPRF";
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 88;  // magic, version, classes, error, two digests
inline constexpr std::size_t kBlockHeader = 8;   // packed and raw bytes; both 0 after the last
inline constexpr std::size_t kFooterBytes = 48;  // nodes, closings, seal
inline constexpr std::size_t kSealBytes = 32;
// A block is packed when it has grown to the first; no block is larger than the second, so that a
// reader's memory has a limit that no file can move.
inline constexpr std::size_t kBlockGoal = 64 << 10;
inline constexpr std::size_t kBlockLimit = 16 << 20;

inline constexpr std::uint8_t kNodeRecord = 1, kClosingRecord = 2;
inline constexpr std::uint8_t kEmptyFlag = 1;

// Appends the bytes of a number.
template <typename T>
void Put(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

// Takes numbers from the front of some bytes. A number that is not there is 0 and leaves ok()
// false.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Take() {
    T value{};
    if (bytes_.size() < sizeof(T)) {
      ok_ = false;
      bytes_ = {};
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return value;
  }
  void Take(std::span<std::uint8_t> out) {
    for (std::uint8_t& byte : out) byte = Take<std::uint8_t>();
  }
  bool ok() const { return ok_; }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace lucid::proof_format
