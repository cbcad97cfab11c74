// All numbers of a group in training in one block of memory.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

namespace lucid {

// The block lies in huge pages where the system gives them: weights and gradients fill more small
// pages than the first-level TLB has entries (6 % of the time on Zen 3).
class Arena {
 public:
  explicit Arena(std::size_t floats)
      : size_((floats * sizeof(float) + kPage - 1) / kPage * kPage),
        block_(static_cast<char*>(::operator new (size_, std::align_val_t{kPage}))),
        next_(block_.get()) {
    // This is advice only: where it is refused everything works, a little slower.
    madvise(block_.get(), size_, MADV_HUGEPAGE);
  }

  // So many zeros, aligned as well as the sum of all that was taken before. Requires: no more is
  // taken in all than the constructor was told.
  float* Take(std::size_t floats) {
    float* memory = reinterpret_cast<float*>(next_);
    std::fill_n(memory, floats, 0.0f);
    next_ += floats * sizeof(float);
    return memory;
  }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  struct Delete {
    void operator()(char* p) const { ::operator delete (p, std::align_val_t{kPage}); }
  };

  std::size_t size_;
  std::unique_ptr<char, Delete> block_;
  char* next_;
};

}  // namespace lucid
