// Ref<T>: an intrusive, thread-safe reference-counted pointer of one word.
//
//   struct Node : RefCounted { int value = 0; };
//   Ref<Node> node = make_ref<Node>();
//
// T needs `void acquire() const` and `void release() const`. It derives from RefCounted, or defines
// them itself where a class hierarchy must have no virtual functions.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace heddle {

/// The base of counted objects. Copying an object does not copy its count.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) {}
  RefCounted& operator=(const RefCounted&) { return *this; }
  virtual ~RefCounted() = default;

  void acquire() const { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() const {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  /// The number of owners. Only the value 1 is meaningful, and only to the single owner.
  std::uint32_t use_count() const { return count_.load(std::memory_order_acquire); }

 private:
  mutable std::atomic<std::uint32_t> count_{0};
};

/// A counted reference to an object with acquire() and release(). The count is atomic, as that of
/// std::shared_ptr.
template <typename T>
class Ref {
 public:
  using element_type = T;

  Ref() = default;
  Ref(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  explicit Ref(T* pointer) : pointer_(pointer) {
    if (pointer_ != nullptr) pointer_->acquire();
  }
  Ref(const Ref& other) : Ref(other.pointer_) {}
  Ref(Ref&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  template <typename U>
    requires std::convertible_to<U*, T*>
  Ref(const Ref<U>& other) : Ref(other.get()) {}  // NOLINT(google-explicit-constructor)
  template <typename U>
    requires std::convertible_to<U*, T*>
  Ref(Ref<U>&& other) noexcept : pointer_(other.detach()) {}  // NOLINT(google-explicit-constructor)
  ~Ref() {
    if (pointer_ != nullptr) pointer_->release();
  }

  // The parameter is taken by value, so one function copies and moves, and assigning a part of
  // *this to *this is safe.
  Ref& operator=(Ref other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }

  T* get() const { return pointer_; }
  T& operator*() const { return *pointer_; }
  T* operator->() const { return pointer_; }
  explicit operator bool() const { return pointer_ != nullptr; }

  /// Gives up ownership without releasing it; the caller must release().
  T* detach() { return std::exchange(pointer_, nullptr); }

  friend bool operator==(const Ref& a, const Ref& b) { return a.pointer_ == b.pointer_; }
  friend bool operator==(const Ref& a, std::nullptr_t) { return a.pointer_ == nullptr; }

 private:
  T* pointer_ = nullptr;
};

/// Makes an object and the first reference to it.
template <typename T, typename... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace heddle

/// An identity hash for look-ups within a process. The order of its values must never become
/// visible.
template <typename T>
struct std::hash<heddle::Ref<T>> {
  std::size_t operator()(const heddle::Ref<T>& ref) const { return std::hash<T*>()(ref.get()); }
};
