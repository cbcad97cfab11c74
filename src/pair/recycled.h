// Immutable values whose storage is used again, so that making the next one allocates nothing.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace lucid {

template <class T>
class Recycler;

// A value of a Recycler, or none. It must not outlive its Recycler.
template <class T>
class Recycled {
 public:
  Recycled() = default;
  explicit operator bool() const { return value_ != nullptr; }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  void reset() { value_.reset(); }

 private:
  friend class Recycler<T>;
  struct GiveBack {
    std::vector<std::unique_ptr<T>>* to = nullptr;
    void operator()(T* used) const { to->emplace_back(used); }
  };
  using Storage = std::unique_ptr<T, GiveBack>;
  explicit Recycled(Storage value) : value_(std::move(value)) {}
  Storage value_;
};

// For one thread.
template <class T>
class Recycler {
 public:
  // Storage of a value that is gone, or a new one by make(); fill(storage) says whether there is a
  // value.
  template <class Make, class Fill>
  Recycled<T> Take(const Make& make, const Fill& fill) {
    std::unique_ptr<T> storage;
    if (unused_.empty()) {
      storage = make();
    } else {
      storage = std::move(unused_.back());
      unused_.pop_back();
    }
    typename Recycled<T>::Storage value(storage.release(), {&unused_});
    if (!fill(*value)) value.reset();
    return Recycled<T>(std::move(value));
  }

 private:
  std::vector<std::unique_ptr<T>> unused_;
};

}  // namespace lucid
