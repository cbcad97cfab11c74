// Numbers as bytes, little endian, for the binary files.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace lucid {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

// Appends the bytes of a number.
template <typename T>
void PutBytes(std::string& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

// Takes numbers from the front of some bytes. A number that is not there is 0 and leaves ok()
// false.
class ByteCursor {
 public:
  explicit ByteCursor(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Take() {
    static_assert(std::is_arithmetic_v<T>);
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
  // A rule that a reader sets: what was taken has to keep it.
  void Require(bool holds) { ok_ = ok_ && holds; }

  bool ok() const { return ok_; }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace lucid
