// Values as the bytes of a message and back. One list of fields for each serves both directions, so
// that a writer and its reader cannot differ.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/bytes.h"

namespace lucid {

// A parameter that a writer has as a constant and a reader has not.
template <typename T, typename Of>
concept Is = std::same_as<std::remove_const_t<T>, Of>;

// What both have in common: io(a, b, ...) writes these values or reads them. A class is exchanged
// by a function Fields(io, value) beside it or below.
template <class Io>
class ByteFields {
 public:
  template <typename... Values>
  void operator()(Values&... values) {
    (One(values), ...);
  }

 private:
  template <typename T>
  void One(T& value) {
    using Plain = std::remove_const_t<T>;
    Io& io = static_cast<Io&>(*this);
    if constexpr (std::is_arithmetic_v<Plain>) {
      io.Number(value);
    } else if constexpr (std::is_enum_v<Plain>) {
      auto number = static_cast<std::underlying_type_t<Plain>>(value);
      io.Number(number);
      if constexpr (Io::kReads) value = static_cast<Plain>(number);
    } else {
      Fields(io, value);
    }
  }
};

class BytesOut : public ByteFields<BytesOut> {
 public:
  static constexpr bool kReads = false;
  explicit BytesOut(std::string& out) : out_(out) {}
  template <typename T>
  void Number(const T& value) {
    PutBytes(out_, value);
  }
  template <typename T>
  void Numbers(const std::vector<T>& values) {
    PutBytes(out_, static_cast<std::uint64_t>(values.size()));
    out_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  std::uint64_t Count(std::uint64_t count) {
    PutBytes(out_, count);
    return count;
  }
  void Require(bool holds) { ok_ = ok_ && holds; }
  bool ok() const { return ok_; }

 private:
  std::string& out_;
  bool ok_ = true;
};

class BytesIn : public ByteFields<BytesIn> {
 public:
  static constexpr bool kReads = true;
  explicit BytesIn(ByteCursor& in) : in_(in) {}
  template <typename T>
  void Number(T& value) {
    value = in_.Take<T>();
  }
  template <typename T>
  void Numbers(std::vector<T>& values) {
    values.resize(static_cast<std::size_t>(Count(0, sizeof(T))));
    for (T& value : values) value = in_.Take<T>();
  }
  // How many values follow, of at least `size` bytes each.
  std::uint64_t Count(std::uint64_t, std::size_t size = 1) {
    const auto count = in_.Take<std::uint64_t>();
    in_.Require(count <= in_.left() / size);
    return in_.ok() ? count : 0;
  }
  void Require(bool holds) { in_.Require(holds); }
  bool ok() const { return in_.ok(); }

 private:
  ByteCursor& in_;
};

template <class Io, typename T>
void List(Io& io, T& values) {
  const std::uint64_t count = io.Count(values.size());
  if constexpr (Io::kReads) values.resize(static_cast<std::size_t>(count));
  for (auto& value : values) io(value);
}

}  // namespace lucid
