#include "random/wiped_vector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <numeric>
#include <span>

namespace {

// What is freed at this address is looked at before it goes: reading it later would be an error.
const void* watched = nullptr;
std::size_t bytes_left = 0, times_freed = 0;

void Look(const void* bytes, std::size_t size) {
  if (bytes != watched || watched == nullptr) return;
  ++times_freed;
  bytes_left += static_cast<std::size_t>(
      std::ranges::count_if(std::span(static_cast<const unsigned char*>(bytes), size),
                            [](unsigned char byte) { return byte != 0; }));
}

}  // namespace

void* operator new(std::size_t size) {
  if (void* bytes = std::malloc(size)) return bytes;
  throw std::bad_alloc();
}
void operator delete(void* bytes) noexcept { std::free(bytes); }
void operator delete(void* bytes, std::size_t size) noexcept {
  Look(bytes, size);
  std::free(bytes);
}

namespace lucid {
namespace {

template <typename Vector>
void FillAndDrop(bool by_growing) {
  Vector numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 1);
  watched = numbers.data();
  bytes_left = times_freed = 0;
  if (by_growing) numbers.resize(numbers.capacity() + 1);
  if (!by_growing) Vector().swap(numbers);
  watched = nullptr;
}

TEST(WipedVector, NothingIsLeftWhereItStood) {
  for (const bool by_growing : {false, true}) {
    FillAndDrop<WipedVector<std::int32_t>>(by_growing);
    EXPECT_EQ(times_freed, 1U);
    EXPECT_EQ(bytes_left, 0U);
    // The same eyes see what an ordinary vector leaves.
    FillAndDrop<std::vector<std::int32_t>>(by_growing);
    EXPECT_EQ(times_freed, 1U);
    EXPECT_GT(bytes_left, 1000U);
  }
}

}  // namespace
}  // namespace lucid
