// Lists of secret numbers: their memory is overwritten before it is given back.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace lucid {

// Overwrites `size` bytes with zeros; the compiler does not leave it out.
void WipeMemory(void* bytes, std::size_t size);

// The standard allocator, which wipes what it frees. `T` is a plain number.
template <typename T>
struct WipingAllocator {
  static_assert(std::is_arithmetic_v<T>);
  using value_type = T;

  WipingAllocator() = default;
  template <typename Other>
  WipingAllocator(const WipingAllocator<Other>&) {}

  T* allocate(std::size_t count) { return std::allocator<T>().allocate(count); }
  void deallocate(T* numbers, std::size_t count) {
    WipeMemory(numbers, count * sizeof(T));
    std::allocator<T>().deallocate(numbers, count);
  }
  bool operator==(const WipingAllocator&) const = default;
};

// A vector that wipes its memory when it goes and when it grows.
template <typename T>
using WipedVector = std::vector<T, WipingAllocator<T>>;

}  // namespace lucid
