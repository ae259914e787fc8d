// An array whose length is known when it is made: on the stack where it is short, so that a call of
// a kernel allocates nothing. Its elements have no values at first.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace heddle {

template <class T, std::size_t kOnStack>
class StackArray {
 public:
  explicit StackArray(std::size_t count) : count_(count) {
    if (count <= kOnStack) return;
    on_heap_ = std::make_unique_for_overwrite<T[]>(count);
    data_ = on_heap_.get();
  }
  StackArray(const StackArray&) = delete;
  StackArray& operator=(const StackArray&) = delete;

  T& operator[](std::size_t i) { return data_[i]; }
  T* data() { return data_; }
  std::span<const T> span() const { return {data_, count_}; }

 private:
  std::size_t count_;
  T on_stack_[kOnStack];
  std::unique_ptr<T[]> on_heap_;
  T* data_ = on_stack_;
};

}  // namespace heddle
